#!/bin/sh
# Everything, with the whole data and all rounds, on a debug and on a release broker. Writes what
# was run, where and with what result into docs/test-full.md.
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
begin=$(date +%s)
status=failed
write() {
    passed=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$log" | awk '{n+=$1} END {print n+0}')
    failed=$(sed -n 's/^test result: .* \([0-9]*\) failed.*/\1/p' "$log" | awk '{n+=$1} END {print n+0}')
    seeds=$(grep -o 'FELIX_TESTS_SEED=[0-9]*' "$log" | sort -u | tr '\n' ' ')
    stories=$(sed -n 's/^\([0-9]* stories\): .*/\1/p' "$log" | head -1)
    first=$(sed -n 's/^FELIX_TESTS_SIMULATED_SEED=\([0-9]*\) and those.*/\1/p' "$log" | head -1)
    cat >docs/test-full.md <<PAGE
# The last full run

\`make test-full\` writes this page. It runs every test with the whole data: all 336,776 flights
through each codec, 100 rounds of kill -9 under load, on a debug and on a release build.

| | |
|---|---|
| when | $(date -u '+%Y-%m-%d %H:%M UTC') |
| result | $status: $passed passed, $failed failed, in $((($(date +%s) - begin) / 60)) minutes |
| simulation | ${stories:-none}, from seed ${first:-none} on |
| seeds | ${seeds:-none} |
| machine | $(nproc) processors ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)), Linux $(uname -r) |
| tools | $(rustc --version | cut -d' ' -f1-2), $(kcat -V | sed -n 's/^Version \([^ ]*\) .*\(librdkafka [^ ]*\) .*/kcat \1 with \2/p'), $(grep -v '^#' tests/python/requirements.txt) |
PAGE
}
run() {
    echo "felix: $*"
    # The pipe must not hide a failure.
    { "$@" 2>&1 || echo "felix: FAILED"; } | tee -a "$log"
    if grep -q '^felix: FAILED' "$log"; then
        write
        exit 1
    fi
}
scripts/setup-test.sh
scripts/check.sh
export FELIX_TESTS_FULL=1
run cargo test --workspace --locked --no-fail-fast -- --nocapture
run cargo test --release --package felix-tests --locked --no-fail-fast -- --nocapture
status=passed
write
cat docs/test-full.md
