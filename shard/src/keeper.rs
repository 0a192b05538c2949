//! What the logs of one core are owed beside flushes: index files and checkpoints, and retention.
//! Nobody's records wait for any of it. Nothing ticks while nothing is owed and nothing ages.

use crate::event::Event;
use crate::flusher::{Work, wait_a_while};
use crate::log::{LogError, Removal};
use crate::owner::Owner;
use crate::rolls::Rolls;
use crate::runtime;
use crate::shard::{Owed, Shard};
use felix_core::{LogLimit, Monotonic};
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long upkeep that failed is left alone. After that the next flush of its shard has it tried
/// again.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// How long what is durable may lie above the recovery point while its shard is written little, or
/// not at all any more.
const BEHIND_MAX: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// Shards that are owed upkeep now.
    owed: RefCell<VecDeque<Rc<Shard>>>,
    /// Shards that are owed a checkpoint at a time, in the order of these times.
    behind: RefCell<VecDeque<(Monotonic, Rc<Shard>)>>,
    /// Shards from which time takes something.
    aging: RefCell<Vec<Rc<Shard>>>,
    changed: Event,
    stopping: Cell<bool>,
    /// Segments that are to be sealed for their age.
    pub(crate) rolls: Rolls,
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Self {
            owed: RefCell::default(),
            behind: RefCell::default(),
            aging: RefCell::default(),
            changed: Event::default(),
            stopping: Cell::new(false),
            rolls: Rolls::default(),
        }
    }

    fn add_owed(&self, shard: &Rc<Shard>, now: Monotonic) {
        let duties = &shard.duties;
        let failed = duties.upkeep_failed.get();
        let is_too_soon = failed.is_some_and(|failed| now.until(failed) < FAILED_PAUSE);
        if duties.keeping_up.get() || is_too_soon || duties.owed.replace(true) {
            return;
        }
        self.owed.borrow_mut().push_back(Rc::clone(shard));
        self.changed.notify();
    }

    fn add_behind(&self, shard: &Rc<Shard>, now: Monotonic) {
        if shard.duties.behind.replace(true) {
            return;
        }
        let due = now.after(BEHIND_MAX);
        self.behind.borrow_mut().push_back((due, Rc::clone(shard)));
        self.changed.notify();
    }

    fn add_aging(&self, shard: &Rc<Shard>) {
        if !shard.is_aging() || shard.duties.aging.replace(true) {
            return;
        }
        self.aging.borrow_mut().push(Rc::clone(shard));
        self.changed.notify();
    }

    /// The next that is behind and due; where none is, when one will be.
    fn next_behind(&self, now: Monotonic) -> Result<Rc<Shard>, Option<Monotonic>> {
        let mut behind = self.behind.borrow_mut();
        match behind.front() {
            Some((due, _)) if *due <= now => {
                let (_, shard) = behind.pop_front().expect("there is a front");
                shard.duties.behind.set(false);
                Ok(shard)
            }
            Some((due, _)) => Err(Some(*due)),
            None => Err(None),
        }
    }

    /// Ends its tasks. What is owed then, closing a log does.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.changed.notify();
        self.rolls.stop();
    }

    /// Returns after `pause`, or where it is to stop.
    async fn pause(&self, pause: Duration) {
        let pause = pin!(runtime::sleep(pause));
        let stop = pin!(self.changed.until(|| self.stopping.get()));
        match select(stop, pause).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }
}

impl Owner {
    /// Something of the shard was made durable, or it was opened.
    pub(crate) fn look_after(self: &Rc<Self>, shard: &Rc<Shard>) {
        let keeper = self.keeper();
        let now = self.clock().monotonic();
        match shard.upkeep_owed(self.clock().wall()) {
            Owed::Nothing => {}
            Owed::Later => keeper.add_behind(shard, now),
            Owed::Now => {
                keeper.add_owed(shard, now);
                // Once more, should that fail and nothing be written any more.
                keeper.add_behind(shard, now);
            }
        }
        keeper.add_aging(shard);
    }

    /// A shard was opened: it may hold what is not kept any more, and files of what was not.
    pub(crate) fn look_after_opened(self: &Rc<Self>, shard: &Rc<Shard>) {
        shard.retain(self.clock().wall());
        self.look_after(shard);
        self.roll_later(shard);
        self.remove_files(shard);
    }

    /// Index files or a checkpoint could not be written. No record waits for them; until the disk
    /// takes them, each attempt says so.
    fn upkeep_failed(&self, shard: &Shard, reason: &LogError) {
        self.metrics().upkeep_failures.increment();
        let what = "index files or a checkpoint cannot be written; the shard goes on without them";
        self.tell_setback(&self.metrics().upkeep_lines, shard, reason, what);
    }

    /// Files below a log start could not be removed. The next opening tries again.
    fn removal_failed(&self, shard: &Shard, reason: &LogError) {
        self.metrics().retention_failures.increment();
        let what = "files below the log start cannot be removed; the next start of the broker \
                    tries again";
        self.tell_setback(&self.metrics().removal_lines, shard, reason, what);
    }

    /// Warns of what a shard goes on without. Few such lines are written.
    fn tell_setback(&self, lines: &LogLimit, shard: &Shard, reason: &LogError, what: &str) {
        if let Some(left_out) = lines.admit(self.clock().monotonic()) {
            let shard = &*shard.spec().name;
            let left_out = (left_out > 0).then_some(left_out);
            tracing::warn!(shard, %reason, left_out, "{what}");
        }
    }

    /// Removes the files of what the shard's log let go of.
    fn remove_files(self: &Rc<Self>, shard: &Rc<Shard>) {
        let Some(removal) = shard.removal() else {
            return;
        };
        let removing = remove(Rc::clone(self), Rc::clone(shard), removal);
        let removing = Arc::clone(shard.suspect()).doing(removing);
        self.tasks().spawn("removals", removing);
    }
}

/// Writes index files and checkpoints, one shard at a time: what others wait for shall not share the
/// device with more of it.
pub(crate) async fn upkeep(owner: Rc<Owner>) {
    let keeper = owner.keeper();
    loop {
        let is_owed = || !keeper.owed.borrow().is_empty();
        let wakes = || is_owed() || keeper.stopping.get();
        keeper.changed.until(wakes).await;
        if keeper.stopping.get() {
            return;
        }
        let shard = keeper.owed.borrow_mut().pop_front();
        if let Some(shard) = shard {
            shard.duties.owed.set(false);
            let work = keep_up(Rc::clone(&owner), Rc::clone(&shard));
            let work = Box::pin(Arc::clone(shard.suspect()).doing(work));
            wait_a_while(&owner, &shard, Work::Upkeep, work).await;
        }
    }
}

/// Has shards that are behind written a checkpoint, each once the time has come.
pub(crate) async fn catching_up(owner: Rc<Owner>) {
    let keeper = owner.keeper();
    loop {
        let is_behind = || !keeper.behind.borrow().is_empty();
        let wakes = || is_behind() || keeper.stopping.get();
        keeper.changed.until(wakes).await;
        if keeper.stopping.get() {
            return;
        }
        let now = owner.clock().monotonic();
        match keeper.next_behind(now) {
            Ok(shard) => {
                if shard.upkeep_owed(owner.clock().wall()) != Owed::Nothing {
                    keeper.add_owed(&shard, now);
                    keeper.add_behind(&shard, now);
                }
                runtime::breathe().await;
            }
            Err(Some(due)) => keeper.pause(due.until(now)).await,
            Err(None) => {}
        }
    }
}

/// Looks every interval for what has become too old.
pub(crate) async fn aging(owner: Rc<Owner>, interval: Duration) {
    let keeper = owner.keeper();
    loop {
        let is_aging = || !keeper.aging.borrow().is_empty();
        let wakes = || is_aging() || keeper.stopping.get();
        keeper.changed.until(wakes).await;
        keeper.pause(interval).await;
        if keeper.stopping.get() {
            return;
        }
        let shards = std::mem::take(&mut *keeper.aging.borrow_mut());
        for shard in shards {
            shard.duties.aging.set(false);
            shard.retain(owner.clock().wall());
            owner.look_after(&shard);
            runtime::breathe().await;
        }
    }
}

async fn keep_up(owner: Rc<Owner>, shard: Rc<Shard>) {
    let Some(upkeep) = shard.begin_upkeep() else {
        return;
    };
    shard.duties.keeping_up.set(true);
    let mut result = upkeep.run().await;
    // What is let go of is the space that is missing.
    if result.as_ref().is_err_and(LogError::is_full)
        && shard.owes_start()
        && owner.give_up_reserve().await
    {
        owner.space_is_gone();
        if let Some(upkeep) = shard.begin_upkeep() {
            result = upkeep.run().await;
        }
    }
    shard.duties.keeping_up.set(false);
    let before = shard.segments();
    match shard.kept_up(result) {
        Ok(effects) => {
            shard.duties.upkeep_failed.set(None);
            if effects.failed {
                owner.metrics().sync_failures.increment();
            }
            owner.apply(&shard, effects);
            if let Some(device) = shard.unflushed.device() {
                owner.unpark_next(&device);
            }
            let gone = before.saturating_sub(shard.segments());
            owner.metrics().retention_segments.add(gone as u64);
            owner.remove_files(&shard);
            owner.look_after(&shard);
        }
        Err(error) => {
            let now = owner.clock().monotonic();
            shard.duties.upkeep_failed.set(Some(now));
            owner.upkeep_failed(&shard, &error);
        }
    }
}

async fn remove(owner: Rc<Owner>, shard: Rc<Shard>, mut removal: Removal) {
    loop {
        let closed = pin!(owner.closed().until(|| owner.is_closing()));
        let Either::Left((Some(remains), _)) = select(pin!(removal.next()), closed).await else {
            return;
        };
        let Some(device) = shard.unflushed.device() else {
            return;
        };
        let removed = device.removals.hold(async {
            if owner.is_closing() {
                return None;
            }
            Some(remains.remove(|| !owner.is_closing()).await)
        });
        match removed.await {
            Some(Ok(freed)) => owner.metrics().retention_bytes.add(freed),
            Some(Err(error)) => owner.removal_failed(&shard, &error),
            None => return,
        }
    }
}
