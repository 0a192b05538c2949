//! The real engine: cores with their shards, as the broker runs them, each on a thread of its own.

use super::load::{Load, Setup};
use super::machine;
use felix_broker::engine::{self, Engine};
use felix_core::limits::WRITE_ON_CORE_BYTES_MAX;
use felix_core::metrics::Sample;
use felix_core::{Generation, Retention, ShardId, Stream, StreamId, Timestamps, placement};
use felix_shard::log::LogConfig;
use felix_shard::{CoreConfig, DirtyBounds, ShardSpec, SpaceConfig, mesh};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Shards of one stream, at most.
const SHARDS_PER_STREAM: usize = felix_core::limits::SHARDS_PER_STREAM_MAX as usize;

/// What a broker keeps free on a disk unless it is told otherwise.
const FREE_BYTES_MIN: u64 = 512 << 20;

/// Files that are not those of logs.
const OTHER_FILES: u64 = 512;

/// Between two looks whether the other cores are as far.
const LOOK: Duration = Duration::from_millis(1);

/// The shards of a load, with their logs under `root`.
pub(crate) fn specs(root: &Path, load: &Load, retention: Retention) -> Vec<ShardSpec> {
    let mut specs = Vec::with_capacity(load.shards);
    for number in 0_u128.. {
        let left = load.shards - specs.len();
        if left == 0 {
            break;
        }
        let shards = left.min(SHARDS_PER_STREAM);
        let stream = Stream {
            id: StreamId(number + 1),
            tenant: "bench".into(),
            namespace: "bench".into(),
            name: format!("s{number}"),
            shards: u32::try_from(shards).expect("at most what a stream may have"),
            durability: load.durability,
            timestamps: Timestamps::Append,
            retention,
            segment_age: felix_core::limits::SEGMENT_AGE,
            generation_floor: Generation::new(0),
        };
        specs.extend(ShardSpec::of_stream(root, &stream));
    }
    specs
}

/// The shards that a core of so many owns.
pub(crate) fn own(specs: &[ShardSpec], core: usize, cores: usize) -> Vec<ShardId> {
    let cores = u16::try_from(cores).expect("a list of processors is short");
    let ids = specs.iter().map(|spec| spec.id);
    ids.filter(|id| placement::owner(*id, cores).index() == core)
        .collect()
}

/// What a core's work is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Which of the cores.
    pub(crate) core: usize,
    /// How long it took to open its shards.
    pub(crate) opened: Duration,
}

/// Starts a core on each processor, opens the shards, does `work` on each core, and closes all
/// again; what each found, in the order of their numbers.
pub(crate) fn run<T: Send + 'static>(
    setup: &Setup,
    root: &Path,
    specs: Vec<ShardSpec>,
    work: impl AsyncFnOnce(&Engine, Place) -> Result<T, String> + Clone + Send + 'static,
) -> Result<Vec<T>, String> {
    let cores = setup.cpus.len();
    let count = u16::try_from(cores).expect("a list of processors is short");
    let files = engine::raise_limits().unwrap_or(u64::MAX);
    let files = files.saturating_sub(OTHER_FILES) / u64::from(count);
    let config = config(setup, root, usize::try_from(files).unwrap_or(usize::MAX));
    let meeting = Arc::new(Meeting::of(cores));
    let (tell, told) = channel();
    for (number, (seed, cpu)) in mesh(count).into_iter().zip(&setup.cpus).enumerate() {
        let (specs, config, work) = (specs.clone(), config.clone(), work.clone());
        let (cpu, aside) = (*cpu, setup.aside());
        let (meeting, tell) = (Arc::clone(&meeting), tell.clone());
        let life = async move |engine: &Engine| {
            let core = engine.core();
            let begun = Instant::now();
            core.open(specs);
            core.opened().await;
            let opened = begun.elapsed();
            core.settled().await;
            if let Some((_, reason)) = core.router().failures().pop() {
                return Err(reason);
            }
            meeting.all(engine, 1).await;
            let done = work(
                engine,
                Place {
                    core: number,
                    opened,
                },
            )
            .await;
            meeting.all(engine, 2).await;
            done
        };
        let thread = thread::Builder::new().spawn(move || {
            // What a core has beside it stays where its thread was.
            let done = machine::keep_on(&aside)
                .and_then(|()| engine::run(seed, cpu, config, life))
                .and_then(|done| done);
            // After the first failure nobody listens.
            drop(tell.send((number, done)));
        });
        thread.map_err(|error| format!("no thread for a core: {error}"))?;
    }
    drop(tell);
    let mut found = Vec::with_capacity(cores);
    // A core that failed leaves the others waiting; the process ends with the first failure.
    for (number, done) in told {
        found.push((number, done?));
    }
    if found.len() < cores {
        return Err("a core panicked".into());
    }
    found.sort_by_key(|(number, _)| *number);
    Ok(found.into_iter().map(|(_, done)| done).collect())
}

fn config(setup: &Setup, root: &Path, files_max: usize) -> CoreConfig {
    CoreConfig {
        log: LogConfig {
            segment_bytes_max: setup.segment_bytes,
            index_interval_bytes: 4096,
        },
        flush_interval: setup.flush_interval,
        // As a broker without settings.
        dirty: DirtyBounds {
            soft_bytes: 64 << 20,
            hard_bytes: 256 << 20,
        },
        retention_interval: Duration::from_secs(1),
        verify_on_open: false,
        tail_bytes_max: 16 << 20,
        files_max,
        write_on_core_bytes_max: WRITE_ON_CORE_BYTES_MAX,
        space: Some(SpaceConfig {
            directory: root.to_owned(),
            free_bytes_min: FREE_BYTES_MIN,
        }),
    }
}

/// A counter of a core, by its name.
pub(crate) fn counter(engine: &Engine, name: &str) -> u64 {
    let mut found = 0.0;
    engine.core().metrics().collect(&mut |sample: Sample| {
        if sample.name == name {
            found = sample.value;
        }
    });
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter"
    )]
    let found = found as u64;
    found
}

/// Where the cores wait for each other without standing still: each may have to answer others.
#[derive(Debug)]
struct Meeting {
    cores: usize,
    arrived: AtomicUsize,
}

impl Meeting {
    fn of(cores: usize) -> Self {
        Self {
            cores,
            arrived: AtomicUsize::new(0),
        }
    }

    /// Returns when all cores have come here for the `turn`th time.
    async fn all(&self, engine: &Engine, turn: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < turn * self.cores {
            engine.pause(LOOK).await;
        }
    }
}
