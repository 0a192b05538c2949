//! Preparing space for the appends of a core's shards, a few at a time. Nobody waits for it, and
//! nothing is prepared for a shard that is not written to. Each step has its own turn: a shard that is
//! written to all the time, or whose file is stuck, leaves others theirs.

use crate::owner::Owner;
use crate::shard::{Effects, Shard};
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a shard for which none could be prepared is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Space is prepared where so many such steps would fit in what is free: several shards of several
/// cores are at it, and none knows of the others.
const STEPS_AT_ONCE: u64 = 16;

impl Owner {
    /// Sees to what appends to a shard are going to need.
    pub(crate) fn provide(self: &Rc<Self>, shard: &Rc<Shard>, effects: Effects) {
        if effects.full {
            self.disk_refused();
        }
        if effects.unsaved {
            self.save_generation(shard);
        }
        if effects.begun {
            self.roll_later(shard);
        }
        if effects.wants_space {
            self.prepare(shard);
        }
    }

    /// Has the generation of a shard's opening noted, for which appends wait: a few shards at a time,
    /// so that ten thousand of them hold up no file that is to get its name.
    fn save_generation(self: &Rc<Self>, shard: &Rc<Shard>) {
        if shard.duties.unsaved.replace(true) {
            return;
        }
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        let suspect = Arc::clone(shard.suspect());
        let saving = suspect.doing(async move {
            if let Some(device) = shard.unflushed.device() {
                let noted = owner.note_generation(&shard);
                device.generations.hold(noted).await;
            }
            shard.duties.unsaved.set(false);
        });
        self.tasks().spawn("generations", saving);
    }

    async fn note_generation(self: &Rc<Self>, shard: &Rc<Shard>) {
        // Where the core closes, appends that wait are refused.
        let Some(saving) = shard.saving().filter(|_| !self.is_closing()) else {
            return;
        };
        shard.duties.saving.set(true);
        let saved = saving.run().await;
        shard.duties.saving.set(false);
        if let Err(reason) = &saved
            && reason.is_out_of_files()
        {
            let now = self.clock().monotonic();
            self.metrics().tell_refusal(now, reason);
        }
        let effects = shard.saved(saved, self.space().refusal(), self.metrics());
        self.apply(shard, effects);
    }

    /// Has space prepared for a shard, if nobody is at it.
    fn prepare(self: &Rc<Self>, shard: &Rc<Shard>) {
        let now = self.clock().monotonic();
        let failed = shard.duties.preparing_failed.get();
        let is_too_soon = failed.is_some_and(|failed| now.until(failed) < PAUSE);
        if is_too_soon || self.space().is_full() || shard.duties.in_line.replace(true) {
            return;
        }
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        let suspect = Arc::clone(shard.suspect());
        let preparing = suspect.doing(async move {
            if let Some(device) = shard.unflushed.device() {
                while device.preparations.hold(owner.prepare_step(&shard)).await {}
            }
            shard.duties.in_line.set(false);
        });
        self.tasks().spawn("preparation", preparing);
    }

    /// Prepares the next of what a shard is going to need. Whether there may be more.
    async fn prepare_step(&self, shard: &Shard) -> bool {
        // Another may be at it, to seal a segment for its age.
        if self.is_closing() || shard.duties.preparing.replace(true) {
            return false;
        }
        let more = match shard.making_next() {
            Some(making) => self.make_next(shard, making).await,
            None => self.prepare_space(shard).await,
        };
        shard.duties.preparing.set(false);
        more
    }

    /// A step of space, if one is wanted. Whether there may be another.
    async fn prepare_space(&self, shard: &Shard) -> bool {
        let Some(step) = shard.begin_preparation(self.clock().monotonic()) else {
            return false;
        };
        // It is taken from what is free as appends are, and leaves them what is left of little.
        let has_plenty = self.has_plenty(step.bytes()).await;
        if !has_plenty || self.space().admit(step.bytes()).is_err() {
            let now = self.clock().monotonic();
            shard.duties.preparing_failed.set(Some(now));
            return false;
        }
        self.metrics().preparations.increment();
        match step.run().await {
            Ok(prepared) => {
                shard.duties.preparing_failed.set(None);
                shard.prepared(&prepared);
                true
            }
            Err(error) => {
                let now = self.clock().monotonic();
                shard.duties.preparing_failed.set(Some(now));
                self.preparation_failed(shard, &error);
                false
            }
        }
    }

    /// Whether so many bytes more are little of what is free, however many steps other shards and
    /// other cores are at.
    pub(crate) async fn has_plenty(&self, bytes: u64) -> bool {
        self.free().await.is_none_or(|free| {
            let kept = free.kept(self.space().free_bytes_min());
            free.free_bytes.saturating_sub(kept) / STEPS_AT_ONCE >= bytes
        })
    }

    /// No space could be prepared. Appends do without, and few such lines are written.
    fn preparation_failed(&self, shard: &Shard, reason: &dyn Display) {
        self.metrics().preparation_failures.increment();
        if let Some(left_out) = self.metrics().space_lines.admit(self.clock().monotonic()) {
            let shard = &*shard.spec().name;
            let left_out = (left_out > 0).then_some(left_out);
            tracing::warn!(shard, %reason, left_out, "no space can be prepared; appends go on without");
        }
    }
}
