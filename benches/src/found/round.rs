//! One measured turn of one side.

use super::Latencies;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// What one turn found.
#[derive(Clone, Debug)]
pub struct Round {
    /// How long load was offered, without the time to warm up.
    pub lasted: Duration,
    /// From the intended time of each request to its answer or delivery, in nanoseconds. Requests
    /// that were never answered count with the time that was waited for them.
    pub latencies: Latencies,
    /// How late this program itself sent, in nanoseconds. It is part of each latency.
    pub lateness: Histogram<u64>,
    /// Requests that were answered, or batches that were delivered.
    pub operations: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of the batches in them.
    pub bytes: u64,
    /// Requests that nobody answered in time.
    pub unanswered: u64,
    /// Answers that were refusals, by what they said.
    pub errors: BTreeMap<String, u64>,
    /// For each slot of `latencies`, whether the host took time from a processor in use.
    pub stolen: Vec<bool>,
    /// The part of the time of the processors in use that the host gave to others, in percent.
    pub stolen_percent: f64,
    /// What the server used, slot by slot; empty where it is not ours to ask.
    pub usage: Vec<Usage>,
    /// The part of the turn in which one of this program's threads had something to do, for the
    /// busiest of them: near one and the generator may be the limit.
    pub client_busy: f64,
    /// The part of the turn in which one of this program's threads could have run and others ran
    /// on its processor, for the one that waited longest.
    pub client_waited: f64,
    /// The part of the answers that found a client awake that was to sleep when it waits, because
    /// something else was nearly due: they did not pay for waking it.
    pub client_awake: f64,
}

/// What a process used in one slot, and held at its end.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The end of the slot, from the start of the turn.
    pub at: Duration,
    /// Processors kept busy, as a mean: 1.0 is one of them all the time.
    pub processors: f64,
    /// Bytes of memory resident.
    pub resident_bytes: u64,
}

impl Round {
    /// Bytes of batches a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.lasted)
    }

    /// Records a second.
    #[must_use]
    pub fn records_per_second(&self) -> f64 {
        per_second(self.records, self.lasted)
    }

    /// Whether nothing at all was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0 && self.latencies.slots_used() == 0 && self.errors.is_empty()
    }

    /// Whether anything was refused or left without an answer.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.unanswered > 0 || !self.errors.is_empty()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 bytes are more than a run moves"
)]
fn per_second(amount: u64, lasted: Duration) -> f64 {
    amount as f64 / lasted.as_secs_f64().max(f64::MIN_POSITIVE)
}
