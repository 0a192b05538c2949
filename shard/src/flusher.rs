//! Flushes of one core, in rounds: all dirty shards at once, so that many share the device as one
//! does, and none waits for long for another. Nothing ticks while nothing is dirty.

use crate::event::{Event, step_aside};
use crate::owner::Owner;
use crate::runtime;
use crate::shard::{Flushing, Shard};
use felix_core::Durability;
use felix_core::limits::{LATE_FLUSHES_MAX, SHARD_FLUSHES_IN_FLIGHT_MAX};
use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::{StreamExt, stream};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long others wait for a flush. One that takes longer goes on by itself, and its shard rides
/// no round until it has ended: a device, or a file, that is stuck holds up nobody else.
const PATIENCE: Duration = Duration::from_millis(100);

/// The dirty shards of a core.
#[derive(Debug, Default)]
pub(crate) struct Flusher {
    on_commit: Dirty,
    periodic: Dirty,
    rolled: Dirty,
    /// Flushes that nobody waits for any more, and that have not ended.
    late: Cell<usize>,
    stopping: Cell<bool>,
    stop: Event,
}

#[derive(Debug, Default)]
struct Dirty {
    shards: RefCell<Vec<Rc<Shard>>>,
    added: Event,
}

impl Dirty {
    fn add(&self, shard: &Rc<Shard>) {
        if shard.duties.dirty.replace(true) {
            return;
        }
        let first = {
            let mut shards = self.shards.borrow_mut();
            shards.push(Rc::clone(shard));
            shards.len() == 1
        };
        if first {
            self.added.notify();
        }
    }

    fn is_empty(&self) -> bool {
        self.shards.borrow().is_empty()
    }

    fn take_one(&self) -> Option<Rc<Shard>> {
        loop {
            let shard = self.shards.borrow_mut().pop()?;
            shard.duties.dirty.set(false);
            if is_free(&shard) {
                return Some(shard);
            }
        }
    }

    /// What is written from here on belongs to the next round.
    fn take(&self) -> Vec<Rc<Shard>> {
        let mut shards = std::mem::take(&mut *self.shards.borrow_mut());
        shards.retain(|shard| {
            shard.duties.dirty.set(false);
            is_free(shard)
        });
        shards
    }
}

/// Whether the shard may be flushed. If not, it is added again when its late flush has ended.
fn is_free(shard: &Shard) -> bool {
    match shard.duties.flushing.get() {
        Flushing::No => true,
        Flushing::Now | Flushing::AndAgain => {
            shard.duties.flushing.set(Flushing::AndAgain);
            false
        }
    }
}

impl Flusher {
    /// The shard has something to flush.
    pub(crate) fn add(&self, shard: &Rc<Shard>) {
        match shard.spec().durability {
            Durability::OnCommit => self.on_commit.add(shard),
            Durability::Periodic => self.periodic.add(shard),
            Durability::None => self.rolled.add(shard),
        }
    }

    /// Flushes that are late and have not ended.
    pub(crate) fn late(&self) -> usize {
        self.late.get()
    }

    /// Nothing awaits its commit, and nothing more will.
    fn is_through(&self) -> bool {
        self.stopping.get() && self.on_commit.is_empty() && self.late.get() == 0
    }

    /// Ends all rounds: on_commit ones once nothing awaits its commit, the others at once, because
    /// closing a log flushes it.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.stop.notify();
        self.on_commit.added.notify();
        self.periodic.added.notify();
        self.rolled.added.notify();
    }
}

/// Rounds for shards whose appends await their flush. One round at a time; what arrives meanwhile
/// rides the next.
pub(crate) async fn on_commit_rounds(owner: Rc<Owner>) {
    let flusher = owner.flusher();
    loop {
        flusher
            .on_commit
            .added
            .until(|| !flusher.on_commit.is_empty() || flusher.is_through())
            .await;
        if flusher.is_through() {
            return;
        }
        round(&owner, flusher.on_commit.take()).await;
        // Those who were woken by this round often append again: let them join the next.
        step_aside().await;
    }
}

/// Rounds for shards that are flushed every interval.
pub(crate) async fn periodic_rounds(owner: Rc<Owner>, interval: Duration) {
    let flusher = owner.flusher();
    loop {
        flusher
            .periodic
            .added
            .until(|| !flusher.periodic.is_empty() || flusher.stopping.get())
            .await;
        let dirty_since = owner.clock().monotonic();
        let pause = pin!(runtime::sleep(interval));
        let stop = pin!(flusher.stop.until(|| flusher.stopping.get()));
        match select(stop, pause).await {
            Either::Left(_) => return,
            Either::Right(_) => {}
        }
        round(&owner, flusher.periodic.take()).await;
        let reached = owner.clock().monotonic().0.saturating_sub(dirty_since.0);
        let reached_us = i64::try_from(reached.as_micros()).unwrap_or(i64::MAX);
        owner.metrics().sync_interval_us.put(reached_us);
    }
}

/// Flushes shards that have no interval, once after each roll. One at a time: nobody waits for it,
/// and what others wait for shall not share the device with more of it. What is left when it stops,
/// closing a log does.
pub(crate) async fn after_rolls(owner: Rc<Owner>) {
    let flusher = owner.flusher();
    loop {
        flusher
            .rolled
            .added
            .until(|| !flusher.rolled.is_empty() || flusher.stopping.get())
            .await;
        if flusher.stopping.get() {
            return;
        }
        if let Some(shard) = flusher.rolled.take_one() {
            flush(&owner, shard).await;
        }
    }
}

async fn round(owner: &Rc<Owner>, shards: Vec<Rc<Shard>>) {
    owner.metrics().sync_rounds.increment();
    stream::iter(shards)
        .map(|shard| flush(owner, shard))
        .buffer_unordered(SHARD_FLUSHES_IN_FLIGHT_MAX)
        .for_each(|()| async {})
        .await;
}

/// Flushes the shard, or sets its flush aside.
async fn flush(owner: &Rc<Owner>, shard: Rc<Shard>) {
    shard.duties.flushing.set(Flushing::Now);
    let work = flush_whole(Rc::clone(owner), Rc::clone(&shard));
    let work = Box::pin(Arc::clone(shard.suspect()).doing(work));
    wait_a_while(owner, &shard, work).await;
}

/// Returns when the work has ended, or has taken so long that others shall not wait for it. It then
/// goes on as a task of its own.
pub(crate) async fn wait_a_while(
    owner: &Rc<Owner>,
    shard: &Shard,
    work: LocalBoxFuture<'static, ()>,
) {
    let pause = pin!(runtime::sleep(PATIENCE));
    let Either::Right(((), work)) = select(work, pause).await else {
        return;
    };
    let flusher = owner.flusher();
    if flusher.late.get() >= LATE_FLUSHES_MAX {
        return work.await;
    }
    flusher.late.set(flusher.late.get() + 1);
    owner.flush_is_late(shard);
    let owner = Rc::clone(owner);
    let tasks = Rc::clone(owner.tasks());
    tasks.spawn("late flushes", async move {
        work.await;
        let flusher = owner.flusher();
        flusher.late.set(flusher.late.get() - 1);
        flusher.on_commit.added.notify();
    });
}

async fn flush_whole(owner: Rc<Owner>, shard: Rc<Shard>) {
    // None: the log flushed by itself meanwhile, as when it sealed a segment.
    let result = match shard.flush() {
        Some(flush) => {
            let metrics = owner.metrics();
            metrics.syncs.increment();
            let appends = shard.duties.unflushed.take();
            let begun = owner.clock().monotonic();
            let result = flush.run().await;
            let now = owner.clock().monotonic();
            metrics.sync_us.record(begun, now);
            if result.is_ok() {
                metrics.sync_batch_appends.record_value(appends, now);
            }
            Some(result)
        }
        None => None,
    };
    if result.as_ref().is_some_and(Result::is_err) {
        owner.metrics().sync_failures.increment();
    }
    let (committed, effects) = shard.flushed(result);
    owner.metrics().sync_appends.add(committed);
    let before = shard.duties.flushing.replace(Flushing::No);
    owner.apply(&shard, effects);
    if before == Flushing::AndAgain {
        owner.flusher().add(&shard);
    }
    owner.look_after(&shard);
}
