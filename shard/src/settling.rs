//! Telling those who wait for a shard what became of their appends: a slice at a time, because one
//! flush, or one failure, may settle more of them than a core may be held for.

use crate::metrics::CoreMetrics;
use crate::owner::Owner;
use crate::shard::{Entry, Repeats, Shard, Waiting};
use crate::{call::Uncommitted, event::step_aside};
use felix_core::shards::Appended;
use felix_core::{Monotonic, Offset, ShardError};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Appends settled in one go.
const SETTLED_AT_ONCE_MAX: usize = 256;

/// Appends that a shard has parted with and whose callers are still to be told.
#[derive(Debug)]
pub(crate) struct Owed {
    /// In offset order; those below `mark` were committed.
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) mark: Offset,
    /// Of the same batches, sent again.
    pub(crate) repeats: Repeats,
    /// Never placed.
    pub(crate) parked: VecDeque<Entry>,
    /// Why the others will not be committed.
    pub(crate) error: ShardError,
}

/// One append's outcome, and when it was asked for.
pub(crate) struct Settled {
    pub(crate) caller: Uncommitted,
    pub(crate) result: Result<Appended, ShardError>,
    pub(crate) arrived: Monotonic,
}

impl Owed {
    /// The next of them.
    pub(crate) fn pop(&mut self) -> Option<Settled> {
        let waiting = self.waiting.pop_front();
        if let Some(waiting) = waiting.or_else(|| self.repeats.pop()) {
            let committed = waiting.end <= self.mark;
            return Some(waiting.settled(if committed {
                None
            } else {
                Some(self.error.clone())
            }));
        }
        let Entry {
            caller, arrived, ..
        } = self.parked.pop_front()?;
        Some(Settled {
            caller: caller.placed(),
            result: Err(self.error.clone()),
            arrived,
        })
    }
}

impl Waiting {
    /// Committed, unless there is an error.
    pub(crate) fn settled(self, error: Option<ShardError>) -> Settled {
        Settled {
            caller: self.caller,
            result: error.map_or(Ok(self.appended), Err),
            arrived: self.arrived,
        }
    }
}

impl Owner {
    /// Tells those whose appends are settled: a slice now, the rest in turns with other tasks.
    pub(crate) fn settle(self: &Rc<Self>, shard: &Rc<Shard>) {
        if shard.duties.settling.get() || !self.settle_slice(shard) {
            return;
        }
        shard.duties.settling.set(true);
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        let suspect = Arc::clone(shard.suspect());
        let settling = suspect.doing(async move {
            loop {
                step_aside().await;
                if !owner.settle_slice(&shard) {
                    // No await lies between this look and the mark, so none goes unnoticed.
                    shard.duties.settling.set(false);
                    return;
                }
            }
        });
        self.tasks().spawn("settling appends", settling);
    }

    /// Whether there are more.
    fn settle_slice(&self, shard: &Shard) -> bool {
        let now = self.clock().monotonic();
        for _ in 0..SETTLED_AT_ONCE_MAX {
            let Some(settled) = shard.next_settled() else {
                return false;
            };
            tell(settled, self.metrics(), now);
        }
        true
    }
}

fn tell(settled: Settled, metrics: &CoreMetrics, now: Monotonic) {
    if settled.result.is_ok() {
        metrics.commit_us.record(settled.arrived, now);
    }
    settled.caller.settle(settled.result);
}
