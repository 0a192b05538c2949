//! The stores of the catalog: what all of them promise, and what becomes of each when its process,
//! its disk or its database fails.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(
    clippy::print_stderr,
    reason = "seeds, cases and tests that are skipped are named"
)]

mod conformance;
mod embedded;
mod failing_disk;
mod kill9;
mod postgres;
mod support;
