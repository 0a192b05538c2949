//! The Kafka listener as a client meets it: real frames made by an independent implementation of
//! the protocol, an in-memory connection, and shards that commit when the test says so.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod bench;
mod client;
mod cluster;
mod drain;
mod epochs;
mod fetch;
mod frames;
mod heavy;
mod idempotence;
mod list_offsets;
mod log;
mod memory;
mod metadata;
mod model;
mod order;
mod pipe;
mod produce;
mod quotas;
mod refusals;
mod sasl;
mod timings;
mod turns;
