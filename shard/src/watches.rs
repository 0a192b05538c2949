//! Fetches that wait for a commit: at the owner, which shards they watch; at the requester, whom
//! to wake.

use crate::event::Event;
use felix_core::limits::{WATCHED_SHARDS_IN_ANY_CASE_MAX, WATCHED_SHARDS_PER_CORE_MAX};
use felix_core::{CpuId, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

/// Shards of one watch: a waiting fetch of more has several, so that putting one up or taking one
/// down never holds a core for long.
pub(crate) const WATCHED_SHARDS_MAX: usize = 256;

/// What telling a watch costs beside its shards, in shards.
const FIRE_COST: usize = 3;

/// A watch as the owner knows it: the requester's core, and its number for the fetch and the watch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct WatchKey {
    /// The core of the connection.
    pub(crate) core: CpuId,
    /// That core's number for the fetch.
    pub(crate) watch: u64,
    /// Which of the watches of the fetch.
    pub(crate) chunk: u32,
}

/// One shard of a watch. A level is the bytes that the shard has committed since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Watched {
    pub(crate) shard: ShardId,
    /// The level that the requester has seen.
    pub(crate) seen: u64,
    /// From this level on a limit of the fetch leaves data behind, so that waiting adds nothing.
    pub(crate) full: u64,
}

/// The watches on the shards of one owner core. Each fires once, when its shards have committed
/// enough between them: the requester reads again and, if it has to, watches again.
///
/// A watch that misses `m` bytes of `n` shards is looked at when one of them has committed `m / n`
/// more; one of them has when all of them together have `m`. So a commit costs nothing for the
/// watches that it does not bring nearly there.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_key: HashMap<WatchKey, Await>,
    by_shard: HashMap<ShardId, Armed>,
    /// Shards with watches to look at.
    firing: VecDeque<ShardId>,
}

/// What a watch awaits.
#[derive(Debug)]
pub(crate) struct Await {
    shards: Vec<Watched>,
    /// Bytes of all of them together.
    bytes: u64,
    /// For each shard the level at which the watch is looked at.
    armed: Vec<u64>,
}

/// The watches of a shard by the level at which each is looked at.
#[derive(Debug, Default)]
struct Armed {
    keys: BTreeSet<(u64, WatchKey)>,
    firing: bool,
}

impl Await {
    /// What is missing; `None`: nothing, or some shard has no level any more.
    fn missing(&self, level: &impl Fn(ShardId) -> Option<u64>) -> Option<u64> {
        let mut gained = 0_u64;
        for watched in &self.shards {
            let now = level(watched.shard)?;
            if now >= watched.full {
                return None;
            }
            gained = gained.saturating_add(now.saturating_sub(watched.seen));
        }
        self.bytes
            .checked_sub(gained)
            .filter(|missing| *missing > 0)
    }
}

impl Watches {
    /// Adds a watch for this many more bytes of these shards, in place of an earlier one under the
    /// key. False: it need not wait, and is not kept.
    pub(crate) fn add(
        &mut self,
        key: WatchKey,
        shards: Vec<Watched>,
        bytes: u64,
        level: &impl Fn(ShardId) -> Option<u64>,
    ) -> bool {
        self.remove(key);
        let awaited = Await {
            shards,
            bytes,
            armed: Vec::new(),
        };
        let missing = awaited.missing(level);
        if let Some(missing) = missing {
            self.arm(key, awaited, missing, level);
        }
        missing.is_some()
    }

    fn arm(
        &mut self,
        key: WatchKey,
        mut awaited: Await,
        missing: u64,
        level: &impl Fn(ShardId) -> Option<u64>,
    ) {
        let count = u64::try_from(awaited.shards.len()).expect("a count fits 64 bits");
        let step = missing.div_ceil(count.max(1));
        awaited.armed.clear();
        for watched in &awaited.shards {
            let now = level(watched.shard).unwrap_or(watched.seen);
            let at = now.saturating_add(step).min(watched.full);
            awaited.armed.push(at);
            let armed = self.by_shard.entry(watched.shard).or_default();
            armed.keys.insert((at, key));
        }
        self.by_key.insert(key, awaited);
    }

    /// Forgets a watch. False: there was none.
    pub(crate) fn remove(&mut self, key: WatchKey) -> bool {
        let Some(awaited) = self.forget(key) else {
            return false;
        };
        self.disarm(key, &awaited);
        true
    }

    /// Forgets a watch, whatever it costs to take it off its shards: that may follow later, by
    /// [`Watches::disarm`].
    pub(crate) fn forget(&mut self, key: WatchKey) -> Option<Await> {
        self.by_key.remove(&key)
    }

    /// Takes a watch that is forgotten off its shards.
    pub(crate) fn disarm(&mut self, key: WatchKey, awaited: &Await) {
        for (watched, at) in awaited.shards.iter().zip(&awaited.armed) {
            self.disarm_at(watched.shard, *at, key);
        }
    }

    fn disarm_at(&mut self, shard: ShardId, at: u64, key: WatchKey) {
        if let Some(armed) = self.by_shard.get_mut(&shard) {
            armed.keys.remove(&(at, key));
            if armed.keys.is_empty() {
                self.by_shard.remove(&shard);
            }
        }
    }

    /// The shard has reached this level, or has none any more. The cost does not depend on how
    /// many watch it: they are told by [`Watches::fire`]. Whether anybody may have to be told.
    pub(crate) fn moved(&mut self, shard: ShardId, level: Option<u64>) -> bool {
        let Some(armed) = self.by_shard.get_mut(&shard) else {
            return false;
        };
        if armed.due(level).is_none() {
            return false;
        }
        if !armed.firing {
            armed.firing = true;
            self.firing.push_back(shard);
        }
        true
    }

    /// Watches to tell. Looks at watches until they and their shards are `budget`; at one, if
    /// there is one. Shards take turns.
    pub(crate) fn fire(
        &mut self,
        budget: usize,
        level: &impl Fn(ShardId) -> Option<u64>,
    ) -> Vec<WatchKey> {
        let mut fired = Vec::new();
        let mut spent = 0;
        while spent < budget
            && let Some(shard) = self.firing.pop_front()
        {
            let Some(armed) = self.by_shard.get_mut(&shard) else {
                continue;
            };
            let Some((at, key)) = armed.due(level(shard)) else {
                armed.firing = false;
                continue;
            };
            self.firing.push_back(shard);
            spent += FIRE_COST;
            let Some(awaited) = self.forget(key) else {
                self.disarm_at(shard, at, key);
                continue;
            };
            spent += awaited.shards.len();
            self.disarm(key, &awaited);
            match awaited.missing(level) {
                Some(missing) => self.arm(key, awaited, missing, level),
                None => fired.push(key),
            }
        }
        fired
    }

    /// Whether [`Watches::fire`] may have more to say.
    pub(crate) fn is_firing(&self) -> bool {
        !self.firing.is_empty()
    }

    /// All shards that are watched, in order.
    pub(crate) fn shards(&self) -> Vec<ShardId> {
        let mut shards: Vec<_> = self.by_shard.keys().copied().collect();
        shards.sort_unstable();
        shards
    }

    /// How many watches there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}

impl Armed {
    /// The first watch to be looked at.
    fn due(&self, level: Option<u64>) -> Option<(u64, WatchKey)> {
        let first = self.keys.first()?;
        level.is_none_or(|level| first.0 <= level).then_some(*first)
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
    /// Shards that they watch.
    watched: Cell<usize>,
}

/// That a fetch may watch so many shards; given back when dropped.
#[derive(Debug)]
pub(crate) struct WatchRoom {
    sleepers: Rc<Sleepers>,
    shards: usize,
}

impl Drop for WatchRoom {
    fn drop(&mut self) {
        let watched = self.sleepers.watched.get();
        self.sleepers.watched.set(watched - self.shards);
    }
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

    /// Room for one that watches so many shards; `None`: all together would watch too many.
    pub(crate) fn room(self: &Rc<Self>, shards: usize) -> Option<WatchRoom> {
        let watched = self.watched.get() + shards;
        if shards > WATCHED_SHARDS_IN_ANY_CASE_MAX && watched > WATCHED_SHARDS_PER_CORE_MAX {
            return None;
        }
        self.watched.set(watched);
        Some(WatchRoom {
            sleepers: Rc::clone(self),
            shards,
        })
    }

    /// Wakes one, if it still waits.
    pub(crate) fn wake(&self, watch: u64) {
        let sleeper = self.sleepers.borrow().get(&watch).cloned();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// Wakes all, the oldest first.
    pub(crate) fn wake_all(&self) {
        let all = self.sleepers.borrow().clone();
        let mut sleepers: Vec<_> = all.into_iter().collect();
        sleepers.sort_unstable_by_key(|(id, _)| *id);
        for (_, sleeper) in sleepers {
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
            chunk: 0,
        }
    }

    fn watched(index: u32) -> Watched {
        Watched {
            shard: shard(index),
            seen: 0,
            full: u64::MAX,
        }
    }

    fn at_0(_: ShardId) -> Option<u64> {
        Some(0)
    }

    fn at_9(_: ShardId) -> Option<u64> {
        Some(9)
    }

    #[test]
    fn a_watch_on_many_shards_fires_once_and_leaves_nothing_behind() {
        let mut watches = Watches::default();
        assert!(watches.add(key(1), vec![watched(0), watched(1)], 1, &at_0));
        assert!(watches.add(key(2), vec![watched(1)], 1, &at_0));
        assert!(watches.moved(shard(0), Some(9)));
        assert!(watches.moved(shard(1), Some(9)));
        assert_eq!(watches.fire(100, &at_9), [key(1), key(2)]);
        assert!(watches.fire(100, &at_9).is_empty());
        assert!(!watches.moved(shard(1), Some(9)));
        assert!(!watches.is_firing());
        assert_eq!(watches.len(), 0);
        assert!(watches.shards().is_empty());
    }

    #[test]
    fn a_forgotten_watch_does_not_fire() {
        let mut watches = Watches::default();
        watches.add(key(1), vec![watched(0)], 1, &at_0);
        watches.add(key(2), vec![watched(0)], 1, &at_0);
        watches.add(key(3), vec![watched(0)], 1, &at_0);
        assert!(watches.moved(shard(0), Some(9)));
        assert!(watches.remove(key(1)));
        assert!(!watches.remove(key(1)));
        let forgotten = watches.forget(key(3));
        assert_eq!(watches.fire(100, &at_9), [key(2)]);
        watches.disarm(key(3), &forgotten.expect("it was there"));
        assert!(watches.shards().is_empty());
    }

    #[test]
    fn many_watches_fire_in_slices() {
        let mut watches = Watches::default();
        for number in 0..10 {
            watches.add(key(number), vec![watched(0)], 1, &at_0);
        }
        assert!(watches.moved(shard(0), Some(9)));
        assert_eq!(watches.fire(4 * (FIRE_COST + 1), &at_9).len(), 4);
        assert!(watches.is_firing());
        assert_eq!(watches.fire(1000, &at_9).len(), 6);
        assert!(!watches.is_firing());
    }

    #[test]
    fn a_watch_is_looked_at_seldom_and_told_the_moment_its_shards_have_enough() {
        let mut watches = Watches::default();
        let levels = [Cell::new(0_u64), Cell::new(0), Cell::new(0)];
        let level = |shard: ShardId| Some(levels[usize::try_from(shard.index).unwrap()].get());
        let all = (0..3).map(watched).collect();
        assert!(watches.add(key(1), all, 3000, &level));
        let mut looks = 0;
        for bytes in 1.. {
            // One byte at a time, to one shard after the other but mostly to the first.
            let index = if bytes % 10 == 0 { bytes / 10 % 3 } else { 0 };
            let cell = &levels[usize::try_from(index).unwrap()];
            cell.set(cell.get() + 1);
            let mut fired = Vec::new();
            if watches.moved(shard(index), Some(cell.get())) {
                looks += 1;
                fired = watches.fire(1000, &level);
            }
            assert_eq!(!fired.is_empty(), bytes == 3000, "at {bytes}");
            if bytes == 3000 {
                break;
            }
        }
        assert!(looks < 40, "{looks}");
    }

    #[test]
    fn a_full_part_or_a_lost_shard_ends_a_watch_that_misses_bytes() {
        let mut watches = Watches::default();
        let full = Watched {
            full: 5,
            ..watched(0)
        };
        assert!(watches.add(key(1), vec![full, watched(1)], 1000, &at_0));
        assert!(!watches.moved(shard(0), Some(4)));
        assert!(watches.moved(shard(0), Some(9)));
        assert_eq!(watches.fire(100, &at_9), [key(1)]);
        assert!(!watches.add(key(1), vec![full], 1000, &at_9), "due at once");
        assert!(watches.add(key(2), vec![watched(0)], 1000, &at_0));
        assert!(watches.moved(shard(0), None));
        assert_eq!(watches.fire(100, &|_| None), [key(2)]);
    }
}
