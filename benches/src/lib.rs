//! A load generator for brokers that speak Kafka, and the floors of the machine it runs on.
//!
//! What is offered lies in [`load`]: an open loop on pinned threads, through the lean Kafka client
//! of [`client`]. What the machine does at least lies in [`floor`]. Whatever was measured becomes
//! [`found`], and [`report`] shows it. `docs/performance.md` says what each figure shows and what
//! it does not.
#![expect(
    clippy::disallowed_methods,
    reason = "whoever measures time reads the clock, and waits for others to be ready"
)]

pub mod broker;
pub mod child;
pub mod cli;
pub mod client;
pub mod contest;
pub mod floor;
pub mod footprint;
pub mod found;
pub mod load;
pub mod open_files;
pub mod pin;
pub mod problem;
pub mod race;
pub mod report;
pub mod siege;
pub mod system_clock;
pub mod usage;
