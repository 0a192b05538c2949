//! Appends to the engine: one round of them on one core.

use super::batches::Batches;
use super::cores;
use super::load::{Load, Setup};
use super::pace::Pace;
use super::round::Round;
use felix_broker::engine::Engine;
use felix_core::shards::{Acks, Append};
use felix_core::{Batch, Retention, ShardError, ShardId, Shards};
use felix_shard::Router;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use std::future::poll_fn;
use std::path::Path;
use std::task::{Context, Poll};
use std::time::Instant;

/// Appends made in one go before the other tasks of the core have their turn.
const AT_ONCE_MAX: usize = 64;

/// One round of it on the engine, with the logs in `dir`.
pub(crate) fn measure(load: &Load, setup: &Setup, dir: &Path) -> Result<Round, String> {
    let specs = cores::specs(dir, load, Retention::default());
    let (load, measured) = (*load, setup.clone());
    let count = setup.cpus.len();
    let shards: Vec<_> = (0..count)
        .map(|core| cores::own(&specs, core, count))
        .collect();
    let rounds = cores::run(setup, dir, specs, async move |engine, place| {
        let shards = shards[place.core].clone();
        Appends::new(engine, shards, &load, &measured).run().await
    })?;
    let mut all = Round::default();
    rounds.iter().for_each(|round| all.add(round));
    Ok(all)
}

/// One core's share of a round.
pub(crate) struct Appends<'engine> {
    engine: &'engine Engine,
    router: Router,
    shards: Vec<ShardId>,
    turn: usize,
    batches: Batches,
    /// Made while there is time, as many as may be under way.
    ready: Vec<Batch>,
    waiters: usize,
    pace: Pace,
    under_way: FuturesUnordered<LocalBoxFuture<'static, Ended>>,
    nap: Option<LocalBoxFuture<'engine, ()>>,
    /// Flushes of the core before what counts.
    flushes_before: Option<u64>,
    round: Round,
}

/// An append that was answered.
struct Ended {
    due: Instant,
    at: Instant,
    error: Option<ShardError>,
}

impl<'engine> Appends<'engine> {
    /// Begins now.
    pub(crate) fn new(
        engine: &'engine Engine,
        shards: Vec<ShardId>,
        load: &Load,
        setup: &Setup,
    ) -> Self {
        let (waiters, rate) = load.share(setup.cpus.len());
        Self {
            engine,
            router: engine.core().router(),
            shards,
            turn: 0,
            batches: Batches::of(load.batch_bytes),
            ready: Vec::new(),
            waiters,
            pace: Pace::begin(rate, setup.warm_up, setup.span).watched(setup.lead),
            under_way: FuturesUnordered::new(),
            nap: None,
            flushes_before: None,
            round: Round::default(),
        }
    }

    /// Goes on to the end of the round.
    pub(crate) async fn run(mut self) -> Result<Round, String> {
        poll_fn(|cx| self.poll(cx)).await?;
        let took = self.pace.counted(Instant::now());
        let before = self.flushes_before.unwrap_or_else(|| self.flushes());
        let flushes = self.flushes() - before;
        self.round.end(took, flushes);
        Ok(self.round)
    }

    fn flushes(&self) -> u64 {
        cores::counter(self.engine, "felix_storage_sync_total")
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        for _ in 0..AT_ONCE_MAX {
            while let Poll::Ready(Some(ended)) = self.under_way.poll_next_unpin(cx) {
                if let Some(error) = ended.error {
                    return Poll::Ready(Err(format!("an append was refused: {error}")));
                }
                if self.pace.counts(ended.due) {
                    self.round.record(ended.at - ended.due);
                }
            }
            let now = Instant::now();
            let Some(due) = self.pace.due(now) else {
                return match self.under_way.is_empty() {
                    true => Poll::Ready(Ok(())),
                    false => Poll::Pending,
                };
            };
            if self.under_way.len() == self.waiters {
                self.make_ready();
                // Whoever is answered wakes us.
                return Poll::Pending;
            }
            if due > now {
                self.make_ready();
                self.sleep_until(due, now, cx);
                return Poll::Pending;
            }
            self.append(due);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Parses what comes next, as connections have done that by then.
    fn make_ready(&mut self) {
        while self.ready.len() < self.waiters.min(AT_ONCE_MAX) {
            self.ready.push(self.batches.batch());
        }
    }

    /// Has this polled again a little before it is due, and over and over from then on.
    fn sleep_until(&mut self, due: Instant, now: Instant, cx: &mut Context<'_>) {
        let left = due - now;
        if left <= self.pace.lead {
            self.nap = None;
            return cx.waker().wake_by_ref();
        }
        let (engine, nap) = (self.engine, left - self.pace.lead);
        let nap = self
            .nap
            .get_or_insert_with(|| engine.pause(nap).boxed_local());
        if nap.poll_unpin(cx).is_ready() {
            self.nap = None;
            cx.waker().wake_by_ref();
        }
    }

    fn append(&mut self, due: Instant) {
        if self.flushes_before.is_none() && self.pace.counts(due) {
            self.flushes_before = Some(self.flushes());
        }
        let shard = self.shards[self.turn % self.shards.len()];
        self.turn += 1;
        self.pace.issued(due);
        let batch = self.ready.pop().unwrap_or_else(|| self.batches.batch());
        let append = vec![Append { shard, batch }];
        let handed = self.router.append(append, Acks::All);
        let answered = async move {
            let mut results = handed.await.await;
            let at = Instant::now();
            let error = results.pop().and_then(Result::err);
            Ended { due, at, error }
        };
        self.under_way.push(answered.boxed_local());
    }
}
