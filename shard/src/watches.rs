//! Fetches that wait for a commit: at the owner, which shards they watch; at the requester, whom
//! to wake.

use crate::event::Event;
use felix_core::{CpuId, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

/// A watch as the owner knows it: the requester's core and number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct WatchKey {
    /// The core of the connection.
    pub(crate) core: CpuId,
    /// That core's number for it.
    pub(crate) watch: u64,
}

/// The watches on the shards of one owner core. Each fires once: the requester reads again and, if
/// it has to, watches again.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_key: HashMap<WatchKey, Vec<ShardId>>,
    by_shard: HashMap<ShardId, BTreeSet<WatchKey>>,
    /// Taken off shards whose visible end moved, and not yet told.
    firing: VecDeque<BTreeSet<WatchKey>>,
}

impl Watches {
    /// Adds a watch on these shards, in place of an earlier one under the key.
    pub(crate) fn add(&mut self, key: WatchKey, shards: Vec<ShardId>) {
        self.remove(key);
        for shard in &shards {
            self.by_shard.entry(*shard).or_default().insert(key);
        }
        self.by_key.insert(key, shards);
    }

    /// Forgets a watch. False: there was none.
    pub(crate) fn remove(&mut self, key: WatchKey) -> bool {
        let Some(shards) = self.by_key.remove(&key) else {
            return false;
        };
        for shard in shards {
            if let Some(keys) = self.by_shard.get_mut(&shard) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.by_shard.remove(&shard);
                }
            }
        }
        true
    }

    /// The visible end of `shard` moved, or the shard is no more. The cost does not depend on how
    /// many watch it: they are told by [`Watches::fire`]. Whether anybody is to be told.
    pub(crate) fn moved(&mut self, shard: ShardId) -> bool {
        let Some(keys) = self.by_shard.remove(&shard) else {
            return false;
        };
        self.firing.push_back(keys);
        true
    }

    /// Up to `count` watches to tell, oldest first.
    pub(crate) fn fire(&mut self, count: usize) -> Vec<WatchKey> {
        let mut fired = Vec::new();
        while fired.len() < count {
            let Some(keys) = self.firing.front_mut() else {
                break;
            };
            match keys.pop_first() {
                None => {
                    self.firing.pop_front();
                }
                // Not there any more: told of another shard, or forgotten.
                Some(key) => {
                    if self.remove(key) {
                        fired.push(key);
                    }
                }
            }
        }
        fired
    }

    /// Whether [`Watches::fire`] has more to say.
    pub(crate) fn is_firing(&self) -> bool {
        !self.firing.is_empty()
    }

    /// All shards that are watched.
    pub(crate) fn shards(&self) -> Vec<ShardId> {
        self.by_shard.keys().copied().collect()
    }

    /// How many watches there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}

/// A waiting fetch, on the core of its connection.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    woken: Cell<bool>,
    event: Event,
}

impl Sleeper {
    /// There is something to see.
    pub(crate) fn wake(&self) {
        self.woken.set(true);
        self.event.notify();
    }

    /// Resolves once for any number of wakes since the last time.
    pub(crate) async fn woken(&self) {
        self.event.until(|| self.woken.take()).await;
    }
}

/// The waiting fetches of one core's connections.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    watch_next: Cell<u64>,
    sleepers: RefCell<HashMap<u64, Rc<Sleeper>>>,
}

impl Sleepers {
    /// A new one and its number.
    pub(crate) fn add(&self) -> (u64, Rc<Sleeper>) {
        let watch = self.watch_next.get();
        self.watch_next.set(watch + 1);
        let sleeper = Rc::new(Sleeper::default());
        self.sleepers
            .borrow_mut()
            .insert(watch, Rc::clone(&sleeper));
        (watch, sleeper)
    }

    /// Wakes one, if it still waits.
    pub(crate) fn wake(&self, watch: u64) {
        let sleeper = self.sleepers.borrow().get(&watch).cloned();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// Wakes all.
    pub(crate) fn wake_all(&self) {
        let sleepers: Vec<_> = self.sleepers.borrow().values().cloned().collect();
        for sleeper in sleepers {
            sleeper.wake();
        }
    }

    /// One waits no more.
    pub(crate) fn remove(&self, watch: u64) {
        self.sleepers.borrow_mut().remove(&watch);
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.sleepers.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::StreamId;

    fn shard(index: u32) -> ShardId {
        ShardId {
            stream: StreamId(1),
            index,
        }
    }

    fn key(watch: u64) -> WatchKey {
        WatchKey {
            core: CpuId(0),
            watch,
        }
    }

    #[test]
    fn a_watch_on_many_shards_fires_once_and_leaves_nothing_behind() {
        let mut watches = Watches::default();
        watches.add(key(1), vec![shard(0), shard(1)]);
        watches.add(key(2), vec![shard(1)]);
        assert!(watches.moved(shard(0)));
        assert!(watches.moved(shard(1)));
        assert!(!watches.moved(shard(1)));
        assert_eq!(watches.fire(10), [key(1), key(2)]);
        assert!(watches.fire(10).is_empty());
        assert!(!watches.is_firing());
        assert_eq!(watches.len(), 0);
        assert!(watches.shards().is_empty());
    }

    #[test]
    fn a_forgotten_watch_does_not_fire() {
        let mut watches = Watches::default();
        watches.add(key(1), vec![shard(0)]);
        watches.add(key(2), vec![shard(0)]);
        assert!(watches.moved(shard(0)));
        assert!(watches.remove(key(1)));
        assert!(!watches.remove(key(1)));
        assert_eq!(watches.fire(1), [key(2)]);
    }

    #[test]
    fn many_watches_fire_in_slices() {
        let mut watches = Watches::default();
        for number in 0..10 {
            watches.add(key(number), vec![shard(0)]);
        }
        assert!(watches.moved(shard(0)));
        assert_eq!(watches.fire(4).len(), 4);
        assert!(watches.is_firing());
        assert_eq!(watches.fire(100).len(), 6);
        assert!(!watches.is_firing());
    }
}
