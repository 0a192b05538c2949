//! The client against real brokers: ours, and Apache Kafka for what ours does not serve.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these are tests, and their brokers are other processes"
)]

mod apache;
mod apache_security;
mod batch;
mod felix;
mod round_trip;
mod security;
mod shared;
mod talker;
