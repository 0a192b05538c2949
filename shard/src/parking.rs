//! Appends that wait for room: at their shard, or on its device. They are placed in the order they
//! came, and refused where they have waited until their request's deadline.

use crate::device::Device;
use crate::event::step_aside;
use crate::owner::Owner;
use crate::placing::{BATCH_COST, COST_AT_ONCE_MAX};
use crate::runtime;
use crate::shard::{Effects, Shard};
use felix_core::Monotonic;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

impl Owner {
    /// What a change to a shard asks of the bounds of its device.
    pub(crate) fn apply_bounds(self: &Rc<Self>, shard: &Rc<Shard>, effects: Effects) {
        if effects.written {
            self.flusher().add_unhurried(shard);
        }
        if effects.presses {
            self.flusher().press();
        }
        if effects.sends {
            self.send_ahead(shard);
        }
        if let Some(deadline) = effects.deadline {
            self.watch_deadlines(shard, deadline);
        }
    }

    /// Places the shard's parked appends, as many as there is room for.
    pub(crate) fn unpark(self: &Rc<Self>, shard: &Rc<Shard>) {
        if shard.duties.unparking.replace(true) {
            return;
        }
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        let suspect = Arc::clone(shard.suspect());
        let placing = suspect.doing(async move {
            owner.place_parked(&shard).await;
            if let Some(device) = shard.unflushed.device() {
                // What it left, others may take.
                owner.unpark_next(&device);
            }
        });
        self.tasks().spawn("parked appends", placing);
    }

    /// Something of the device was flushed: the first that waits for room there has its turn.
    pub(crate) fn unpark_next(self: &Rc<Self>, device: &Device) {
        while let Some(id) = device.next_waiting() {
            let shard = self.shards.borrow().get(&id).cloned();
            if let Some(shard) = shard {
                shard.unflushed.has_turn();
                return self.unpark(&shard);
            }
        }
    }

    /// In turns with other tasks.
    async fn place_parked(self: &Rc<Self>, shard: &Rc<Shard>) {
        loop {
            let mut cost = 0;
            while cost < COST_AT_ONCE_MAX {
                let (bytes, effects) = shard.unpark(&self.writer());
                self.apply(shard, effects);
                if bytes == 0 {
                    // No await lies between this look and the mark, so no room goes unnoticed.
                    shard.duties.unparking.set(false);
                    return;
                }
                cost += BATCH_COST + bytes;
            }
            step_aside().await;
        }
    }

    /// Has the shard's parked appends refused, each at its deadline; one with that deadline is new.
    fn watch_deadlines(self: &Rc<Self>, shard: &Rc<Shard>, deadline: Monotonic) {
        let watch = &shard.duties.deadlines;
        if let Some(until) = watch.until.get() {
            if deadline < until {
                watch.until.set(Some(deadline));
                watch.sooner.notify();
            }
            return;
        }
        watch.until.set(Some(deadline));
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        let suspect = Arc::clone(shard.suspect());
        let refusing = suspect.doing(async move {
            owner.refuse_in_time(&shard).await;
            shard.duties.deadlines.until.set(None);
        });
        self.tasks().spawn("deadlines of appends", refusing);
    }

    async fn refuse_in_time(self: &Rc<Self>, shard: &Rc<Shard>) {
        let watch = &shard.duties.deadlines;
        while let Some(until) = watch.until.get() {
            let pause = pin!(runtime::sleep(until.until(self.clock().monotonic())));
            let closed = pin!(self.closed().until(|| self.is_closing()));
            let sooner = pin!(watch.sooner.until(|| watch.until.get() != Some(until)));
            match select(select(closed, sooner), pause).await {
                Either::Left((Either::Left(_), _)) => return,
                Either::Left((Either::Right(_), _)) => continue,
                Either::Right(_) => {}
            }
            let effects = shard.refuse_expired(self.clock().monotonic(), self.metrics());
            watch.until.set(shard.first_deadline());
            self.apply(shard, effects);
        }
    }
}
