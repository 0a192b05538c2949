//! Whole meshes on real threads and real logs in temporary directories.

mod abandoned;
mod aging;
mod appends;
mod dirty;
mod ending;
mod fetches;
mod flushing;
mod forgotten;
mod generations;
mod hanging;
mod heavy;
mod keeping;
mod lanes;
mod large;
mod polls;
mod producers;
mod refused;
mod reopened;
mod rolls;
mod saving;
mod shutdown;
mod simulated;
mod stuck;
mod timings;
mod turns;
mod virtual_core;

use crate::event::Event;
use crate::log::LogConfig;
use crate::{Core, CoreConfig, DirtyBounds, Router, ShardSpec, SpaceConfig, mesh};
use bytes::Bytes;
use ending::Ending;
use felix_core::batch::BatchBuilder;
use felix_core::blocking::{Blocking, Job, JobDone};
use felix_core::limits::{FETCH_BYTES_MAX, SEGMENT_AGE};
use felix_core::shards::{Acks, Append, Appended, Fetch, FetchPart, Fetched, PollEnd};
use felix_core::stalls::StallBounds;
use felix_core::{
    Batch, Clock, CpuId, Durability, Generation, Monotonic, Offset, PlacedBatch, Retention,
    ShardError, ShardId, Shards, Stalls, Stream, StreamId, Timestamp, Timestamps, placement,
};
use futures_util::FutureExt;
use glommio::{LocalExecutorBuilder, Placement};
use std::cell::Cell;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tempfile::TempDir;

/// Far enough that only a failed test gets there.
const FOREVER: Duration = Duration::from_secs(60);

/// Debug builds on busy machines stall as they like.
const STALL_BOUNDS: StallBounds = StallBounds {
    counted: FOREVER,
    reported: FOREVER,
};

/// What a mesh under test looks like.
#[derive(Clone, Copy, Debug)]
struct Rig {
    cores: u16,
    shards: u32,
    durability: Durability,
    /// The stream's name, where there are several.
    stream: &'static str,
    tail_bytes_max: usize,
    segment_bytes_max: u64,
    flush_interval: Duration,
    dirty: DirtyBounds,
    retention: Retention,
    segment_age: Duration,
    /// The floor of an opening that is noted elsewhere.
    noted_floor: Option<u32>,
    retention_interval: Duration,
    verify_on_open: bool,
    files_max: usize,
    write_on_core_bytes_max: usize,
    index_interval_bytes: u32,
    /// `None`: nobody looks whether the disk is full.
    free_bytes_min: Option<u64>,
    timestamps: Timestamps,
}

impl Rig {
    fn new(cores: u16, durability: Durability) -> Self {
        Self {
            cores,
            shards: u32::from(cores),
            durability,
            stream: "clicks",
            tail_bytes_max: 8 << 20,
            segment_bytes_max: 256 << 20,
            flush_interval: Duration::from_millis(5),
            dirty: DirtyBounds {
                soft_bytes: 64 << 20,
                hard_bytes: 256 << 20,
            },
            retention: Retention::default(),
            segment_age: SEGMENT_AGE,
            noted_floor: None,
            retention_interval: FOREVER,
            verify_on_open: false,
            files_max: usize::MAX,
            write_on_core_bytes_max: usize::MAX,
            index_interval_bytes: 4096,
            free_bytes_min: None,
            timestamps: Timestamps::Create,
        }
    }

    fn config(&self) -> CoreConfig {
        CoreConfig {
            log: LogConfig {
                segment_bytes_max: self.segment_bytes_max,
                index_interval_bytes: self.index_interval_bytes,
            },
            flush_interval: self.flush_interval,
            dirty: self.dirty,
            retention_interval: self.retention_interval,
            verify_on_open: self.verify_on_open,
            tail_bytes_max: self.tail_bytes_max,
            space: self.free_bytes_min.map(|free_bytes_min| SpaceConfig {
                directory: PathBuf::from("/data"),
                free_bytes_min,
            }),
            files_max: self.files_max,
            write_on_core_bytes_max: self.write_on_core_bytes_max,
        }
    }

    /// A stream whose shard 0 belongs to core 0, shard 1 to core 1, and so on.
    fn stream(&self) -> Stream {
        let first = |id: &u128| {
            let shard = ShardId {
                stream: StreamId(*id),
                index: 0,
            };
            placement::owner(shard, self.cores) == CpuId(0)
        };
        let name = self.stream.bytes().map(u128::from);
        // Others of other names.
        let from = name.fold(1, |sum, byte| (sum << 4) + byte);
        Stream {
            id: StreamId((from..).find(first).expect("some id hashes to core 0")),
            tenant: "dev".into(),
            namespace: "default".into(),
            name: self.stream.into(),
            shards: self.shards,
            durability: self.durability,
            timestamps: self.timestamps,
            retention: self.retention,
            segment_age: self.segment_age,
            generation_floor: Generation::new(self.noted_floor.unwrap_or(0)),
        }
    }

    fn specs(&self, root: &Path) -> Vec<ShardSpec> {
        let stream = self.stream();
        let specs = ShardSpec::of_stream(root, &stream).map(|spec| ShardSpec {
            is_floor_noted: self.noted_floor.is_some(),
            ..spec
        });
        let specs: Vec<_> = specs.collect();
        for spec in specs.iter().take(usize::from(self.cores)) {
            let owner = placement::owner(spec.id, self.cores);
            assert_eq!(u32::from(owner.0), spec.id.index);
        }
        specs
    }
}

/// Runs `scenario` on every core of a new mesh, once all shards are settled; closes all cores when
/// every core's scenario has ended, or as soon as one has panicked.
fn run<F, R>(rig: Rig, scenario: F)
where
    F: Fn(Rc<Bench>) -> R + Clone + Send + 'static,
    R: Future<Output = ()>,
{
    let root = tempfile::tempdir().unwrap();
    run_in(&root, rig, scenario);
}

fn run_in<F, R>(root: &TempDir, rig: Rig, scenario: F)
where
    F: Fn(Rc<Bench>) -> R + Clone + Send + 'static,
    R: Future<Output = ()>,
{
    run_opening(root, rig, move |bench| {
        let scenario = scenario.clone();
        async move {
            bench.core.opened().await;
            bench.core.settled().await;
            scenario(bench).await;
        }
    });
}

/// As [`run_in`], and the scenario begins while shards are being opened.
fn run_opening<F, R>(root: &TempDir, rig: Rig, scenario: F)
where
    F: Fn(Rc<Bench>) -> R + Clone + Send + 'static,
    R: Future<Output = ()>,
{
    let mut threads = Vec::new();
    for (seed, ending) in mesh(rig.cores).into_iter().zip(Ending::of(rig.cores)) {
        let specs = rig.specs(root.path());
        let scenario = scenario.clone();
        let thread = LocalExecutorBuilder::new(Placement::Unbound)
            .name("core")
            .io_memory(64 << 10)
            .preempt_timer(Duration::from_micros(200))
            .spawn(move || async move {
                let stalls = Stalls::new(Rc::new(SystemClock), STALL_BOUNDS, |_| {});
                let heavy = HeavyThreads::default();
                let core = seed.start(
                    rig.config(),
                    Rc::new(SystemClock),
                    Rc::new(stalls),
                    Rc::new(heavy.clone()),
                );
                core.open(specs);
                let bench = Rc::new(Bench {
                    router: core.router(),
                    core,
                    rig,
                    heavy,
                });
                // A core that panicked has to close, too, or the others wait for it for ever.
                let outcome = AssertUnwindSafe(scenario(Rc::clone(&bench)))
                    .catch_unwind()
                    .await;
                ending.tell(outcome.is_ok());
                ending.come().await;
                let bench = Rc::into_inner(bench).expect("the scenario keeps nothing");
                let unclean = bench.core.close().await;
                assert!(unclean.is_empty(), "{unclean:?}");
                if let Err(panic) = outcome {
                    resume_unwind(panic);
                }
            })
            .unwrap();
        threads.push(thread);
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The system's clocks.
struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        Timestamp(i64::try_from(since.as_millis()).unwrap())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the test is the edge that owns the clock"
    )]
    fn monotonic(&self) -> Monotonic {
        thread_local! {
            static START: std::time::Instant = std::time::Instant::now();
        }
        Monotonic(START.with(std::time::Instant::elapsed))
    }
}

/// One core of a mesh under test.
struct Bench {
    core: Core,
    router: Router,
    rig: Rig,
    heavy: HeavyThreads,
}

/// Stands for the threads beside a core: they take jobs unless they are held.
#[derive(Clone, Default)]
struct HeavyThreads {
    held: Rc<Cell<bool>>,
    released: Rc<Event>,
    given: Rc<Cell<u64>>,
}

impl HeavyThreads {
    fn hold(&self) {
        self.held.set(true);
    }

    fn release(&self) {
        self.held.set(false);
        self.released.notify();
    }
}

impl Blocking for HeavyThreads {
    fn run(&self, job: Job) -> JobDone {
        let threads = self.clone();
        Box::pin(async move {
            threads.given.set(threads.given.get() + 1);
            threads.released.until(|| !threads.held.get()).await;
            job();
        })
    }
}

impl Bench {
    fn is_first(&self) -> bool {
        self.core.id() == CpuId(0)
    }

    fn shard(&self, index: u32) -> ShardId {
        ShardId {
            stream: self.rig.stream().id,
            index,
        }
    }

    fn now(&self) -> Monotonic {
        SystemClock.monotonic()
    }

    /// Appends one batch and waits for its commit.
    async fn append(&self, shard: u32, batch: Batch) -> Result<Appended, ShardError> {
        let append = Append {
            shard: self.shard(shard),
            batch,
        };
        let committed = self.router.append(vec![append], Acks::All).await;
        committed.await.remove(0)
    }

    fn part(&self, shard: u32, offset: u64) -> FetchPart {
        FetchPart {
            shard: self.shard(shard),
            offset: Offset::new(offset),
            bytes_max: 16 << 20,
            generation: None,
        }
    }

    fn fetch(&self, parts: Vec<FetchPart>, bytes_min: usize, wait: Duration) -> Fetch {
        Fetch {
            first_bytes_max: FETCH_BYTES_MAX,
            parts,
            bytes_min,
            bytes_max: 16 << 20,
            deadline: self.now().after(wait),
        }
    }

    /// What is there now.
    async fn read(&self, shard: u32, offset: u64) -> Result<Fetched, ShardError> {
        let fetch = self.fetch(vec![self.part(shard, offset)], 0, Duration::ZERO);
        self.router.fetch(fetch, Never).await.remove(0)
    }

    /// A metric of this core.
    fn metric(&self, name: &str) -> i64 {
        metric(&self.core, name)
    }

    /// Lets other tasks run until `condition` holds.
    async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = self.now().after(FOREVER);
        while !condition() {
            assert!(self.now() < deadline, "{what} never came");
            // There is no event for a number; a timer lets the reactor run, a yield would not.
            glommio::timer::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// A metric of a core, of which all its labels are added up.
#[expect(clippy::cast_possible_truncation, reason = "tests count little")]
fn metric(core: &Core, name: &str) -> i64 {
    let mut value = None;
    core.metrics().collect(&mut |sample| {
        if sample.name == name {
            value = Some(value.unwrap_or(0) + sample.value as i64);
        }
    });
    value.unwrap_or_else(|| panic!("there is no metric {name}"))
}

/// A batch of these records.
fn batch(values: &[&str]) -> Batch {
    let start = BatchBuilder::new();
    let builder = values.iter().fold(start, |builder, value| {
        builder.record(Timestamp(1000), None, Some(value.as_bytes()))
    });
    Batch::parse(builder.build()).unwrap()
}

/// A batch of one record of about this many bytes.
fn large_batch(bytes: usize) -> Batch {
    let value = vec![b'x'; bytes];
    let builder = BatchBuilder::new().record(Timestamp(1000), None, Some(&value));
    Batch::parse(builder.build()).unwrap()
}

/// The batches of a fetch answer.
fn batches(fetched: &Fetched) -> Vec<PlacedBatch> {
    let mut batches = Vec::new();
    for piece in &fetched.batches {
        let mut piece: Bytes = piece.clone();
        while !piece.is_empty() {
            batches.push(PlacedBatch::split_from(&mut piece).unwrap());
        }
    }
    batches
}

/// The records of a fetch answer: offsets and values.
fn records(fetched: &Fetched) -> Vec<(u64, String)> {
    let batches = batches(fetched);
    let records = batches.iter().flat_map(|batch| batch.records().unwrap());
    records
        .map(|record| {
            let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
            (record.offset.get(), value)
        })
        .collect()
}

/// Nobody asks.
#[derive(Clone)]
struct Never;

impl PollEnd for Never {
    fn ended(&self) -> impl Future<Output = ()> + 'static {
        pending()
    }
}

/// Ends when told.
#[derive(Clone, Default)]
struct Told {
    told: Rc<Cell<bool>>,
    event: Rc<Event>,
}

impl Told {
    fn tell(&self) {
        self.told.set(true);
        self.event.notify();
    }
}

impl PollEnd for Told {
    fn ended(&self) -> impl Future<Output = ()> + 'static {
        let told = self.clone();
        async move { told.event.until(|| told.told.get()).await }
    }
}
