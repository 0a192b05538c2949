//! Watches at their owner core: put up for the waiting fetches of all cores, and told in turns with
//! other tasks.

use crate::event::step_aside;
use crate::message::Reply;
use crate::owner::Owner;
use crate::watches::{Await, WatchKey, Watched};
use felix_core::ShardId;
use std::rc::Rc;

/// Watches and their shards looked at in one go: more would hold the core for longer than a task
/// may.
const FIRED_AT_ONCE_MAX: usize = 256;

impl Owner {
    /// Tells the requester once when these shards have committed so much more than it has seen, or
    /// one of them is no more; at once, if that is so now.
    pub(crate) fn watch(self: &Rc<Self>, key: WatchKey, shards: Vec<Watched>, bytes: u64) {
        let level = |shard| self.level(shard);
        let added = self.watches.borrow_mut().add(key, shards, bytes, &level);
        if !added {
            self.wake(&[key]);
        }
    }

    /// Forgets a watch.
    pub(crate) fn unwatch(&self, key: WatchKey) {
        self.watches.borrow_mut().remove(key);
    }

    /// Forgets the watches of a fetch of this core: the first now, those of a fetch of many shards
    /// in turns with other tasks.
    pub(crate) fn unwatch_all(self: &Rc<Self>, keys: &[WatchKey]) {
        let forgotten: Vec<(WatchKey, Await)> = keys
            .iter()
            .filter_map(|key| Some((*key, self.watches.borrow_mut().forget(*key)?)))
            .collect();
        let mut forgotten = forgotten.into_iter();
        if let Some((key, awaited)) = forgotten.next() {
            self.watches.borrow_mut().disarm(key, &awaited);
        }
        if forgotten.len() == 0 || self.is_closing() {
            // Nothing is told any more once all have been told of the closing.
            return;
        }
        let owner = Rc::clone(self);
        self.tasks().spawn("forgetting watches", async move {
            for (key, awaited) in forgotten {
                step_aside().await;
                owner.watches.borrow_mut().disarm(key, &awaited);
            }
        });
    }

    /// What a shard has committed; `None`: it serves nothing.
    fn level(&self, shard: ShardId) -> Option<u64> {
        self.shard(shard).ok()?.level()
    }

    /// The visible end of a shard moved, or the shard is no more.
    pub(crate) fn tell_watches(self: &Rc<Self>, shard: ShardId) {
        let level = self.level(shard);
        if self.watches.borrow_mut().moved(shard, level) {
            self.fire_watches();
        }
    }

    /// Tells the watches that are due: a slice now, the rest in turns with other tasks.
    fn fire_watches(self: &Rc<Self>) {
        if self.firing.get() {
            return;
        }
        self.fire_slice();
        if self.watches.borrow().is_firing() {
            self.firing.set(true);
            let owner = Rc::clone(self);
            self.tasks().spawn("waking", async move {
                while owner.watches.borrow().is_firing() {
                    step_aside().await;
                    owner.fire_slice();
                }
                owner.firing.set(false);
            });
        }
    }

    fn fire_slice(&self) {
        let level = |shard| self.level(shard);
        let fired = self.watches.borrow_mut().fire(FIRED_AT_ONCE_MAX, &level);
        self.wake(&fired);
    }

    fn wake(&self, keys: &[WatchKey]) {
        for key in keys.iter().filter(|key| key.core == self.core()) {
            self.sleepers().wake(key.watch);
        }
        for port in self.ports() {
            let theirs = keys.iter().filter(|key| key.core == port.peer());
            let watches: Vec<u64> = theirs.map(|key| key.watch).collect();
            if !watches.is_empty() {
                port.reply(Reply::Wake(watches));
            }
        }
    }
}
