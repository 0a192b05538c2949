# `make run` and `make test` set up what they need on a fresh Debian or Ubuntu that has Rust, and
# do nothing of it twice.

.PHONY: run test test-full check fuzz figures

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

# Everything, with whole data and all rounds; takes a while and writes docs/test-full.md.
test-full:
	@scripts/test-full.sh

# Format, lints, documentation and dependencies; no tests.
check:
	@scripts/setup-build.sh
	@scripts/check.sh

# Each fuzz target for a minute, or as long as `make fuzz SECONDS=600 TARGETS=batch` says.
fuzz:
	@scripts/fuzz.sh $(or $(SECONDS),60) $(TARGETS)

# The figures of docs/performance.md on this machine: `make figures ARGS=--quick` for a look.
figures:
	@scripts/setup-build.sh
	@cargo build --quiet --release --locked --package felix-broker
	@cargo run --quiet --release --locked --package felix-benches --bin figures -- $(ARGS)
