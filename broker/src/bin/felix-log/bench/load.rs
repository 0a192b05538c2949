//! What a measured side is given to do, and where.

use super::machine;
use felix_core::Durability;
use std::time::Duration;

/// What is offered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Load {
    /// When an append is acknowledged.
    pub(crate) durability: Durability,
    /// Bytes of each batch, about.
    pub(crate) batch_bytes: usize,
    /// Appends under way at once, at most.
    pub(crate) waiters: usize,
    /// Shards that take turns.
    pub(crate) shards: usize,
    /// Appends a second (open loop); `None`: each answer brings the next (closed loop).
    pub(crate) rate: Option<u64>,
}

/// How it is measured.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Setup {
    /// The processors of the cores, one thread each.
    pub(crate) cpus: Vec<usize>,
    /// Those that the process may use.
    pub(crate) all_cpus: Vec<usize>,
    /// From the first unflushed write of a periodic shard to its flush.
    pub(crate) flush_interval: Duration,
    /// Bytes at which a segment is full.
    pub(crate) segment_bytes: u64,
    /// What does not count at the beginning of a round.
    pub(crate) warm_up: Duration,
    /// What counts.
    pub(crate) span: Duration,
    /// How often each side has its turn.
    pub(crate) rounds: usize,
    /// How long before an append is due the clock is watched.
    pub(crate) lead: Duration,
}

/// The policy's name, as in a stream's settings.
pub(crate) const fn policy(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "none",
        Durability::Periodic => "periodic",
        Durability::OnCommit => "on_commit",
    }
}

impl Setup {
    /// The processors for what is beside the cores.
    pub(crate) fn aside(&self) -> Vec<usize> {
        machine::beside(&self.cpus, &self.all_cpus)
    }
}

impl Load {
    /// What it is, in a line.
    pub(crate) fn words(&self) -> String {
        let rate = match self.rate {
            Some(rate) => format!("{rate}/s"),
            None => "closed loop".to_owned(),
        };
        format!(
            "{}, {} bytes, {} waiters, {} shards, {rate}",
            policy(self.durability),
            self.batch_bytes,
            self.waiters,
            self.shards
        )
    }

    /// The share of one of so many cores, of its shards and with its part of the rate.
    pub(crate) fn share(&self, cores: usize) -> (usize, Option<f64>) {
        let waiters = self.waiters.div_ceil(cores);
        #[expect(clippy::cast_precision_loss, reason = "rates are small numbers")]
        let rate = self.rate.map(|rate| rate as f64 / cores as f64);
        (waiters, rate)
    }
}
