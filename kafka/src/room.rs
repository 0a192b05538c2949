//! What one connection may begin: by what it holds already, and by what the core's memory allows.

use crate::in_flight::Load;
use felix_core::Memory;
use felix_core::limits::{
    FETCH_BYTES_MAX, FETCHES_IN_FLIGHT_PER_CONNECTION_MAX, OUTBOUND_BYTES_PER_CONNECTION_MAX,
    REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX,
};
use felix_core::memory::PARTS_OF_ANSWERS;

/// Bytes of records that a Fetch may bring even where those before it leave less.
const FETCH_SHARE_BYTES_MIN: usize = 1 << 20;

/// Bytes of records that a Fetch may bring where no memory for answers is left. It must bring
/// something, since those who hold the memory may be readers that never take their answers.
pub(crate) const FETCH_BYTES_WHEN_SHORT: usize = 64 << 10;

/// How it stands with a connection.
pub(crate) struct Room<'a> {
    /// The core's memory.
    pub(crate) memory: &'a Memory,
    /// What its requests under way hold.
    pub(crate) load: Load,
    /// Bytes of answers on their way to the peer.
    pub(crate) outbox_bytes: usize,
    /// Bytes of produces that may be under way together; one may be larger.
    pub(crate) produce_bytes_max: usize,
    /// Whether the request that is next has been paid for.
    pub(crate) paid: bool,
}

impl Room<'_> {
    /// Whether a request of this size may be begun.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        let load = self.load;
        load.requests < REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
            && load.fetches < FETCHES_IN_FLIGHT_PER_CONNECTION_MAX
            && load.answer_bytes + self.outbox_bytes < OUTBOUND_BYTES_PER_CONNECTION_MAX
            && self.has_beside_produces(bytes)
            && self.memory_has(bytes)
    }

    /// Whether the produces under way leave room for a request of this size.
    pub(crate) fn has_beside_produces(&self, bytes: usize) -> bool {
        let produce_bytes = self.load.produce_bytes;
        produce_bytes == 0 || produce_bytes + bytes <= self.produce_bytes_max
    }

    /// Whether the core's memory allows one more request of this size. Who holds none of it may
    /// always go on with one, so that there is progress whoever holds the rest; and who may not
    /// go on holds some, so that its own answer, or the sending of it, is what it waits for.
    fn memory_has(&self, bytes: usize) -> bool {
        let Self { memory, load, .. } = self;
        let inbound = load.requests == 0
            || self.paid
            || (bytes <= memory.inbound.free() && !memory.inbound.has_waiting());
        let holds_answers = load.fetches > 0 || load.answer_bytes > 0 || self.outbox_bytes > 0;
        inbound && (!holds_answers || memory.outbound.unpromised() > 0)
    }

    /// Bytes of records one more Fetch may bring: what the Fetches before it leave of the
    /// connection's bound, never so little that a reader crawls, and no more than its part of the
    /// core's memory.
    pub(crate) fn fetch_bytes_max(&self) -> usize {
        let load = self.load;
        let held = load.fetch_bytes + load.answer_bytes + self.outbox_bytes;
        let of_core = self.memory.outbound.unpromised() / PARTS_OF_ANSWERS;
        OUTBOUND_BYTES_PER_CONNECTION_MAX
            .saturating_sub(held)
            .clamp(FETCH_SHARE_BYTES_MIN, FETCH_BYTES_MAX)
            .min(of_core.max(FETCH_BYTES_WHEN_SHORT))
    }
}
