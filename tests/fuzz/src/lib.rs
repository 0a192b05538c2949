//! Everything that reads foreign bytes, fed with hostile ones.
//!
//! A [`Target`] is a function over bytes that asserts what must hold whatever they are, and says
//! whether they were accepted. The same targets run in three ways: `tests/replay.rs` replays the
//! committed [`corpus`] and a bounded, seeded run of [`Mutator`] over it; `cargo-fuzz/` hands them
//! to libFuzzer; the program of this crate replays one file, and makes the [`seeds`] that the
//! corpus begins with. `docs/testing.md` says how to run each.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what fails here is what the fuzzer looks for"
)]

#[allow(dead_code, reason = "shared with the tests of the Kafka listener")]
#[path = "../../../kafka/tests/protocol/bench.rs"]
mod bench;
#[allow(dead_code, reason = "shared with the tests of the Kafka listener")]
#[path = "../../../kafka/tests/protocol/client.rs"]
mod client;
pub mod corpus;
mod memory;
#[allow(dead_code, reason = "shared with the tests of the Kafka listener")]
#[path = "../../../kafka/tests/protocol/model.rs"]
mod model;
mod mutator;
#[allow(dead_code, reason = "shared with the tests of the Kafka listener")]
#[path = "../../../kafka/tests/protocol/pipe.rs"]
mod pipe;
pub mod seeds;
pub mod targets;

pub use memory::Watched;
pub use mutator::Mutator;
pub use seeds::Seed;
pub use targets::{TARGETS, Target};
