//! Shards as a plain vector of batches each, which queue, commit and fail when the test says so.

#![expect(clippy::async_yields_async, reason = "queued first, committed later")]

use bytes::Bytes;
use felix_core::batch::{Header, PlacedBatch};
use felix_core::blocking::{Blocking, Job, JobDone};
use felix_core::shards::{
    Acks, Append, Appended, Fetch, FetchPart, Fetched, LeftOut, OffsetAnswer, OffsetQuery,
    OffsetSpec, PollEnd, ShardState,
};
use felix_core::{
    Clock, Generation, Monotonic, Offset, ShardError, ShardId, Shards, Timer, Timestamp,
};
use felix_kafka::Signal;
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// The append time of every record.
pub(crate) const APPEND_TIME: Timestamp = Timestamp(1_700_000_000_123);

/// The generation of every shard.
pub(crate) const GENERATION: Generation = Generation::new(7);

/// What happened, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A batch was queued at a shard of this index.
    Queued { index: u32, acks: Acks },
    /// A batch was committed.
    Committed { index: u32 },
    /// A Fetch reached the shards.
    FetchBegun,
    /// It was answered.
    FetchEnded,
    /// A ListOffsets reached the shards.
    OffsetsAsked,
}

/// One log.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) batches: Vec<(Header, Bytes)>,
    pub(crate) log_start: u64,
    pub(crate) log_end: u64,
    pub(crate) visible_end: u64,
    /// Generations and where they end, rising.
    pub(crate) ends: Vec<(Generation, u64)>,
    pub(crate) append_time: Option<Timestamp>,
    /// What appends are answered with.
    pub(crate) append_error: Option<ShardError>,
    /// What reads are answered with.
    pub(crate) read_error: Option<ShardError>,
    pub(crate) state: Option<ShardState>,
}

/// All logs, and the reins of the test.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) logs: HashMap<ShardId, Log>,
    pub(crate) events: Vec<Event>,
    /// Batches wait for this before they are queued.
    pub(crate) queue_gate: Option<Signal>,
    /// Queued batches wait for this before they are committed.
    pub(crate) commit_gate: Option<Signal>,
    /// By when appends are to have their places, as the shards were told.
    pub(crate) deadlines: Vec<Option<Monotonic>>,
    /// Fetches as the shards saw them.
    pub(crate) fetches: Vec<Fetch>,
    changed: Signal,
}

/// The shards of a broker.
#[derive(Clone, Default)]
pub(crate) struct ModelShards(pub(crate) Rc<RefCell<Model>>);

/// A clock that the test moves.
#[derive(Default)]
pub(crate) struct ModelClock {
    pub(crate) now: Cell<Duration>,
}

impl Clock for ModelClock {
    fn wall(&self) -> Timestamp {
        APPEND_TIME
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.now.get())
    }
}

/// Threads for heavy work that do what they are given when the test says so.
#[derive(Clone, Default)]
pub(crate) struct ModelBlocking(Rc<RefCell<VecDeque<Weak<Heavy>>>>);

struct Heavy {
    job: RefCell<Option<Job>>,
    done: Signal,
}

impl ModelBlocking {
    /// Jobs that somebody waits for.
    pub(crate) fn waiting(&self) -> usize {
        let given = self.0.borrow();
        given.iter().filter(|job| job.strong_count() > 0).count()
    }

    /// Does the first of them.
    pub(crate) fn run_next(&self) {
        loop {
            let next = self.0.borrow_mut().pop_front();
            if let Some(heavy) = next.expect("a job was given").upgrade() {
                let job = heavy.job.take().expect("a job is done once");
                job();
                return heavy.done.raise();
            }
        }
    }
}

impl Blocking for ModelBlocking {
    fn run(&self, job: Job) -> JobDone {
        let given = Rc::clone(&self.0);
        Box::pin(async move {
            let heavy = Rc::new(Heavy {
                job: RefCell::new(Some(job)),
                done: Signal::default(),
            });
            given.borrow_mut().push_back(Rc::downgrade(&heavy));
            heavy.done.raised().await;
        })
    }
}

impl Model {
    /// Wakes whoever waits for records or for a deadline.
    pub(crate) fn change(&mut self) {
        std::mem::take(&mut self.changed).raise();
    }

    pub(crate) fn log(&mut self, shard: ShardId) -> &mut Log {
        self.logs.get_mut(&shard).expect("the test made the shard")
    }

    /// Appends without committing.
    fn queue(&mut self, append: Append, acks: Acks) -> Result<Appended, ShardError> {
        let Append { shard, batch } = append;
        self.events.push(Event::Queued {
            index: shard.index,
            acks,
        });
        let log = self.logs.get_mut(&shard).ok_or(ShardError::Unknown)?;
        if let Some(error) = &log.append_error {
            return Err(error.clone());
        }
        let base_offset = Offset::new(log.log_end);
        let append_time = log.append_time;
        log.log_end += batch.offsets();
        let place = felix_core::batch::Place {
            base_offset,
            generation: GENERATION,
            append_time,
        };
        let placed: PlacedBatch = batch.place(place);
        log.batches.push((*placed.header(), placed.bytes().clone()));
        Ok(Appended {
            base_offset,
            append_time,
            log_start: Offset::new(log.log_start),
        })
    }

    /// Appends and commits, as another client would.
    pub(crate) fn publish(&mut self, append: Append) {
        let shard = append.shard;
        self.queue(append, Acks::All).expect("the shard takes it");
        self.commit(shard);
    }

    fn commit(&mut self, shard: ShardId) {
        if let Some(log) = self.logs.get_mut(&shard) {
            log.visible_end = log.log_end;
            self.events.push(Event::Committed { index: shard.index });
        }
        self.change();
    }

    fn read(
        &self,
        part: &FetchPart,
        bytes_left: usize,
        first_bytes_max: usize,
    ) -> Result<Fetched, ShardError> {
        let log = self.logs.get(&part.shard).ok_or(ShardError::Unknown)?;
        if let Some(error) = &log.read_error {
            return Err(error.clone());
        }
        check_generation(part.generation)?;
        let (log_start, visible_end) = (Offset::new(log.log_start), Offset::new(log.visible_end));
        let offset = part.offset.get();
        if offset < log.log_start || offset > log.log_end {
            return Err(ShardError::OffsetOutOfRange {
                log_start,
                visible_end,
            });
        }
        let mut left = part.bytes_max.min(bytes_left);
        let mut batches = Vec::new();
        let mut left_out = None;
        for (header, bytes) in &log.batches {
            let base = header.base_offset.cast_unsigned();
            let last = base + u64::from(header.last_offset_delta.cast_unsigned());
            if last < offset || last >= log.visible_end {
                continue;
            }
            if bytes.len() > left && !(bytes.len() <= first_bytes_max && batches.is_empty()) {
                if first_bytes_max > 0 && batches.is_empty() {
                    let (part, bytes) = (*part, bytes.len());
                    left_out = Some(Box::new(LeftOut { part, bytes }));
                }
                break;
            }
            left = left.saturating_sub(bytes.len());
            batches.push(bytes.clone());
        }
        Ok(Fetched {
            batches,
            visible_end,
            log_start,
            left_out,
        })
    }

    fn read_all(&self, fetch: &Fetch) -> Vec<Result<Fetched, ShardError>> {
        let (mut bytes_max, mut first_bytes_max) = (fetch.bytes_max, fetch.first_bytes_max);
        let mut results = Vec::new();
        for part in &fetch.parts {
            let result = self.read(part, bytes_max, first_bytes_max);
            if let Ok(fetched) = &result {
                bytes_max = bytes_max.saturating_sub(fetched.bytes());
                if fetched.left_out.is_some() {
                    bytes_max = 0;
                }
                if fetched.left_out.is_some() || fetched.bytes() > 0 {
                    first_bytes_max = 0;
                }
            }
            results.push(result);
        }
        results
    }

    fn offset(&self, query: &OffsetQuery) -> Result<OffsetAnswer, ShardError> {
        let log = self.logs.get(&query.shard).ok_or(ShardError::Unknown)?;
        if let Some(error) = &log.read_error {
            return Err(error.clone());
        }
        check_generation(query.generation)?;
        let mut generation = GENERATION;
        let found = match query.spec {
            OffsetSpec::EndOf(asked) => {
                let ends = log.ends.iter().rev();
                let end = ends.clone().find(|(of, _)| *of <= asked);
                generation = end.map_or(GENERATION, |(of, _)| *of);
                end.filter(|_| asked <= GENERATION)
                    .map(|(_, end)| (Offset::new(*end), None))
            }
            OffsetSpec::Earliest => Some((Offset::new(log.log_start), None)),
            OffsetSpec::Latest => Some((Offset::new(log.visible_end), None)),
            OffsetSpec::MaxTimestamp => {
                let greatest = log
                    .batches
                    .iter()
                    .map(|(header, _)| header.max_timestamp)
                    .max();
                let first = log
                    .batches
                    .iter()
                    .find(|(header, _)| Some(header.max_timestamp) == greatest);
                first.map(|(header, _)| {
                    let offset = Offset::new(header.base_offset.cast_unsigned());
                    (offset, Some(Timestamp(header.max_timestamp)))
                })
            }
            OffsetSpec::AtOrAfter(timestamp) => log
                .batches
                .iter()
                .find(|(header, _)| header.max_timestamp >= timestamp.0)
                .map(|(header, _)| {
                    let offset = Offset::new(header.base_offset.cast_unsigned());
                    (offset, Some(Timestamp(header.max_timestamp)))
                }),
        };
        Ok(OffsetAnswer { found, generation })
    }
}

/// Whether the caller believes in the generation that is.
fn check_generation(believed: Option<Generation>) -> Result<(), ShardError> {
    let current = GENERATION;
    match believed {
        Some(believed) if believed < current => Err(ShardError::FencedGeneration { current }),
        Some(believed) if believed > current => Err(ShardError::UnknownGeneration { current }),
        Some(_) | None => Ok(()),
    }
}

/// A clock and shards together: what long polls look at.
#[derive(Clone)]
pub(crate) struct Timed {
    pub(crate) shards: ModelShards,
    pub(crate) clock: Rc<ModelClock>,
}

impl Timer for Timed {
    fn sleep(&self, wait: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        let deadline = self.clock.monotonic().after(wait);
        let Self { shards, clock } = self.clone();
        Box::pin(async move {
            while clock.monotonic() < deadline {
                let changed = shards.0.borrow().changed.raised();
                changed.await;
            }
        })
    }
}

impl Shards for Timed {
    fn append_until(
        &self,
        appends: Vec<Append>,
        acks: Acks,
        deadline: Option<Monotonic>,
    ) -> impl Future<
        Output = impl Future<Output = Vec<Result<Appended, ShardError>>> + use<> + 'static,
    > + use<>
    + 'static {
        let model = Rc::clone(&self.shards.0);
        model.borrow_mut().deadlines.push(deadline);
        async move {
            let gate = model.borrow().queue_gate.clone();
            if let Some(gate) = gate {
                gate.raised().await;
            }
            let shards: Vec<_> = appends.iter().map(|append| append.shard).collect();
            let results: Vec<_> = appends
                .into_iter()
                .map(|append| model.borrow_mut().queue(append, acks))
                .collect();
            async move {
                let gate = model.borrow().commit_gate.clone();
                if let Some(gate) = gate {
                    gate.raised().await;
                }
                for (shard, result) in shards.into_iter().zip(&results) {
                    if result.is_ok() {
                        model.borrow_mut().commit(shard);
                    }
                }
                results
            }
        }
    }

    fn fetch(
        &self,
        fetch: Fetch,
        end: impl PollEnd,
    ) -> impl Future<Output = Vec<Result<Fetched, ShardError>>> + 'static {
        let model = Rc::clone(&self.shards.0);
        let clock = Rc::clone(&self.clock);
        async move {
            model.borrow_mut().events.push(Event::FetchBegun);
            model.borrow_mut().fetches.push(fetch.clone());
            let mut ended = pin!(end.ended());
            let mut told_to_end = false;
            loop {
                let results = model.borrow().read_all(&fetch);
                let bytes: usize = results.iter().flatten().map(Fetched::bytes).sum();
                let left_out = results.iter().flatten().any(|part| part.left_out.is_some());
                let failed = left_out || results.iter().any(Result::is_err);
                let late = clock.monotonic() >= fetch.deadline;
                if failed || late || told_to_end || bytes >= fetch.bytes_min {
                    model.borrow_mut().events.push(Event::FetchEnded);
                    return results;
                }
                let changed = model.borrow().changed.clone();
                let changed = pin!(changed.raised());
                told_to_end = matches!(select(ended.as_mut(), changed).await, Either::Left(_));
            }
        }
    }

    fn offsets(
        &self,
        queries: Vec<OffsetQuery>,
    ) -> impl Future<Output = Vec<Result<OffsetAnswer, ShardError>>> + 'static {
        let model = Rc::clone(&self.shards.0);
        async move {
            model.borrow_mut().events.push(Event::OffsetsAsked);
            let model = model.borrow();
            queries.iter().map(|query| model.offset(query)).collect()
        }
    }

    fn state(&self, shard: ShardId) -> Option<ShardState> {
        self.shards.0.borrow().logs.get(&shard)?.state
    }
}
