//! All shards of the broker, seen from one core: a call where the core owns the shard, one message
//! and one reply where another does. Nothing is ever passed on from there.

use crate::call::Caller;
use crate::event::{Answer, promise};
use crate::groups::{Gathered, Group, by_owner};
use crate::message::{Appends, Offsets, Parts, ReadRequest};
use crate::owner::Owner;
use crate::pieces::take_whole;
use crate::port::Port;
use crate::requester::Requester;
use felix_core::shards::{
    Acks, Append, Appended, Fetch, FetchPart, Fetched, OffsetAnswer, OffsetQuery, PollEnd,
    ShardState,
};
use felix_core::{CpuId, Monotonic, ShardError, ShardId, Shards};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::cell::RefCell;
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

    /// What this core owns.
    pub(crate) fn owner(&self) -> &Rc<Owner> {
        &self.0.owner
    }

    /// The shards of this core that failed, and why.
    #[must_use]
    pub fn failures(&self) -> Vec<(ShardId, String)> {
        self.0.owner.failures()
    }

    /// The same with what each failed of first alone, whatever came of attempts to open it again.
    #[must_use]
    pub fn first_failures(&self) -> Vec<(ShardId, String)> {
        self.0.owner.first_failures()
    }

    /// Why this core refuses appends, if it does since the disk is full.
    #[must_use]
    pub fn disk_full(&self) -> Option<ShardError> {
        let space = self.0.owner.space();
        space.is_full().then(|| space.refusal())
    }

    /// How many cores there are.
    pub(crate) fn cores(&self) -> u16 {
        self.0.cores
    }

    /// The lanes to a peer; `None` for the own core.
    pub(crate) fn port(&self, core: CpuId) -> Option<&Rc<Port>> {
        let port = self.0.ports.iter().find(|port| port.peer() == core);
        assert!(
            port.is_some() || core == self.0.owner.core(),
            "every peer has a port"
        );
        port
    }

    pub(crate) fn now(&self) -> Monotonic {
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

    async fn hand_over(&self, group: Group<Append>, deadline: Option<Monotonic>) -> Handed {
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
                self.0.owner.append(items, deadline, caller);
                (admission, answer)
            }
            Some(port) => {
                self.credit(port).await;
                port.append(items, deadline, self.now())
            }
        };
        Handed {
            places,
            admitted,
            results,
        }
    }

    async fn read_group(
        &self,
        group: Group<FetchPart>,
        bytes_max: usize,
        first_bytes_max: usize,
    ) -> (Vec<usize>, Parts) {
        let Group {
            owner,
            places,
            items,
        } = group;
        let read = ReadRequest {
            parts: items,
            bytes_max,
            first_bytes_max,
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
    pub(crate) async fn read(
        &self,
        parts: &[FetchPart],
        bytes_max: usize,
        first_bytes_max: usize,
    ) -> Parts {
        let count = parts.len();
        let groups = by_owner(parts.to_vec(), self.0.cores, |part| part.shard);
        if groups.len() == 1 {
            // One owner spends the whole budget, in the order asked: nothing is left to trim.
            let group = groups.into_iter().next().expect("there is one");
            return self.read_group(group, bytes_max, first_bytes_max).await.1;
        }
        let reads = groups.into_iter().map(|group| {
            let share = share(bytes_max, group.items.len(), count);
            self.read_group(group, share, first_bytes_max)
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
}

impl Shards for Router {
    // On a Leader stream every level of acks waits for the same: the policy of the shard decides.
    // With acks=0 nobody waits for the outcome, but the listener wants to know of errors.
    fn append_until(
        &self,
        appends: Vec<Append>,
        _acks: Acks,
        deadline: Option<Monotonic>,
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
                handed.push(router.hand_over(group, deadline).await);
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

/// The answer where an owner takes nothing more.
fn refused<T>(count: usize) -> Vec<Result<T, ShardError>> {
    (0..count).map(|_| Err(ShardError::ShuttingDown)).collect()
}

/// An owner's share of the bytes of a fetch: by its share of the parts. The first batch it finds
/// is whole whatever the share, so that a small share does not stop a reader.
pub(crate) fn share(bytes_max: usize, parts: usize, parts_total: usize) -> usize {
    // FETCH_BYTES_MAX times the parts of any request fits by far.
    bytes_max.saturating_mul(parts) / parts_total
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
            if part.fetched.left_out.is_some() {
                if first_whole {
                    // As at the owner: nothing comes in its place.
                    (bytes_left, first_whole) = (0, false);
                } else {
                    part.fetched.left_out = None;
                }
            }
            let kept = part.fetched.bytes();
            bytes_left = bytes_left.saturating_sub(kept);
            first_whole &= kept == 0;
            Ok(part)
        }));
    }
    trimmed
}
