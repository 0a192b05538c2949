#!/bin/sh
# Runs the test suites of Kafka clients against this build's broker and writes docs/foreign-suites.md; with
# names (kafka-python, franz-go, librdkafka) only these, and no page. See tests/foreign/README.md.
set -eu
cd "$(dirname "$0")/.."
scripts/setup-foreign.sh
cargo build --quiet --locked --package felix-broker
exec python3 tests/foreign/run.py "${CARGO_TARGET_DIR:-target}/debug/felix-broker" "$@"
