//! Microbenchmarks of the pieces of the hot path, each by itself and beside what it cannot be
//! faster than. `make bench-micro` measures them; `cargo test` runs each once. What a figure shows,
//! and what it does not, is said in the file of its group; the method and a run are in
//! `docs/performance.md`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "whoever measures time reads the clock, and says what it could not do"
)]

mod append;
mod batches;
mod checksum;
mod codec;
mod executor;
mod hop;
mod mesh;
mod processors;
mod scale;
mod search;
mod sleeper;
mod spinner;
mod tls;
mod validate;
mod wake;

use criterion::Criterion;
use rustix::thread::{MembarrierCommand, membarrier};
use std::time::Duration;

/// With these a whole run takes some four minutes.
const WARM_UP: Duration = Duration::from_millis(700);
const MEASUREMENT: Duration = Duration::from_secs(2);

fn main() {
    // As the broker does, before any thread; a kernel that refuses makes sleeping slower.
    if let Err(error) = membarrier(MembarrierCommand::RegisterPrivateExpedited) {
        eprintln!("membarrier cannot be registered ({error}); what sleeps is slower for it");
    }
    let mut criterion = Criterion::default()
        .warm_up_time(WARM_UP)
        .measurement_time(MEASUREMENT)
        .configure_from_args();
    validate::measure(&mut criterion);
    checksum::measure(&mut criterion);
    append::measure(&mut criterion);
    search::measure(&mut criterion);
    codec::measure(&mut criterion);
    hop::measure(&mut criterion);
    wake::measure(&mut criterion);
    tls::measure(&mut criterion);
    criterion.final_summary();
}
