//! A Fetch that waits, on the core of its connection: what it watches, and what ends its wait.

use crate::event::step_aside;
use crate::groups::by_owner;
use crate::message::{Part, Parts, Request};
use crate::router::{Router, share};
use crate::runtime;
use crate::watches::{Sleeper, WATCHED_SHARDS_MAX, WatchKey, WatchRoom, Watched};
use felix_core::limits::FETCH_BYTES_MAX;
use felix_core::shards::{Fetch, FetchPart, PollEnd};
use felix_core::{CpuId, ShardError};
use futures_util::{FutureExt, select_biased};
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

impl Router {
    /// Reads, and waits for what is missing.
    pub(crate) async fn poll(&self, fetch: Fetch, end: impl PollEnd) -> Parts {
        let bytes_max = fetch.bytes_max.min(FETCH_BYTES_MAX);
        let bytes_min = fetch.bytes_min.min(bytes_max);
        let read = || self.read(&fetch.parts, bytes_max, fetch.first_bytes_max);
        let owner = self.owner();
        let fetch_us = &owner.metrics().fetch_us;
        let begun = self.now();
        let mut parts = read().await;
        let now = self.now();
        if is_enough(&parts, bytes_min) {
            fetch_us.record(begun, now);
            return parts;
        }
        let wait = fetch.deadline.until(now);
        if wait.is_zero() {
            return parts;
        }
        let mut ended = pin!(end.ended().fuse());
        let mut deadline = pin!(runtime::sleep(wait).fuse());
        let mut watch = Watch::new(self.clone(), fetch.parts.len());
        let mut look = pin!(look_between(watch.has_room(), wait).fuse());
        loop {
            if owner.is_closing() {
                return parts;
            }
            if watch.has_room() {
                watch
                    .start(&fetch.parts, &parts, bytes_min, bytes_max)
                    .await;
            } else {
                // It reads again in any case, and keeps nothing until then.
                parts = Vec::new();
            }
            let over = select_biased! {
                () = pin!(watch.sleeper.woken().fuse()) => false,
                () = ended => true,
                () = deadline => true,
                () = look => false,
            };
            if watch.has_room() && (over || owner.is_closing()) {
                return parts;
            }
            let woken = self.now();
            parts = read().await;
            if over || is_enough(&parts, bytes_min) {
                fetch_us.record(woken, self.now());
                return parts;
            }
        }
    }
}

/// A fetch that watches is woken. One that has no room to looks of itself, half way and at the end.
async fn look_between(watches: bool, wait: Duration) {
    if watches {
        pending().await
    } else {
        runtime::sleep(wait / 2).await;
    }
}

/// A waiting fetch's watches at the owners. Dropping it takes them back.
struct Watch {
    router: Router,
    number: u64,
    sleeper: Rc<Sleeper>,
    /// `None`: this core watches as much as it may.
    room: Option<WatchRoom>,
    /// Of each watch.
    owners: Vec<CpuId>,
}

impl Watch {
    fn new(router: Router, shards: usize) -> Self {
        let owner = router.owner();
        let (number, sleeper) = owner.sleepers().add();
        let room = owner.sleepers().room(shards);
        if room.is_none() {
            owner.metrics().unwatched_polls.increment();
        }
        Self {
            router,
            number,
            sleeper,
            room,
            owners: Vec::new(),
        }
    }

    /// Whether it may watch.
    fn has_room(&self) -> bool {
        self.room.is_some()
    }

    /// Tells every owner what the fetch has seen of its shards, and its part of what is missing:
    /// when all is there, at least one of them has its part.
    async fn start(
        &mut self,
        asked: &[FetchPart],
        seen: &[Result<Part, ShardError>],
        bytes_min: usize,
        bytes_max: usize,
    ) {
        let seen: Vec<(Watched, usize)> = asked
            .iter()
            .zip(seen)
            .filter_map(|(part, seen)| Some(watched(part, seen.as_ref().ok()?)))
            .collect();
        let count = seen.len();
        let bytes: usize = seen.iter().map(|(_, bytes)| bytes).sum();
        let missing = bytes_min.saturating_sub(bytes);
        let groups = by_owner(seen, self.router.cores(), |(watched, _)| watched.shard);
        let watches: usize = groups.iter().map(|group| watches(&group.items)).sum();
        let mut chunk = 0;
        for group in &groups {
            // Over its share an owner leaves data behind, which ends the wait, too.
            let bytes: usize = group.items.iter().map(|(_, bytes)| bytes).sum();
            let share_left = share(bytes_max, group.items.len(), count).saturating_sub(bytes) + 1;
            let bytes = missing
                .div_ceil(watches)
                .min(share_left.div_ceil(self::watches(&group.items)));
            for shards in group.items.chunks(WATCHED_SHARDS_MAX) {
                if chunk > 0 {
                    step_aside().await;
                }
                let shards = shards.iter().map(|(watched, _)| *watched).collect();
                self.put(chunk, group.owner, shards, size(bytes));
                chunk += 1;
            }
        }
    }

    /// A watch in place of the one that had this number, which was at the same owner: the shards
    /// of a fetch that waits are always the same.
    fn put(&mut self, chunk: usize, owner: CpuId, shards: Vec<Watched>, bytes: u64) {
        match self.owners.get(chunk) {
            None => self.owners.push(owner),
            Some(earlier) => assert!(*earlier == owner, "the shards are the same"),
        }
        let key = self.key(chunk);
        match self.router.port(owner) {
            None => self.router.owner().watch(key, shards, bytes),
            Some(port) => port.tell(Request::Watch {
                watch: key.watch,
                chunk: key.chunk,
                shards,
                bytes,
            }),
        }
    }

    fn key(&self, chunk: usize) -> WatchKey {
        WatchKey {
            core: self.router.owner().core(),
            watch: self.number,
            chunk: u32::try_from(chunk).expect("no request names so many shards"),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.router.owner().sleepers().remove(self.number);
        let mut own = Vec::new();
        for (chunk, owner) in self.owners.iter().enumerate() {
            let key = self.key(chunk);
            match self.router.port(*owner) {
                None => own.push(key),
                Some(port) => port.tell(Request::Unwatch {
                    watch: key.watch,
                    chunk: key.chunk,
                }),
            }
        }
        self.router.owner().unwatch_all(&own);
    }
}

/// What a fetch has seen of a part: for its watch, and the bytes.
fn watched(asked: &FetchPart, seen: &Part) -> (Watched, usize) {
    let bytes = seen.fetched.bytes();
    let room = size(asked.bytes_max.saturating_sub(bytes));
    let watched = Watched {
        shard: asked.shard,
        seen: seen.level,
        full: seen.level.saturating_add(room).saturating_add(1),
    };
    (watched, bytes)
}

/// How many watches the shards of an owner need.
fn watches<T>(shards: &[T]) -> usize {
    shards.len().div_ceil(WATCHED_SHARDS_MAX)
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a size fits 64 bits")
}

/// Whether waiting would serve nobody: there is enough, or an error, or a limit left data behind.
fn is_enough(parts: &[Result<Part, ShardError>], bytes_min: usize) -> bool {
    let mut bytes = 0;
    for part in parts {
        match part {
            Ok(part) if part.cut => return true,
            Ok(part) => bytes += part.fetched.bytes(),
            Err(_) => return true,
        }
    }
    bytes >= bytes_min
}
