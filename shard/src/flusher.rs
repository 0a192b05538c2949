//! Flushes of one core, in rounds: all dirty shards at once, so that many share the device as one
//! does, and none waits for long for another. Nothing ticks while nothing is dirty.

use crate::device::Urgency;
use crate::event::{Event, step_aside};
use crate::log::{Flushed, LogError};
use crate::overdue::Ages;
use crate::owner::Owner;
use crate::runtime;
use crate::shard::{Flushing, Shard};
use felix_core::limits::{DEVICE_FLUSHES_IN_FLIGHT_MAX, LATE_FLUSHES_MAX};
use felix_core::shards::ShardState;
use felix_core::{Durability, Monotonic, ShardId};
use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::{StreamExt, stream};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long others wait for a flush. One that takes longer goes on by itself, and its shard rides
/// no round until it has ended: a device, or a file, that is stuck holds up nobody else.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// How long a shard whose flush the system refused is left alone, and in how many parts another such
/// pause is divided, so that not all come back at once.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);
const REFUSED_PARTS: u32 = 16;

/// What others do not wait for if it takes long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    Flush,
    Upkeep,
    Roll,
}

/// The dirty shards of a core.
#[derive(Debug, Default)]
pub(crate) struct Flusher {
    on_commit: Dirty,
    periodic: Dirty,
    rolled: Dirty,
    /// Shards that have no interval: flushed only where too much is dirty.
    unhurried: RefCell<Vec<Rc<Shard>>>,
    /// Too much is dirty: a round is to begin at once.
    pressed: Cell<bool>,
    hurry: Event,
    /// The oldest append that waits for the next round.
    oldest: Cell<Option<Monotonic>>,
    pub(crate) ages: Ages,
    /// Work that nobody waits for any more, and that has not ended.
    late: Cell<usize>,
    /// The flushes among it.
    late_flushes: Cell<usize>,
    /// Flushes that the system refused, and that are not asked for again yet.
    refused: Cell<usize>,
    stopping: Cell<bool>,
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
            shard.unflushed.taken();
            if joins(&shard) {
                return Some(shard);
            }
        }
    }

    /// What is written from here on belongs to the next round.
    fn take(&self) -> Vec<Rc<Shard>> {
        let mut shards = std::mem::take(&mut *self.shards.borrow_mut());
        shards.retain(|shard| {
            shard.duties.dirty.set(false);
            shard.unflushed.taken();
            joins(shard)
        });
        shards
    }
}

/// Whether the shard is flushed in the round that begins.
fn joins(shard: &Shard) -> bool {
    let joins = is_free(shard);
    shard.duties.in_round.set(joins);
    joins
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
            Durability::Periodic => {
                // What is in line for a flush is covered by that. What is being flushed, or was refused,
                // comes back here afterwards; and what it has waited for is not to begin a round that
                // leaves it out.
                let is_idle = shard.duties.flushing.get() == Flushing::No;
                if is_idle && !shard.duties.in_round.get() {
                    let known = self.oldest.get();
                    let oldest = known.into_iter().chain(shard.duties.age.unflushed()).min();
                    if oldest != known {
                        self.oldest.set(oldest);
                        self.hurry.notify();
                    }
                }
                self.ages.note(shard);
                self.periodic.add(shard);
            }
            Durability::None => self.rolled.add(shard),
        }
    }

    /// A shard that has no interval was written to.
    pub(crate) fn add_unhurried(&self, shard: &Rc<Shard>) {
        if !shard.duties.unhurried.replace(true) {
            self.unhurried.borrow_mut().push(Rc::clone(shard));
        }
    }

    /// Too much is dirty: a round begins at once, or as soon as the one under way has ended.
    pub(crate) fn press(&self) {
        if !self.pressed.replace(true) {
            self.hurry.notify();
            self.periodic.added.notify();
        }
    }

    /// What the next round is for. Where too much is dirty, that is all there is.
    fn take_background(&self) -> Vec<Rc<Shard>> {
        self.oldest.set(None);
        let mut shards = self.periodic.take();
        if self.pressed.take() {
            let unhurried = std::mem::take(&mut *self.unhurried.borrow_mut());
            shards.extend(unhurried.into_iter().filter(|shard| {
                shard.duties.unhurried.set(false);
                shard.unflushed.taken();
                joins(shard)
            }));
        }
        shards
    }

    /// Flushes that are late and have not ended.
    pub(crate) fn late(&self) -> usize {
        self.late_flushes.get()
    }

    fn count_late(&self, work: Work, change: isize) {
        let count = |late: &Cell<usize>| late.set(late.get().saturating_add_signed(change));
        count(&self.late);
        if work == Work::Flush {
            count(&self.late_flushes);
        }
    }

    /// No more work is set aside for now.
    fn is_full_of_late(&self) -> bool {
        self.late.get() >= LATE_FLUSHES_MAX
    }

    /// Nothing awaits its commit, and nothing more will.
    fn is_through(&self) -> bool {
        let is_idle = self.late.get() == 0 && self.refused.get() == 0;
        self.stopping.get() && self.on_commit.is_empty() && is_idle
    }

    /// Ends all rounds: on_commit ones once nothing awaits its commit, the others at once, because
    /// closing a log flushes it.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.hurry.notify();
        self.ages.stop();
        self.on_commit.added.notify();
        self.periodic.added.notify();
        self.rolled.added.notify();
    }
}

impl Owner {
    /// Others do not wait for a shard's work any more. A device that is slow may say so often, so few
    /// such lines are written.
    fn is_late(&self, work: Work, shard: &Shard) {
        let what = match work {
            Work::Flush => {
                self.metrics().late_syncs.increment();
                "a flush takes long; other shards go on without it"
            }
            Work::Upkeep => {
                "index files, or a checkpoint, take long to write; other shards go on without it"
            }
            Work::Roll => "a segment takes long to be sealed; other shards go on without it",
        };
        if let Some(left_out) = self.metrics().late_lines.admit(self.clock().monotonic()) {
            let shard = &*shard.spec().name;
            let left_out = (left_out > 0).then_some(left_out);
            tracing::warn!(shard, left_out, "{what}");
        }
    }
}

impl Owner {
    /// The system refused a flush.
    fn tell_refused_flush(self: &Rc<Self>, shard: &Shard, refusal: &LogError) {
        self.metrics()
            .tell_refusal(self.clock().monotonic(), refusal);
        // A shard that failed takes no more of what is missing.
        if refusal.is_full() && matches!(shard.state(), ShardState::Open(_)) {
            self.space_is_gone();
        }
    }

    /// Asks for a refused flush again after a rest: nothing is lost by a refusal, and whoever waits for
    /// the flush waits on. The shard is flushing until then: no round tries it sooner, and none waits for
    /// it.
    fn ask_again_later(self: &Rc<Self>, shard: &Rc<Shard>) {
        let flusher = self.flusher();
        flusher.refused.set(flusher.refused.get() + 1);
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        self.tasks().spawn("refused flushes", async move {
            let closed = pin!(owner.closed().until(|| owner.is_closing()));
            let ShardId { stream, index } = shard.id();
            let part = stream.0.wrapping_add(index.into()) % u128::from(REFUSED_PARTS);
            let part = u32::try_from(part).expect("a small number");
            let pause = REFUSED_PAUSE + REFUSED_PAUSE * part / REFUSED_PARTS;
            match select(closed, pin!(runtime::sleep(pause))).await {
                Either::Left(_) | Either::Right(_) => {}
            }
            shard.duties.flushing.set(Flushing::No);
            let flusher = owner.flusher();
            flusher.refused.set(flusher.refused.get() - 1);
            flusher.add(&shard);
            flusher.on_commit.added.notify();
        });
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
        owner.placed_soon().await;
        round(&owner, flusher.on_commit.take(), Urgency::Awaited).await;
        // Those who were woken by this round often append again: let them join the next.
        step_aside().await;
    }
}

/// Rounds for shards that are flushed every interval, and for all others whose appends wait for no
/// flush, where too much is dirty. One begins when the oldest append has waited for the interval, or
/// at once.
pub(crate) async fn periodic_rounds(owner: Rc<Owner>, interval: Duration) {
    let flusher = owner.flusher();
    let hurries = || flusher.stopping.get() || flusher.pressed.get();
    loop {
        flusher
            .periodic
            .added
            .until(|| !flusher.periodic.is_empty() || hurries())
            .await;
        let now = owner.clock().monotonic();
        // What a late flush did not cover comes back here when that has ended, and has waited since then.
        let due = || flusher.oldest.get().unwrap_or(now).after(interval);
        loop {
            let planned = due();
            let pause = pin!(runtime::sleep(planned.until(owner.clock().monotonic())));
            let sooner = pin!(flusher.hurry.until(|| hurries() || due() < planned));
            match select(sooner, pause).await {
                Either::Left(_) if flusher.stopping.get() => return,
                Either::Left(_) if !hurries() => {}
                Either::Left(_) | Either::Right(_) => break,
            }
        }
        round(&owner, flusher.take_background(), Urgency::Background).await;
        owner.round_has_ended();
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
            flush(&owner, shard, Urgency::Background).await;
        }
    }
}

async fn round(owner: &Rc<Owner>, shards: Vec<Rc<Shard>>, urgency: Urgency) {
    if shards.is_empty() {
        return;
    }
    owner.metrics().sync_rounds.increment();
    stream::iter(shards)
        .map(|shard| flush(owner, shard, urgency))
        .buffer_unordered(DEVICE_FLUSHES_IN_FLIGHT_MAX)
        .for_each(|()| async {})
        .await;
}

/// Flushes the shard once its device has a place for that, or sets its flush aside. One that waits for a
/// place for too long is set aside, too, and begins without one: those that have the places are stuck.
async fn flush(owner: &Rc<Owner>, shard: Rc<Shard>, urgency: Urgency) {
    let device = shard.unflushed.device();
    let (mut permits, mut is_late) = (None, false);
    if let Some(device) = &device {
        let pause = pin!(runtime::sleep(PATIENCE));
        match select(pin!(device.permit(urgency)), pause).await {
            Either::Left((taken, _)) => permits = Some(taken),
            Either::Right(((), line)) if owner.flusher().is_full_of_late() => {
                permits = Some(line.await);
            }
            Either::Right(_) => is_late = true,
        }
    }
    shard.duties.in_round.set(false);
    // Another round may have begun it meanwhile.
    if !is_free(&shard) {
        return;
    }
    shard.duties.flushing.set(Flushing::Now);
    let work = flush_whole(Rc::clone(owner), Rc::clone(&shard));
    let work = Box::pin(Arc::clone(shard.suspect()).doing(work));
    if is_late {
        set_aside(owner, &shard, Work::Flush, work);
    } else {
        wait_a_while(owner, &shard, Work::Flush, work).await;
    }
    drop(permits);
}

/// Returns when the work has ended, or has taken so long that others shall not wait for it. It then
/// goes on as a task of its own.
pub(crate) async fn wait_a_while(
    owner: &Rc<Owner>,
    shard: &Shard,
    what: Work,
    work: LocalBoxFuture<'static, ()>,
) {
    let pause = pin!(runtime::sleep(PATIENCE));
    let Either::Right(((), work)) = select(work, pause).await else {
        return;
    };
    if owner.flusher().is_full_of_late() {
        return work.await;
    }
    set_aside(owner, shard, what, work);
}

/// Nobody waits for the work any more: it goes on as a task of its own.
fn set_aside(owner: &Rc<Owner>, shard: &Shard, what: Work, work: LocalBoxFuture<'static, ()>) {
    owner.flusher().count_late(what, 1);
    owner.is_late(what, shard);
    let owner = Rc::clone(owner);
    let tasks = Rc::clone(owner.tasks());
    tasks.spawn("late flushes", async move {
        work.await;
        let flusher = owner.flusher();
        flusher.count_late(what, -1);
        flusher.on_commit.added.notify();
    });
}

/// `None`: there was nothing to flush; the log flushed by itself meanwhile, as when it sealed a segment.
async fn flush_once(owner: &Rc<Owner>, shard: &Rc<Shard>) -> Option<Result<Flushed, LogError>> {
    shard.duties.age.begin_flush();
    let Some(flush) = shard.flush() else {
        shard.duties.age.forget();
        return None;
    };
    let metrics = owner.metrics();
    metrics.syncs.increment();
    let appends = shard.duties.unflushed.take();
    let begun = owner.clock().monotonic();
    let result = flush.run().await;
    let now = owner.clock().monotonic();
    metrics.sync_us.record(begun, now);
    if result.as_ref().is_err_and(LogError::is_refusal) {
        shard.duties.age.flush_was_refused();
        let more = shard.duties.unflushed.get();
        shard.duties.unflushed.set(appends + more);
        return Some(result);
    }
    let since = shard.duties.age.end_flush();
    if result.is_ok() {
        metrics.sync_batch_appends.record_value(appends, now);
        if let Some(since) = since {
            owner.has_waited(shard, since, now, now.until(begun) >= PATIENCE);
        }
    }
    Some(result)
}

async fn flush_whole(owner: Rc<Owner>, shard: Rc<Shard>) {
    let result = flush_once(&owner, &shard).await;
    if let Some(Err(refusal)) = &result
        && refusal.is_refusal()
    {
        owner.tell_refused_flush(&shard, refusal);
        if !owner.is_closing() {
            return owner.ask_again_later(&shard);
        }
    }
    if result.as_ref().is_some_and(Result::is_err) {
        owner.metrics().sync_failures.increment();
    }
    let (committed, effects) = shard.flushed(result);
    owner.metrics().sync_appends.add(committed);
    let before = shard.duties.flushing.replace(Flushing::No);
    owner.apply(&shard, effects);
    // In the list it is where it was written to meanwhile: what that waits for has to be known.
    if before == Flushing::AndAgain || shard.duties.dirty.get() {
        owner.flusher().add(&shard);
    }
    if let Some(device) = shard.unflushed.device() {
        owner.unpark_next(&device);
    }
    owner.look_after(&shard);
}
