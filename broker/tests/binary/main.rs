//! The real binary, started as an operator starts it, on loopback and in temporary directories.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod catalog;
mod connections;
mod felix_log;
mod felix_log_bench;
mod harness;
mod heavy;
mod http;
mod lifecycle;
mod logs;
mod lost;
mod metrics;
mod printed;
mod refusals;
mod settings;
mod shutdown;
mod state;
mod wire;
