#!/bin/sh
# Format, lints, documentation and dependencies; no tests.
set -eu
cd "$(dirname "$0")/.."
step() {
    echo "felix: $*"
    "$@"
}
step cargo fmt --all --check
step cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" step cargo doc --quiet --workspace --no-deps --document-private-items --locked
step scripts/deny.sh
