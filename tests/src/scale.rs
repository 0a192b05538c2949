//! How much a run does: a cut by default, everything with `FELIX_TESTS_FULL=1`.

use std::time::Duration;

/// Whether this run does everything.
#[must_use]
pub fn is_full() -> bool {
    std::env::var("FELIX_TESTS_FULL").is_ok_and(|full| full == "1")
}

/// Rows of the flights that go through each codec.
#[must_use]
pub fn flights_rows() -> usize {
    if is_full() { 336_776 } else { 20_000 }
}

/// How often the broker is killed under load.
#[must_use]
pub fn kill_rounds() -> usize {
    match is_full() {
        // A debug build checks itself while it serves.
        true if cfg!(debug_assertions) => 100,
        true => 20,
        false => 6,
    }
}

/// Bytes that go through each codec into one log.
#[must_use]
pub fn codec_bytes() -> usize {
    if is_full() { 24 << 20 } else { 3 << 20 }
}

/// Whether a test must fail that cannot be run here: in CI and in a full run, where what is not
/// checked must not pass for checked.
#[must_use]
pub fn is_strict() -> bool {
    is_full() || std::env::var("CI").is_ok_and(|ci| ci == "true")
}

/// Answers that each client of a traced broker waits for.
#[must_use]
pub fn traced_answers() -> usize {
    if is_full() { 800 } else { 80 }
}

/// How long clients of all kinds come and go.
#[must_use]
pub fn endurance() -> Duration {
    Duration::from_secs(if is_full() { 30 * 60 } else { 20 })
}
