//! The program as its users run it: against real brokers, and against a server that stalls.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arguments;
mod brokers;
mod failures;
mod interrupt;
mod program;
mod race;
mod stall;
