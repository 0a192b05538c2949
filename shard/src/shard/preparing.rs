//! Space prepared for a shard's appends.

use super::{Phase, Shard};
use crate::log::{Preparation, Prepared};
use felix_core::Monotonic;

impl Shard {
    /// Space to be prepared; see [`crate::log::Log::preparation`].
    pub(crate) fn begin_preparation(&self, now: Monotonic) -> Option<Preparation> {
        match &mut *self.phase.borrow_mut() {
            Phase::Open(open) => open.log.preparation(now),
            Phase::Opening | Phase::Failed(_) | Phase::Closed => None,
        }
    }

    /// Takes space that was prepared.
    pub(crate) fn prepared(&self, prepared: &Prepared) {
        if let Phase::Open(open) = &mut *self.phase.borrow_mut() {
            open.log.prepared(prepared);
        }
    }

    /// Bytes prepared and not used yet.
    pub(crate) fn prepared_bytes(&self) -> u64 {
        let phase = self.phase.borrow();
        phase.open().map_or(0, |open| open.log.prepared_bytes())
    }
}
