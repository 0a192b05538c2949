#!/bin/sh
# Runs each fuzz target for a while, or only those named: scripts/fuzz.sh [seconds [target...]].
# What is new and interesting stays in target/fuzz/corpus; an input that breaks a promise is kept
# in tests/fuzz/cargo-fuzz/artifacts, and the run fails.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -eq 0 ] || shift
scripts/setup-build.sh
cargo fuzz --version >/dev/null 2>&1 || {
    echo "felix: installing cargo-fuzz"
    cargo install --quiet --locked cargo-fuzz
}
root=$(pwd)
# libFuzzer's flags are unstable ones; this lets the ordinary compiler take them. Our own code is
# safe Rust, so no sanitizer is needed to see a fault.
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}/fuzz"
if [ $# -eq 0 ]; then
    set -- batch codec placed request connection log producers
fi
for target in "$@"; do
    found="${CARGO_TARGET_DIR}/corpus/$target"
    mkdir -p "$found"
    echo "felix: fuzzing $target for $seconds s"
    cargo fuzz run --fuzz-dir tests/fuzz/cargo-fuzz --sanitizer none "$target" \
        "$found" "$root/tests/fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 -verbosity=1
done
