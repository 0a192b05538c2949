//! Flushes of one core, in rounds: all dirty shards at once, so that many share the device as one
//! does, and none waits for long for another. Nothing ticks while nothing is dirty.

use crate::event::{Event, step_aside};
use crate::owner::Owner;
use crate::runtime;
use crate::shard::{Flushing, Shard};
use felix_core::limits::{LATE_FLUSHES_MAX, SHARD_FLUSHES_IN_FLIGHT_MAX};
use felix_core::{Durability, Monotonic};
use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::{StreamExt, stream};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

/// How long others wait for a flush. One that takes longer goes on by itself, and its shard rides
/// no round until it has ended: a device, or a file, that is stuck holds up nobody else.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long index files that could not be written are left alone. After that the next flush of their
/// shard has them tried again.
const INDEXING_PAUSE: Duration = Duration::from_secs(1);

/// The dirty shards of a core.
#[derive(Debug, Default)]
pub(crate) struct Flusher {
    on_commit: Dirty,
    periodic: Dirty,
    rolled: Dirty,
    /// Shards with full segments that are durable and lack their index files.
    unindexed: RefCell<VecDeque<Rc<Shard>>>,
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

    fn add_unindexed(&self, shard: &Rc<Shard>, now: Monotonic) {
        let failed = shard.duties.indexing_failed.get();
        let is_too_soon = failed.is_some_and(|failed| now.until(failed) < INDEXING_PAUSE);
        if !shard.is_unindexed() || shard.duties.indexing.get() || is_too_soon {
            return;
        }
        let mut shards = self.unindexed.borrow_mut();
        if !shards.iter().any(|listed| Rc::ptr_eq(listed, shard)) {
            shards.push_back(Rc::clone(shard));
            drop(shards);
            self.rolled.added.notify();
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

    fn has_rolled(&self) -> bool {
        !self.rolled.is_empty() || !self.unindexed.borrow().is_empty()
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

/// Flushes shards that have no interval, once after each roll, and writes the indexes of every
/// shard's full segments. One at a time: nobody waits for it, and what others wait for shall not
/// share the device with more of it. What is left when it stops, closing a log does.
pub(crate) async fn after_rolls(owner: Rc<Owner>) {
    let flusher = owner.flusher();
    loop {
        flusher
            .rolled
            .added
            .until(|| flusher.has_rolled() || flusher.stopping.get())
            .await;
        if flusher.stopping.get() {
            return;
        }
        if let Some(shard) = flusher.rolled.take_one() {
            flush(&owner, shard).await;
        }
        let unindexed = flusher.unindexed.borrow_mut().pop_front();
        if let Some(shard) = unindexed {
            let work = Box::pin(index(Rc::clone(&owner), Rc::clone(&shard)));
            wait_a_while(&owner, &shard, work).await;
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
    let work = Box::pin(flush_whole(Rc::clone(owner), Rc::clone(&shard)));
    wait_a_while(owner, &shard, work).await;
}

/// Returns when the work has ended, or has taken so long that others shall not wait for it. It then
/// goes on as a task of its own.
async fn wait_a_while(owner: &Rc<Owner>, shard: &Shard, work: LocalBoxFuture<'static, ()>) {
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
    let now = owner.clock().monotonic();
    owner.flusher().add_unindexed(&shard, now);
}

async fn index(owner: Rc<Owner>, shard: Rc<Shard>) {
    let Some(indexing) = shard.begin_indexing() else {
        return;
    };
    shard.duties.indexing.set(true);
    let result = indexing.run().await;
    shard.duties.indexing.set(false);
    let now = owner.clock().monotonic();
    match shard.indexed(result) {
        Ok(effects) => {
            shard.duties.indexing_failed.set(None);
            if effects.failed {
                owner.metrics().sync_failures.increment();
            }
            owner.apply(&shard, effects);
            owner.flusher().add_unindexed(&shard, now);
        }
        Err(error) => {
            shard.duties.indexing_failed.set(Some(now));
            owner.indexing_failed(&shard, &error);
        }
    }
}
