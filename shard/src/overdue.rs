//! How long appends of shards that are flushed every interval wait to be durable, and an alarm where
//! that is more than twice the interval: what a power loss may take is then more than was promised.
//! It comes when the time is up, whether a flush has ended or not.

use crate::event::Event;
use crate::owner::Owner;
use crate::runtime;
use crate::shard::Shard;
use felix_core::Monotonic;
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

/// The alarm comes after so many intervals.
const INTERVALS: u32 = 2;

/// Shards that one line names.
const NAMED_MAX: usize = 8;

/// The shards whose appends wait. Lives on its core.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    /// By the oldest append, in the order of these times.
    waiting: RefCell<VecDeque<(Monotonic, Rc<Shard>)>>,
    added: Event,
    stopping: Cell<bool>,
    /// The longest wait that the round under way has ended.
    reached: Cell<Duration>,
}

/// Whether that append is durable, or will never be.
fn is_over((since, shard): &(Monotonic, Rc<Shard>)) -> bool {
    !shard.duties.age.is_waiting(*since)
}

impl Ages {
    /// The shard may have an append that waits and is not known here.
    pub(crate) fn note(&self, shard: &Rc<Shard>) {
        let Some(since) = shard.duties.age.take_new() else {
            return;
        };
        let mut waiting = self.waiting.borrow_mut();
        // Two leave where one comes, so that what is durable does not pile up.
        for _ in 0..2 {
            if waiting.front().is_some_and(is_over) {
                waiting.pop_front();
            }
        }
        waiting.push_back((since, Rc::clone(shard)));
        let is_first = waiting.len() == 1;
        drop(waiting);
        if is_first {
            self.added.notify();
        }
    }

    /// Ends the watch.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.added.notify();
    }

    /// The oldest append that waits.
    fn first(&self) -> Option<Monotonic> {
        let mut waiting = self.waiting.borrow_mut();
        while waiting.front().is_some_and(is_over) {
            waiting.pop_front();
        }
        waiting.front().map(|(since, _)| *since)
    }

    /// A shard with an append that has waited for longer than `wait`; each append once.
    fn take_older(&self, now: Monotonic, wait: Duration) -> Option<(Monotonic, Rc<Shard>)> {
        self.first().filter(|since| now.until(*since) > wait)?;
        self.waiting.borrow_mut().pop_front()
    }
}

/// Tells of appends that wait for too long. Nothing ticks while nothing waits.
pub(crate) async fn watch(owner: Rc<Owner>, interval: Duration) {
    let ages = &owner.flusher().ages;
    let wait_max = interval.saturating_mul(INTERVALS);
    loop {
        let wakes = || ages.stopping.get() || !ages.waiting.borrow().is_empty();
        ages.added.until(wakes).await;
        if let Some(since) = ages.first() {
            let now = owner.clock().monotonic();
            // Not earlier than it is too late, by whatever clock.
            let pause = since.after(wait_max).until(now) + Duration::from_millis(1);
            let stop = pin!(ages.added.until(|| ages.stopping.get()));
            if let Either::Left(_) = select(stop, pin!(runtime::sleep(pause))).await {
                return;
            }
        }
        if ages.stopping.get() {
            return;
        }
        let now = owner.clock().monotonic();
        let mut overdue = Vec::new();
        while let Some((since, shard)) = ages.take_older(now, wait_max) {
            if shard.duties.age.tell(since) {
                overdue.push((now.until(since), shard));
            }
        }
        owner.are_overdue(&overdue);
    }
}

impl Owner {
    /// What was appended to the shard at `since` and later is durable. `late`: others went on
    /// without it.
    pub(crate) fn has_waited(
        &self,
        shard: &Rc<Shard>,
        since: Monotonic,
        now: Monotonic,
        late: bool,
    ) {
        let reached = now.until(since);
        let ages = &self.flusher().ages;
        if late {
            self.has_reached(reached);
        } else {
            ages.reached.set(ages.reached.get().max(reached));
        }
        let wait_max = self.config.flush_interval.saturating_mul(INTERVALS);
        if reached > wait_max && shard.duties.age.tell(since) {
            self.are_overdue(&[(reached, Rc::clone(shard))]);
        }
    }

    /// A round of flushes has ended.
    pub(crate) fn round_has_ended(&self) {
        let reached = self.flusher().ages.reached.take();
        if !reached.is_zero() {
            self.has_reached(reached);
        }
    }

    fn has_reached(&self, reached: Duration) {
        let metrics = self.metrics();
        let us = u64::try_from(reached.as_micros()).unwrap_or(u64::MAX);
        metrics
            .sync_interval_us
            .put(i64::try_from(us).unwrap_or(i64::MAX));
        let now = self.clock().monotonic();
        metrics.sync_interval.record_value(us, now);
    }

    /// These shards' appends wait for so long that a power loss may take more than was promised.
    fn are_overdue(&self, shards: &[(Duration, Rc<Shard>)]) {
        let Some(reached) = shards.iter().map(|(reached, _)| *reached).max() else {
            return;
        };
        let metrics = self.metrics();
        metrics.overdue_shards.add(shards.len() as u64);
        if let Some(left_out) = metrics.overdue_lines.admit(self.clock().monotonic()) {
            let named = shards.iter().take(NAMED_MAX);
            let names: Vec<&str> = named.map(|(_, shard)| &*shard.spec().name).collect();
            tracing::warn!(
                core = %self.core(),
                shards = names.join(", "),
                others = shards.len() - names.len(),
                reached_ms = reached.as_millis(),
                interval_ms = self.config.flush_interval.as_millis(),
                left_out = (left_out > 0).then_some(left_out),
                "appends wait for their flush for more than twice the interval: a power loss would \
                 take more than is promised"
            );
        }
    }
}
