# `make run` and `make test` set up what they need on a fresh Debian or Ubuntu that has Rust, and
# do nothing of it twice.

.PHONY: run test test-full check fuzz bench bench-micro bench-log

# A broker for trying things out, in the foreground: `make run ARGS=--help` shows its settings.
run:
	@scripts/setup-build.sh
	@scripts/setup-kcat.sh
	@echo "felix: building; the first time takes some minutes"
	@cargo build --quiet --release --locked --package felix-broker
	@exec "$${CARGO_TARGET_DIR:-target}/release/felix-broker" --dev $(ARGS)

# What every change must pass.
test:
	@scripts/setup-test.sh
	@scripts/check.sh
	@cargo test --workspace --locked

# Everything, with whole data and all rounds, in parts; takes two hours and writes docs/test-full.md.
# `make test-full PARTS="stories kill9"` runs some of them.
test-full:
	@PARTS="$(PARTS)" scripts/test-full.sh

# Format, lints, documentation and dependencies; no tests.
check:
	@scripts/setup-build.sh
	@scripts/check.sh

# Each fuzz target for a minute, or as long as `make fuzz SECONDS=600 TARGETS=batch` says.
fuzz:
	@scripts/fuzz.sh $(or $(SECONDS),60) $(TARGETS)

# A fresh broker against the floors of this machine, in two minutes. `make bench ARGS=race` takes
# an hour and a half; `make bench ARGS="run --help"` shows what else there is. The program is
# target/release/felix-bench.
bench:
	@scripts/setup-build.sh >&2
	@echo "felix: building; the first time takes some minutes" >&2
	@cargo build --quiet --release --locked --package felix-broker --package felix-bench
	@exec "$${CARGO_TARGET_DIR:-target}/release/felix-bench" $(or $(ARGS),race --quick)

# The pieces of the hot path, each by itself: `make bench-micro ARGS="codec --save-baseline before"`
# measures one group, ARGS="codec --baseline before" compares.
bench-micro:
	@scripts/setup-build.sh
	@cargo bench --quiet --locked --package felix-bench --bench pieces -- $(ARGS)

# The log by itself, against its targets, in ten minutes: `make bench-log DIR=/mnt/disk` measures
# another file system, ARGS="--policy on_commit --waiters 1,64" something else.
bench-log:
	@scripts/setup-build.sh >&2
	@echo "felix: building; the first time takes some minutes" >&2
	@cargo build --quiet --release --locked --package felix-broker --bin felix-log
	@exec "$${CARGO_TARGET_DIR:-target}/release/felix-log" bench "$(or $(DIR),target)" $(or $(ARGS),--scenarios)
