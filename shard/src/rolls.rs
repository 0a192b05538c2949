//! Segments that are to be sealed for their age. A core has one timer for all its shards, which goes
//! off when the first of them is due: ten thousand that are idle wake it no more often than one.

use crate::event::Event;
use crate::flusher::{Work, wait_a_while};
use crate::log::Making;
use crate::owner::Owner;
use crate::runtime;
use crate::shard::Shard;
use felix_core::{Monotonic, ShardId};
use futures_util::future::select;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a shard whose segment could not be sealed is left alone.
const FAILED_PAUSE: Duration = Duration::from_secs(60);

/// The same where something else is at work on its files.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Rolls {
    /// One entry for each shard whose segment that grows has a batch, or had one when it was added:
    /// whether it is due is looked at again when its time has come.
    due: RefCell<BTreeMap<(Monotonic, ShardId), Rc<Shard>>>,
    changed: Event,
    stopping: Cell<bool>,
}

impl Rolls {
    fn add(&self, shard: &Rc<Shard>, due: Monotonic) {
        if shard.duties.rolls.replace(true) {
            return;
        }
        let mut all = self.due.borrow_mut();
        all.insert((due, shard.id()), Rc::clone(shard));
        let is_first = all
            .first_key_value()
            .is_some_and(|(first, _)| first.1 == shard.id());
        drop(all);
        if is_first {
            self.changed.notify();
        }
    }

    fn first(&self) -> Option<Monotonic> {
        let due = self.due.borrow();
        due.first_key_value().map(|((due, _), _)| *due)
    }

    fn take(&self, now: Monotonic) -> Option<Rc<Shard>> {
        let mut all = self.due.borrow_mut();
        let first = all.first_entry().filter(|first| first.key().0 <= now)?;
        let shard = first.remove();
        shard.duties.rolls.set(false);
        Some(shard)
    }

    /// Ends its task.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.changed.notify();
    }

    /// Returns when the first one is due, another one has become the first, or where it is to stop.
    async fn pause(&self, first: Monotonic, now: Monotonic) {
        let is_other = || self.stopping.get() || self.first() != Some(first);
        let pause = pin!(runtime::sleep(first.until(now)));
        select(pin!(self.changed.until(is_other)), pause).await;
    }
}

impl Owner {
    /// The shard has a segment that is to be sealed some time.
    pub(crate) fn roll_later(&self, shard: &Rc<Shard>) {
        if let Some(left) = shard.roll_due(self.clock().wall()) {
            let due = self.clock().monotonic().after(left);
            self.keeper().rolls.add(shard, due);
        }
    }

    /// Makes the file of a next segment. Whether it could be made.
    pub(crate) async fn make_next(&self, shard: &Shard, making: Making) -> bool {
        let bytes = making.bytes();
        let is_little = bytes == 0 || self.has_plenty(bytes).await;
        let making = if is_little && self.space().admit(bytes).is_ok() {
            making
        } else {
            making.without_space()
        };
        match making.run().await {
            Ok(next) => {
                if !shard.made_next(next) {
                    self.metrics().rolls_discarded.increment();
                }
                true
            }
            Err(reason) => {
                self.metrics().roll_failures.increment();
                let now = self.clock().monotonic();
                shard.duties.preparing_failed.set(Some(now));
                if let Some(left_out) = self.metrics().roll_lines.admit(now) {
                    let shard = &*shard.spec().name;
                    let left_out = (left_out > 0).then_some(left_out);
                    tracing::warn!(shard, %reason, left_out, "the file of a next segment could not be made");
                }
                false
            }
        }
    }

    /// Seals the segment of a shard if it is due.
    async fn roll_by_age(self: &Rc<Self>, shard: &Rc<Shard>) {
        let wall = self.clock().wall();
        if shard.duties.preparing.replace(true) {
            // It may be at the next segment.
            self.roll_again(shard, BUSY_PAUSE);
            return;
        }
        let is_made = match shard.making_next_for_age(wall) {
            Some(making) => self.make_next(shard, making).await,
            None => true,
        };
        shard.duties.preparing.set(false);
        if !is_made {
            self.roll_again(shard, FAILED_PAUSE);
            return;
        }
        let (rolled, effects) = shard.roll(wall);
        self.metrics().rolled(rolled, true);
        self.apply(shard, effects);
        match shard.roll_due(wall) {
            // The last roll is not flushed yet.
            Some(Duration::ZERO) => self.roll_again(shard, BUSY_PAUSE),
            Some(_) | None => self.roll_later(shard),
        }
    }

    fn roll_again(&self, shard: &Rc<Shard>, pause: Duration) {
        let now = self.clock().monotonic();
        self.keeper().rolls.add(shard, now.after(pause));
    }
}

/// Seals segments for their age, each when it is due.
pub(crate) async fn by_age(owner: Rc<Owner>) {
    let rolls = &owner.keeper().rolls;
    loop {
        let wakes = || rolls.first().is_some() || rolls.stopping.get();
        rolls.changed.until(wakes).await;
        if rolls.stopping.get() {
            return;
        }
        let now = owner.clock().monotonic();
        match (rolls.take(now), rolls.first()) {
            (Some(shard), _) => {
                let (own, due) = (Rc::clone(&owner), Rc::clone(&shard));
                let suspect = Arc::clone(shard.suspect());
                let work = suspect.doing(async move { own.roll_by_age(&due).await });
                let work = Box::pin(work);
                wait_a_while(&owner, &shard, Work::Roll, work).await;
            }
            (None, Some(first)) => rolls.pause(first, now).await,
            (None, None) => {}
        }
    }
}
