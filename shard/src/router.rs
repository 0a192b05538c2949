//! All shards of the broker, seen from one core: a call where the core owns the shard, one message
//! and one reply where another does. Nothing is ever passed on from there.

use crate::call::Caller;
use crate::event::{Answer, promise, step_aside};
use crate::groups::{Gathered, Group, by_owner};
use crate::message::{Appends, Offsets, Part, Parts, ReadRequest, Request};
use crate::owner::Owner;
use crate::pieces::take_whole;
use crate::port::Port;
use crate::requester::Requester;
use crate::watches::{Sleeper, WATCHED_SHARDS_MAX, WatchKey, Watched};
use felix_core::limits::FETCH_BYTES_MAX;
use felix_core::shards::{
    Acks, Append, Appended, Fetch, FetchPart, Fetched, OffsetAnswer, OffsetQuery, PollEnd,
    ShardState,
};
use felix_core::{CpuId, Monotonic, ShardError, ShardId, Shards};
use futures_util::future::join_all;
use futures_util::{FutureExt, select_biased};
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

/// One core's way to all shards. Lives on its core; cheap to clone.
#[derive(Clone, Debug)]
pub struct Router(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    owner: Rc<Owner>,
    ports: Rc<[Rc<Port>]>,
    cores: u16,
}

impl Router {
    pub(crate) fn new(owner: Rc<Owner>, ports: Rc<[Rc<Port>]>, cores: u16) -> Self {
        Self(Rc::new(Inner {
            owner,
            ports,
            cores,
        }))
    }

    /// The lanes to a peer; `None` for the own core.
    fn port(&self, core: CpuId) -> Option<&Rc<Port>> {
        let port = self.0.ports.iter().find(|port| port.peer() == core);
        assert!(
            port.is_some() || core == self.0.owner.core(),
            "every peer has a port"
        );
        port
    }

    fn now(&self) -> Monotonic {
        self.0.owner.clock().monotonic()
    }

    /// A credit for one message to a peer. Only the caller waits.
    async fn credit(&self, port: &Port) {
        let metrics = self.0.owner.metrics();
        metrics.hops.increment();
        if !port.try_credit() {
            metrics.credit_waits.increment();
            port.credit().await;
        }
    }

    async fn hand_over(&self, group: Group<Append>) -> Handed {
        let Group {
            owner,
            places,
            items,
        } = group;
        let (admitted, results) = match self.port(owner) {
            None => {
                let (admitted, admission) = promise();
                let (results, answer) = promise();
                let caller = Caller::Own {
                    admitted: RefCell::new(Some(admitted)),
                    results: RefCell::new(Some(results)),
                };
                self.0.owner.append(items, caller);
                (admission, answer)
            }
            Some(port) => {
                self.credit(port).await;
                port.append(items, self.now())
            }
        };
        Handed {
            places,
            admitted,
            results,
        }
    }

    async fn read_group(&self, group: Group<FetchPart>, bytes_max: usize) -> (Vec<usize>, Parts) {
        let Group {
            owner,
            places,
            items,
        } = group;
        let read = ReadRequest {
            parts: items,
            bytes_max,
        };
        let answer = match self.port(owner) {
            None => {
                let (parts, answer) = promise();
                self.0.owner.fetch(read, Requester::Own(parts));
                answer.await
            }
            Some(port) => {
                self.credit(port).await;
                port.fetch(read, self.now()).await
            }
        };
        let parts = answer.unwrap_or_else(|| refused(places.len()));
        (places, parts)
    }

    /// Reads what is there now.
    async fn read(&self, parts: &[FetchPart], bytes_max: usize) -> Parts {
        let count = parts.len();
        let groups = by_owner(parts.to_vec(), self.0.cores, |part| part.shard);
        if groups.len() == 1 {
            // One owner spends the whole budget, in the order asked: nothing is left to trim.
            let group = groups.into_iter().next().expect("there is one");
            return self.read_group(group, bytes_max).await.1;
        }
        let reads = groups.into_iter().map(|group| {
            let share = share(bytes_max, group.items.len(), count);
            self.read_group(group, share)
        });
        let mut gathered = Gathered::new(count);
        for (places, parts) in join_all(reads).await {
            gathered.put(&places, parts);
        }
        trim(gathered.into_answers(), bytes_max)
    }

    async fn find_group(&self, group: Group<OffsetQuery>) -> (Vec<usize>, Offsets) {
        let Group {
            owner,
            places,
            items,
        } = group;
        let answer = match self.port(owner) {
            None => {
                let (offsets, answer) = promise();
                self.0.owner.offsets(items, Requester::Own(offsets));
                answer.await
            }
            Some(port) => {
                self.credit(port).await;
                port.offsets(items, self.now()).await
            }
        };
        let offsets = answer.unwrap_or_else(|| refused(places.len()));
        (places, offsets)
    }

    async fn poll(&self, fetch: Fetch, end: impl PollEnd) -> Parts {
        let bytes_max = fetch.bytes_max.min(FETCH_BYTES_MAX);
        let bytes_min = fetch.bytes_min.min(bytes_max);
        let owner = &self.0.owner;
        let fetch_us = &owner.metrics().fetch_us;
        let begun = self.now();
        let mut parts = self.read(&fetch.parts, bytes_max).await;
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
        let mut deadline = pin!(glommio::timer::sleep(wait).fuse());
        let mut watch = Watch::new(self.clone());
        loop {
            if owner.is_closing() {
                return parts;
            }
            watch
                .start(&fetch.parts, &parts, bytes_min, bytes_max)
                .await;
            select_biased! {
                () = pin!(watch.sleeper.woken().fuse()) => {}
                () = ended => return parts,
                () = deadline => return parts,
            }
            if owner.is_closing() {
                return parts;
            }
            let woken = self.now();
            parts = self.read(&fetch.parts, bytes_max).await;
            if is_enough(&parts, bytes_min) {
                fetch_us.record(woken, self.now());
                return parts;
            }
        }
    }
}

impl Shards for Router {
    // On a Leader stream every level of acks waits for the same: the policy of the shard decides.
    // With acks=0 nobody waits for the outcome, but the listener wants to know of errors.
    fn append(
        &self,
        appends: Vec<Append>,
        _acks: Acks,
    ) -> impl Future<
        Output = impl Future<Output = Vec<Result<Appended, ShardError>>> + use<> + 'static,
    > + use<>
    + 'static {
        let router = self.clone();
        async move {
            let count = appends.len();
            let mut handed = Vec::new();
            if router.0.owner.is_closing() {
                return Committed { count, handed };
            }
            // All are on their way before any is waited for: owners work at the same time.
            for group in by_owner(appends, router.0.cores, |append| append.shard) {
                handed.push(router.hand_over(group).await);
            }
            for handed in &mut handed {
                // `None`: the peer is gone, and the results say so.
                let _admitted: Option<()> = (&mut handed.admitted).await;
            }
            Committed { count, handed }
        }
        .map(Committed::results)
    }

    fn fetch(
        &self,
        fetch: Fetch,
        end: impl PollEnd,
    ) -> impl Future<Output = Vec<Result<Fetched, ShardError>>> + 'static {
        let router = self.clone();
        async move {
            if fetch.parts.is_empty() {
                return Vec::new();
            }
            if router.0.owner.is_closing() {
                return refused(fetch.parts.len());
            }
            let parts = router.poll(fetch, end).await;
            parts
                .into_iter()
                .map(|part| part.map(|part| part.fetched))
                .collect()
        }
    }

    fn offsets(
        &self,
        queries: Vec<OffsetQuery>,
    ) -> impl Future<Output = Vec<Result<OffsetAnswer, ShardError>>> + 'static {
        let router = self.clone();
        async move {
            let count = queries.len();
            if router.0.owner.is_closing() {
                return refused(count);
            }
            let groups = by_owner(queries, router.0.cores, |query| query.shard);
            let mut gathered = Gathered::new(count);
            let found = join_all(groups.into_iter().map(|group| router.find_group(group))).await;
            for (places, offsets) in found {
                gathered.put(&places, offsets);
            }
            gathered.into_answers()
        }
    }

    fn state(&self, shard: ShardId) -> Option<ShardState> {
        self.0.owner.table().state(shard)
    }
}

/// Appends of one owner, on their way.
#[derive(Debug)]
struct Handed {
    places: Vec<usize>,
    admitted: Answer<()>,
    results: Answer<Appends>,
}

/// Appends that all have their places, or are refused.
#[derive(Debug)]
struct Committed {
    count: usize,
    handed: Vec<Handed>,
}

impl Committed {
    /// One result per append, in the order asked, once each is committed.
    async fn results(self) -> Vec<Result<Appended, ShardError>> {
        if self.handed.is_empty() {
            return refused(self.count);
        }
        let mut gathered = Gathered::new(self.count);
        for handed in self.handed {
            let lost = || refused(handed.places.len());
            let results = handed.results.await.unwrap_or_else(lost);
            gathered.put(&handed.places, results);
        }
        gathered.into_answers()
    }
}

/// A waiting fetch's watches at the owners. Dropping it takes them back.
struct Watch {
    router: Router,
    number: u64,
    sleeper: Rc<Sleeper>,
    /// Of each watch.
    owners: Vec<CpuId>,
}

impl Watch {
    fn new(router: Router) -> Self {
        let (number, sleeper) = router.0.owner.sleepers().add();
        Self {
            router,
            number,
            sleeper,
            owners: Vec::new(),
        }
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
        let groups = by_owner(seen, self.router.0.cores, |(watched, _)| watched.shard);
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
            None => self.router.0.owner.watch(key, shards, bytes),
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
            core: self.router.0.owner.core(),
            watch: self.number,
            chunk: u32::try_from(chunk).expect("no request names so many shards"),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.router.0.owner.sleepers().remove(self.number);
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
        self.router.0.owner.unwatch_all(&own);
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

/// The answer where an owner takes nothing more.
fn refused<T>(count: usize) -> Vec<Result<T, ShardError>> {
    (0..count).map(|_| Err(ShardError::ShuttingDown)).collect()
}

/// An owner's share of the bytes of a fetch: by its share of the parts. The first batch it finds
/// is whole whatever the share, so that a small share does not stop a reader.
fn share(bytes_max: usize, parts: usize, parts_total: usize) -> usize {
    // FETCH_BYTES_MAX times the parts of any request fits by far.
    bytes_max.saturating_mul(parts) / parts_total
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

/// Every owner may have exceeded its share by its first batch: cuts the whole back to the limit,
/// from the last part asked.
fn trim(parts: Parts, bytes_max: usize) -> Parts {
    let mut bytes_left = bytes_max;
    let mut first_whole = true;
    let mut trimmed = Vec::with_capacity(parts.len());
    for part in parts {
        trimmed.push(part.and_then(|mut part| {
            let bytes = part.fetched.bytes();
            if bytes > bytes_left {
                let pieces = std::mem::take(&mut part.fetched.batches);
                let taken = take_whole(pieces, bytes_left, first_whole).map_err(|torn| {
                    ShardError::Storage(format!("no whole batch {} bytes in", torn.position))
                })?;
                part.cut |= taken.bytes < bytes;
                part.fetched.batches = taken.pieces;
            }
            let kept = part.fetched.bytes();
            bytes_left = bytes_left.saturating_sub(kept);
            first_whole &= kept == 0;
            Ok(part)
        }));
    }
    trimmed
}
