//! How much a run does.

use crate::broker::CONNECTIONS_MAX;

/// The processor of the broker's one core, and of the floor it is compared with.
pub(crate) const BROKER_CPU: usize = 0;
/// The processor of the client.
pub(crate) const CLIENT_CPU: usize = 1;

/// Samples below which a quotient of one in a thousand is indicative only.
pub(crate) const SAMPLES_FOR_TAIL: usize = 1_000_000;

/// The amounts of one run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How often each side of a comparison has its turn.
    pub(crate) rounds: usize,
    /// Round trips of a side in each of its turns.
    pub(crate) round_trips: usize,
    /// Flushes of a side in each of its turns.
    pub(crate) flushes: usize,
    /// Batches of 64 KiB in each of the throughput's turns.
    pub(crate) batches: usize,
    /// Seconds for which an idle broker is watched.
    pub(crate) idle_s: u64,
    /// Connections whose memory is measured.
    pub(crate) connections: usize,
    /// Shards whose memory is measured.
    pub(crate) shards: usize,
}

impl Plan {
    /// What `docs/performance.md` shows: a million samples where the tail is quoted.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            rounds: 5,
            round_trips: SAMPLES_FOR_TAIL / 5,
            flushes: 1_000,
            batches: 8_192,
            idle_s: 5,
            connections: CONNECTIONS_MAX,
            shards: 1_000,
        }
    }

    /// A look in two minutes.
    #[must_use]
    pub const fn quick() -> Self {
        Self {
            rounds: 5,
            round_trips: 20_000,
            flushes: 100,
            batches: 1_024,
            idle_s: 5,
            connections: 1_000,
            shards: 1_000,
        }
    }
}
