//! Opening the log of a shard again that failed in a running broker: a device may have been away,
//! or full, for a while only. A task for each shard that failed, and none for the others.

use crate::event::step_aside;
use crate::owner::Owner;
use crate::places::Places;
use crate::runtime;
use crate::shard::Shard;
use felix_core::Offset;
use felix_core::limits::{
    OPENINGS_LATE_MAX, REWRITES_IN_FLIGHT_MAX, REWRITES_LATE_MAX, SHARDS_OPENING_MAX,
};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// From the failure to the first attempt; each further pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause. A shard that fails again within it pauses for longer than the last time: what
/// stands in its way is there only for some of its appends, and each opening is a new generation.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long an opening holds up the next: far longer than one takes that has nothing to read.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same of one that writes segments once more: far longer than a segment takes.
const REWRITE_PATIENCE: Duration = Duration::from_secs(10);

/// What a core keeps for shards that are opened again.
#[derive(Debug)]
pub(crate) struct Reopenings {
    /// Opening reads whole segments: as many at once as at a start.
    pub(crate) places: Places,
    /// For those, then and at a start, that write segments once more.
    pub(crate) rewrites: Places,
}

impl Default for Reopenings {
    fn default() -> Self {
        Self {
            places: Places::new(SHARDS_OPENING_MAX, PATIENCE, OPENINGS_LATE_MAX),
            rewrites: Places::new(REWRITES_IN_FLIGHT_MAX, REWRITE_PATIENCE, REWRITES_LATE_MAX),
        }
    }
}

impl Owner {
    /// Tries to open the shard's log again until that succeeds, nothing is to be hoped for any
    /// more, or the core closes.
    pub(crate) fn reopen(self: &Rc<Self>, shard: &Rc<Shard>) {
        if self.is_closing() || !shard.may_pass() {
            return;
        }
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        self.tasks().spawn("reopening", async move {
            let first_pause = owner.first_pause(&shard);
            let mut pause = first_pause;
            while shard.may_pass() && owner.rest(pause).await {
                if !shard.is_let_go() {
                    // Its last flush is still ahead, or one is stuck.
                    continue;
                }
                pause = (pause * 2).min(PAUSE_MAX);
                let attempt = owner.try_again(&shard, pause);
                let attempt = Box::pin(Arc::clone(shard.suspect()).doing(attempt));
                if attempt.await {
                    let now = owner.clock().monotonic();
                    shard.duties.reopened.set(Some((now, first_pause)));
                    return;
                }
            }
        });
    }

    /// The pause before the first attempt.
    fn first_pause(&self, shard: &Shard) -> Duration {
        let now = self.clock().monotonic();
        match shard.duties.reopened.get() {
            Some((at, first)) if now.until(at) < PAUSE_MAX => (first * 2).min(PAUSE_MAX),
            Some(_) | None => FIRST_PAUSE,
        }
    }

    /// Waits; whether the core goes on after that.
    async fn rest(&self, pause: Duration) -> bool {
        let closed = pin!(self.closed().until(|| self.is_closing()));
        match select(closed, pin!(runtime::sleep(pause))).await {
            Either::Left(_) => false,
            Either::Right(_) => true,
        }
    }

    /// What readers were shown of a log that it has no more, now that it is open again.
    fn tell_lost(&self, shard: &str, mark: Option<Offset>, end: Offset) {
        let records = mark.map_or(0, |mark| mark.get().saturating_sub(end.get()));
        self.metrics().lost_records.add(records);
        if records > 0 {
            tracing::error!(shard, records, from = %end, "the disk lost acknowledged records");
        }
    }

    /// One attempt; whether the shard is open. `pause`: to the next one.
    async fn try_again(self: &Rc<Self>, shard: &Rc<Shard>, pause: Duration) -> bool {
        let name = &*shard.spec().name;
        let mark = shard.failed_mark();
        let opening = Box::pin(self.open_log(shard));
        let Some(opened) = self.unless_closing(opening).await else {
            return false;
        };
        match opened {
            Ok(log) => {
                self.metrics().reopened.increment();
                let generation = log.generation();
                self.tell_lost(name, mark, log.end());
                self.take_log(shard, log);
                self.look_after_opened(shard);
                while self.forget_producers() {
                    step_aside().await;
                }
                self.announce(shard);
                self.tell_reopened(shard.id(), generation);
                true
            }
            Err(failure) => {
                self.metrics().reopen_failures.increment();
                let reason = failure.reason.clone();
                let next_s = failure.may_pass.then_some(pause.as_secs());
                let attempts = shard.failed_again(failure);
                let lines = &self.metrics().reopen_lines;
                if let Some(left_out) = lines.admit(self.clock().monotonic()) {
                    let left_out = (left_out > 0).then_some(left_out);
                    tracing::error!(
                        shard = name,
                        attempts,
                        next_s,
                        reason,
                        left_out,
                        "could not be opened again"
                    );
                }
                false
            }
        }
    }
}
