//! Making durable what was written to a shard, and closing its log. A shard whose write has failed
//! has one last flush ahead: what it acknowledged before is to be as durable as was promised.

use super::failure::Failed;
use super::{Effects, Phase, Shard};
use crate::log::{FailureNote, Flush, Flushed, Log, LogError};
#[cfg(test)]
use crate::runtime::broken::{self, Broken};
use felix_core::Durability;

impl Shard {
    /// Bytes written and not yet durable.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        match &*self.phase.borrow() {
            Phase::Open(open) => open.log.dirty_bytes(),
            Phase::Failed(failed) => failed.dirty_bytes(),
            Phase::Opening | Phase::Closed => 0,
        }
    }

    /// What would make everything written so far durable.
    pub(crate) fn flush(&self) -> Option<Flush> {
        match &*self.phase.borrow() {
            Phase::Open(open) => open.log.flush(),
            Phase::Failed(failed) => failed.log.as_ref()?.flush(),
            Phase::Opening | Phase::Closed => None,
        }
    }

    /// Takes a finished flush back, if there was one to run, and commits what is durable; who waits
    /// for it is told by [`Shard::next_settled`]. Returns how many appends that committed, too.
    /// Where the shard has failed meanwhile, nobody is told anything more.
    pub(crate) fn flushed(&self, result: Option<Result<Flushed, LogError>>) -> (u64, Effects) {
        let mut phase = self.phase.borrow_mut();
        let open = match &mut *phase {
            Phase::Open(open) => open,
            Phase::Failed(failed) => {
                if let Some(note) = failed.flushed(result, &self.spec.name) {
                    self.failure_note.replace(Some(note));
                }
                self.note_unflushed(failed.last_flush_bytes());
                return (0, Effects::default());
            }
            Phase::Opening | Phase::Closed => return (0, Effects::default()),
        };
        if let Some(result) = result
            && let Err(error) = open.log.flushed(result)
        {
            drop(phase);
            return (0, self.fail(error.into()));
        }
        if self.spec.durability != Durability::OnCommit {
            self.unflushed.update(open.unflushed_bytes());
            let room = self.has_room_for_parked(open);
            let effects = Effects {
                room,
                ..Effects::default()
            };
            return (0, effects);
        }
        let durable_end = open.log.durable_end();
        #[cfg(test)]
        let durable_end = if broken::is(Broken::CommittedBeforeFlush) {
            open.log.end()
        } else {
            durable_end
        };
        let moved = open.advance(durable_end);
        let committed = open.commit();
        let room = self.has_room_for_parked(open);
        (
            u64::try_from(committed).expect("a count fits 64 bits"),
            Effects {
                moved,
                room,
                settled: open.due > 0 || open.repeats.has_committed(open.mark),
                ..Effects::default()
            },
        )
    }

    /// Gives up the log, to be closed: that of a failed shard too, where its last flush is still
    /// ahead. Nothing awaits its commit: the flusher has ended.
    pub(crate) fn close(&self) -> Option<Log> {
        let mut phase = self.phase.borrow_mut();
        match std::mem::replace(&mut *phase, Phase::Closed) {
            Phase::Open(open) => {
                let open = *open;
                assert!(open.waiting.is_empty());
                assert!(open.repeats.is_empty());
                assert!(open.parked.is_empty());
                Some(open.log)
            }
            Phase::Failed(mut failed) => {
                let log = failed.log.take();
                *phase = Phase::Failed(failed);
                log
            }
            Phase::Opening | Phase::Closed => None,
        }
    }
}

impl Failed {
    /// Word of a failure, if this is its first.
    fn flushed(
        &mut self,
        result: Option<Result<Flushed, LogError>>,
        shard: &str,
    ) -> Option<FailureNote> {
        let log = self.log.as_mut()?;
        let taken = result.map(|result| log.flushed(result));
        let note = log.failure_note();
        match taken {
            Some(Err(error)) => {
                tracing::error!(shard, %error, "what a failed shard wrote last may not be durable");
                // Nothing is tried again: what it holds is made durable when it is opened.
                self.let_go();
                return note;
            }
            Some(Ok(())) if !log.is_dirty() => {
                tracing::info!(shard, end = %log.end(), "what was written before it failed is durable");
            }
            Some(Ok(())) | None => {}
        }
        self.settle();
        note
    }
}
