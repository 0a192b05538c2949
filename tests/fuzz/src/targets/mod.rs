//! What is fuzzed, one file each. Each `run` asserts what must hold whatever the bytes are, and
//! says whether they were accepted.

pub mod batch;
pub mod codec;
pub mod connection;
pub mod log;
pub mod placed;
pub mod producers;
pub mod request;

use crate::seeds::{self, Seed};

/// One parser of foreign bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its corpus folder and of its program under `cargo-fuzz/`.
    pub name: &'static str,
    /// Feeds it; panics where a promise is broken. Whether the bytes were accepted.
    pub run: fn(&[u8]) -> bool,
    /// What its corpus begins with.
    pub seeds: fn() -> Vec<Seed>,
    /// Mutated inputs in an ordinary test run: a second or two.
    pub rounds: usize,
}

/// All of them.
pub const TARGETS: [Target; 7] = [
    Target {
        name: "batch",
        run: batch::run,
        seeds: seeds::batches::clients,
        rounds: 4000,
    },
    Target {
        name: "codec",
        run: codec::run,
        seeds: seeds::batches::compressed,
        rounds: 3000,
    },
    Target {
        name: "placed",
        run: placed::run,
        seeds: seeds::batches::placed,
        rounds: 4000,
    },
    Target {
        name: "request",
        run: request::run,
        seeds: seeds::frames::requests,
        rounds: 20_000,
    },
    Target {
        name: "connection",
        run: connection::run,
        seeds: seeds::frames::connections,
        rounds: 1500,
    },
    Target {
        name: "log",
        run: log::run,
        seeds: seeds::logs::directories,
        rounds: 1000,
    },
    Target {
        name: "producers",
        run: producers::run,
        seeds: seeds::producers::snapshots,
        rounds: 1000,
    },
];

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
