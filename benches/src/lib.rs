//! Figures of a real broker, measured from outside.
//!
//! [`Figures::take`] starts the release broker on one core, drives it over loopback from another,
//! and compares with what the same machine does at least: an [`echo`] of the same sizes, a bare
//! write and flush. `docs/performance.md` says what each figure shows and what it does not.
#![expect(
    clippy::disallowed_methods,
    reason = "whoever measures time reads the clock, and waits for others to be ready"
)]

mod binary;
pub mod broker;
mod connection;
pub mod echo;
mod figures;
mod flush;
mod idle;
mod latency;
mod machine;
mod memory;
mod pin;
mod plan;
mod produce;
mod report;
mod round_trip;
mod throughput;
mod usage;

pub use figures::Figures;
pub use plan::Plan;
pub use report::{json, markdown};
