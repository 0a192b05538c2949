#!/bin/sh
# Everything, with the whole data and all rounds, in parts. Writes what was run, when, of which commit
# and with what result into docs/test-full.md, a row for each part; of a part that is not run the row
# stays. `make test-full` runs all, `make test-full PARTS="stories kill9"` some.
set -eu
cd "$(dirname "$0")/.."
page=docs/test-full.md
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
failed=

commit() {
    changed=$(git status --porcelain -- . ':!docs/test-full.md' | head -1)
    echo "$(git rev-parse --short HEAD)${changed:+, changed}"
}

# sum LOG WORD: how many tests passed, or failed.
sum() {
    sed -n "s/^test result: .* \([0-9]*\) $2.*/\1/p" "$1" | awk '{n += $1} END {print n + 0}'
}

# row NAME LOG STATE MINUTES COMMIT: the page's row of a part, which began at that commit.
row() {
    seeds=$(grep -o 'FELIX_TESTS_SEED=[0-9]*' "$2" | sort -u | tr '\n' ' ')
    stories=$(sed -n 's/^\([0-9]* stories\): .*/\1/p' "$2" | head -1)
    first=$(sed -n 's/^FELIX_TESTS_SIMULATED_SEED=\([0-9]*\) and those.*/\1/p' "$2" | head -1)
    rounds=$(grep -c '^round [0-9]*: ' "$2" || true)
    tested=$5
    [ "$(commit)" = "$5" ] || tested="$5, changed meanwhile"
    drawn="${stories:+$stories from seed $first on }${seeds:-}"
    result="$3: $(sum "$2" passed) passed, $(sum "$2" failed) failed, in $4 minutes"
    [ "$rounds" = 0 ] || result="$result; $rounds rounds of kill -9"
    echo "| $1 | $(date -u '+%Y-%m-%d %H:%M UTC') | $tested | $result | ${drawn:-none} |"
}

# keep ROW: the page with this row, and the rows of other parts.
keep() {
    others=$(grep -E '^\| (stories|kill9|tests|release|endurance|foreign) \|' "$page" | grep -v "^| $(echo "$1" | cut -d' ' -f2) |" || true)
    cat >"$page.new" <<PAGE
# The last full run

\`make test-full\` writes this page: every test with the whole data, in six parts, which can be run one
by one. \`stories\` are 10,000 simulated ones; \`kill9\` is 100 rounds of kill -9 under load; \`tests\` is
everything else, with all 336,776 flights through each codec; \`release\` is what has a broker of its own
once more, on a release build, with 20 rounds; \`endurance\` is half an hour of clients that come and are
killed; \`foreign\` is what [suites of Kafka clients](foreign-suites.md)
bring themselves.

| part | when | commit | result | seeds |
|---|---|---|---|---|
$(printf '%s\n%s\n' "$others" "$1" | grep . | sort)

Machine of the last part: $(nproc) processors ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)), Linux $(uname -r).
Tools: $(rustc --version | cut -d' ' -f1-2), $(kcat -V | sed -n 's/^Version \([^ ]*\) .*\(librdkafka [^ ]*\) .*/kcat \1 with \2/p'), $(grep -v '^#' tests/python/requirements.txt).
PAGE
    mv "$page.new" "$page"
}

# part NAME COMMAND...
part() {
    name=$1
    shift
    log=$logs/$name
    begin=$(date +%s)
    from=$(commit)
    state=passed
    echo "felix: $name: $*"
    # The pipe must not hide a failure.
    { "$@" 2>&1 || echo "felix: FAILED"; } | tee "$log"
    if grep -q '^felix: FAILED' "$log"; then
        state=failed
        failed="$failed $name"
    fi
    keep "$(row "$name" "$log" "$state" $((($(date +%s) - begin) / 60)) "$from")"
}

# What the other parts have not. The pieces of felix-bench know no `--skip`.
the_others() {
    ended=0
    cargo test --workspace --exclude felix-bench --locked --no-fail-fast -- --nocapture \
        --skip simulated::promises_hold --skip survives_kill_9 --skip nothing_is_left_of_clients \
        || ended=1
    cargo test --package felix-bench --locked --no-fail-fast || ended=1
    return "$ended"
}

run() {
    case $1 in
    stories) part "$1" cargo test --package felix-shard --lib --locked -- --nocapture simulated:: ;;
    kill9) part "$1" cargo test --package felix-tests --test kill9 --locked -- --nocapture ;;
    tests) part "$1" the_others ;;
    foreign) part "$1" scripts/foreign-suites.sh ;;
    endurance) part "$1" cargo test --release --package felix-tests --test endurance --locked -- --nocapture ;;
    release)
        part "$1" cargo test --release --package felix-tests --locked --no-fail-fast -- --nocapture \
            --skip nothing_is_left_of_clients
        ;;
    *)
        echo "felix: $1 is no part of the full run; there are stories, kill9, tests, release, endurance and foreign" >&2
        exit 2
        ;;
    esac
}

# The suites of others have a set-up of their own.
if [ "${PARTS:-}" != foreign ]; then
    scripts/setup-test.sh
    scripts/check.sh
fi
export FELIX_TESTS_FULL=1
for name in ${PARTS:-stories kill9 tests release endurance foreign}; do
    run "$name"
done
cat "$page"
if [ -n "$failed" ]; then
    echo "felix: failed:$failed" >&2
    exit 1
fi
