//! What a shard parts with: appends that are settled, and all of them where it fails or closes.

use super::failure::{Failed, Failure};
use super::{Effects, Phase, Repeats, Shard};
use crate::settling::{Owed, Settled};
use felix_core::ShardError;
use std::collections::VecDeque;

impl Shard {
    /// The next append whose outcome is known and whose caller is to be told.
    pub(crate) fn next_settled(&self) -> Option<Settled> {
        let mut owed = self.owed.borrow_mut();
        while let Some(first) = owed.front_mut() {
            if let Some(settled) = first.pop() {
                return Some(settled);
            }
            owed.pop_front();
        }
        match &mut *self.phase.borrow_mut() {
            Phase::Open(open) if open.due > 0 => {
                open.due -= 1;
                let waiting = open.waiting.pop_front().expect("those due wait");
                Some(waiting.settled(None))
            }
            Phase::Open(open) => {
                let waiting = open.repeats.pop_committed(open.mark)?;
                Some(waiting.settled(None))
            }
            Phase::Opening | Phase::Failed(_) | Phase::Closed => None,
        }
    }

    /// The log cannot be trusted any more: nobody gets anything from it but the reason. What it holds
    /// is still flushed, if only a write has failed.
    pub(crate) fn fail(&self, failure: Failure) -> Effects {
        let mut phase = self.phase.borrow_mut();
        let mut written = 0;
        let open = match std::mem::replace(&mut *phase, Phase::Opening) {
            Phase::Opening => None,
            Phase::Open(open) => {
                let mut open = *open;
                self.failure_note.replace(open.log.failure_note());
                if let Some(cut) = open.cut {
                    cut.rest.refuse(ShardError::Storage(failure.reason.clone()));
                }
                assert!(
                    open.aside.is_none(),
                    "it is taken in the turn in which it is left"
                );
                self.owed.borrow_mut().push_back(Owed {
                    waiting: open.waiting,
                    mark: open.mark,
                    repeats: open.repeats,
                    parked: open.parked,
                    error: ShardError::Storage(failure.reason.clone()),
                });
                written = open.written;
                Some((open.log, open.mark))
            }
            // The first reason is the one that explains.
            earlier @ (Phase::Failed(_) | Phase::Closed) => {
                *phase = earlier;
                return Effects::default();
            }
        };
        let failed = Failed::new(failure, open, written);
        let dirty = failed.is_dirty();
        self.note_unflushed(failed.last_flush_bytes());
        if !dirty {
            self.duties.age.forget();
        }
        *phase = Phase::Failed(Box::new(failed));
        Effects {
            dirty,
            failed: true,
            moved: true,
            settled: true,
            ..Effects::default()
        }
    }

    /// The broker is shutting down: what is not placed will not be.
    pub(crate) fn refuse_parked(&self) -> Effects {
        let Phase::Open(open) = &mut *self.phase.borrow_mut() else {
            return Effects::default();
        };
        let parked = std::mem::take(&mut open.parked);
        let settled = !parked.is_empty();
        self.owed.borrow_mut().push_back(Owed {
            waiting: VecDeque::new(),
            mark: open.mark,
            repeats: Repeats::default(),
            parked,
            error: ShardError::ShuttingDown,
        });
        Effects {
            settled,
            ..Effects::default()
        }
    }
}
