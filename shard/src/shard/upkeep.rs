//! What a shard's log is owed once flushes have made something durable, and what retention takes
//! from it.

use super::{Effects, Phase, Shard};
use crate::log::{KeptUp, LogError, Removal, Upkeep};
use felix_core::{Generation, Offset, ShardError, Timestamp};

/// What a shard's log is owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owed {
    /// Nothing.
    Nothing,
    /// A checkpoint in a while: something durable lies above the recovery point.
    Later,
    /// Upkeep at once.
    Now,
}

impl Shard {
    /// What it is owed. Where a segment became full since, retention is looked at too.
    pub(crate) fn upkeep_owed(&self, now: Timestamp) -> Owed {
        let _at_work = self.suspect.enter();
        let mut phase = self.phase.borrow_mut();
        let Phase::Open(open) = &mut *phase else {
            return Owed::Nothing;
        };
        if open.log.is_unindexed() && self.spec.retention.is_bounded() {
            open.log.retain(self.spec.retention, now);
        }
        if open.log.owes_upkeep() {
            Owed::Now
        } else if open.log.is_behind() {
            Owed::Later
        } else {
            Owed::Nothing
        }
    }

    /// Looks for what is not kept any more.
    pub(crate) fn retain(&self, now: Timestamp) {
        let _at_work = self.suspect.enter();
        if let Phase::Open(open) = &mut *self.phase.borrow_mut() {
            open.log.retain(self.spec.retention, now);
        }
    }

    /// Whether its log is to begin later, and does not yet.
    pub(crate) fn owes_start(&self) -> bool {
        let phase = self.phase.borrow();
        phase.open().is_ok_and(|open| open.log.owes_start())
    }

    /// Whether time alone takes something from it.
    pub(crate) fn is_aging(&self) -> bool {
        self.spec.retention.age.is_some() && self.segments() > 1
    }

    /// Segments of its log; none where the shard is not served.
    pub(crate) fn segments(&self) -> usize {
        let phase = self.phase.borrow();
        phase.open().map_or(0, |open| open.log.segment_count())
    }

    /// Offsets below the start of its log.
    pub(crate) fn trimmed(&self) -> u64 {
        let phase = self.phase.borrow();
        phase.open().map_or(0, |open| open.log.start().get())
    }

    /// Index files and a checkpoint to be written; see [`crate::log::Log::upkeep`].
    pub(crate) fn begin_upkeep(&self) -> Option<Upkeep> {
        self.phase.borrow().open().ok()?.log.upkeep()
    }

    /// Takes a finished upkeep back.
    ///
    /// # Errors
    /// Why the files could not be written: the shard goes on without them.
    pub(crate) fn kept_up(&self, result: Result<KeptUp, LogError>) -> Result<Effects, LogError> {
        let mut effects = Effects::default();
        let taken = match &mut *self.phase.borrow_mut() {
            Phase::Open(open) => {
                let taken = open.log.kept_up(result);
                // The log may begin behind what readers saw last, where only control batches are
                // left.
                effects.moved = open.advance(open.mark);
                open.count_producers();
                taken
            }
            Phase::Failed(failed) => {
                let taken = failed.log.as_mut().map(|log| log.kept_up(result));
                failed.settle();
                self.note_unflushed(failed.last_flush_bytes());
                taken.unwrap_or(Ok(()))
            }
            Phase::Opening | Phase::Closed => Ok(()),
        };
        match taken {
            Ok(()) => Ok(effects),
            Err(error) if error.is_failed_sync() => Ok(self.fail(error.into())),
            Err(error) => Err(error),
        }
    }

    /// Files to be removed, if there are any.
    pub(crate) fn removal(&self) -> Option<Removal> {
        match &mut *self.phase.borrow_mut() {
            Phase::Open(open) => open.log.removal(),
            Phase::Opening | Phase::Failed(_) | Phase::Closed => None,
        }
    }

    /// The greatest generation up to the one asked for that holds records, and the offset after its
    /// last one. `None`: it has not begun.
    pub(crate) fn generation_end(
        &self,
        asked: Generation,
    ) -> Result<Option<(Generation, Offset)>, ShardError> {
        Ok(self.phase.borrow().open()?.log.generation_end(asked))
    }

    /// The generation of the record at `offset`.
    pub(crate) fn generation_at(&self, offset: Offset) -> Result<Generation, ShardError> {
        Ok(self.phase.borrow().open()?.log.generation_at(offset))
    }
}
