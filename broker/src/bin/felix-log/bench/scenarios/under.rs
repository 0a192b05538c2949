//! Something that goes on beside a tail producer: beside the engine's, and beside a bare write loop.

use super::appends;
use super::crafted::Crafted;
use super::recovery::forget;
use crate::bench::appends::Appends;
use crate::bench::cores;
use crate::bench::floor::{self, Bare};
use crate::bench::load::{Load, Setup};
use crate::bench::machine;
use crate::bench::pace;
use crate::bench::round::Round;
use felix_broker::engine::Engine;
use felix_core::shards::{Fetch, FetchPart, PollEnd};
use felix_core::{Durability, Offset, Retention, ShardId, Shards};
use felix_shard::ShardSpec;
use futures_util::future::{Either, select};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of one fetch of a reader that catches up.
const FETCH_BYTES: usize = 1 << 20;

/// Where retention runs: segments of so many bytes, of which so many bytes are kept.
const SEGMENT_BYTES: u64 = 4 << 20;
const KEPT_BYTES: u64 = 16 << 20;

/// What fills those segments: sixteen mebibytes a second.
const CHURN: Load = Load {
    batch_bytes: 64 << 10,
    rate: Some(256),
    ..appends(Durability::Periodic, None)
};

/// What goes on within the same process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Beside {
    /// Nothing.
    Nothing,
    /// A reader at full speed, from the beginning of an old log.
    CatchUp,
    /// A shard that is written to, of which retention keeps little.
    Retention,
}

/// The tail of the engine's producer, whose files go into `root`.
pub(super) fn engine(
    root: &Path,
    load: &Load,
    setup: &Setup,
    beside: Beside,
    old: &Crafted,
) -> Result<Round, String> {
    let mut setup = setup.clone();
    let two = Load { shards: 2, ..*load };
    let mut specs: Vec<ShardSpec> = cores::specs(root, &two, Retention::default());
    match beside {
        Beside::Nothing => specs.truncate(1),
        Beside::CatchUp => {
            let segment = old.segments().first().and_then(|path| path.parent());
            specs[1].directory = segment.ok_or("an old log has a segment")?.to_owned();
            old.segments()
                .iter()
                .try_for_each(|path| forget(path))
                .map_err(|error| error.to_string())?;
        }
        Beside::Retention => {
            setup.segment_bytes = SEGMENT_BYTES;
            specs[1].retention.bytes = NonZeroU64::new(KEPT_BYTES);
        }
    }
    let ids: Vec<ShardId> = specs.iter().map(|spec| spec.id).collect();
    let (load, own, old) = (*load, setup.clone(), old.clone());
    let rounds = cores::run(&setup, root, specs, async move |engine, _| {
        let tail = Appends::new(engine, vec![ids[0]], &load, &own).run();
        match beside {
            Beside::Nothing => tail.await,
            Beside::CatchUp => first(tail, catch_up(engine, ids[1], &old)).await,
            Beside::Retention => {
                let churn = Appends::new(engine, vec![ids[1]], &CHURN, &own).run();
                let (tail, churn) = futures_util::join!(tail, churn);
                churn.and(tail)
            }
        }
    })?;
    rounds.into_iter().next().ok_or_else(|| "no round".into())
}

/// The first one's result; the second has none and is given up, unless it fails.
async fn first(
    tail: impl Future<Output = Result<Round, String>>,
    other: impl Future<Output = String>,
) -> Result<Round, String> {
    match select(pin!(tail), pin!(other)).await {
        Either::Left((ended, _)) => ended,
        Either::Right((error, _)) => Err(error),
    }
}

/// Nobody ends a fetch that does not wait.
#[derive(Clone, Copy, Debug)]
struct Never;

impl PollEnd for Never {
    fn ended(&self) -> impl Future<Output = ()> + 'static {
        std::future::pending()
    }
}

/// Reads the whole log over and over, one fetch after the other; why that failed.
async fn catch_up(engine: &Engine, shard: ShardId, old: &Crafted) -> String {
    let router = engine.core().router();
    let mut offset = 0;
    loop {
        let part = FetchPart {
            shard,
            offset: Offset::new(offset),
            bytes_max: FETCH_BYTES,
            generation: None,
        };
        let fetch = Fetch {
            parts: vec![part],
            bytes_min: 0,
            bytes_max: FETCH_BYTES,
            first_bytes_max: FETCH_BYTES,
            deadline: engine.clock().monotonic(),
        };
        let fetched = router.fetch(fetch, Never).await.pop();
        let Some(Ok(fetched)) = fetched else {
            return format!("a fetch was refused: {fetched:?}");
        };
        let bytes = fetched.bytes() as u64;
        if bytes == 0 {
            offset = 0;
        } else {
            offset += bytes / old.batch_bytes * old.records;
            if offset >= fetched.visible_end.get() {
                offset = 0;
            }
        }
        // As a connection does between two requests.
        engine.pause(Duration::ZERO).await;
    }
}

/// The tail of a bare write loop, with the same going on beside it on other processors.
pub(super) fn bare(
    root: &Path,
    load: &Load,
    setup: &Setup,
    beside: Beside,
    old: &Crafted,
) -> Result<Round, String> {
    let cpus = setup.aside();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            machine::keep_on(&cpus)?;
            let done = match beside {
                Beside::Nothing => Ok(()),
                Beside::CatchUp => read_over_and_over(old, &ended),
                Beside::Retention => write_and_remove(root, &ended),
            };
            done.map_err(|error| error.to_string())
        });
        let round = floor::measure(load, setup, root, Bare::AsNeeded);
        ended.store(true, Ordering::Relaxed);
        let other = other.join().expect("what it found wrong has been said");
        other.and(round)
    })
}

fn read_over_and_over(old: &Crafted, ended: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0; FETCH_BYTES];
    old.segments().iter().try_for_each(|path| forget(path))?;
    loop {
        for path in old.segments() {
            let mut file = File::open(path)?;
            while file.read(&mut buffer)? > 0 {
                if ended.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
    }
}

fn write_and_remove(root: &Path, ended: &AtomicBool) -> io::Result<()> {
    let bytes = vec![7; CHURN.batch_bytes];
    let gap = Duration::from_secs_f64(1.0 / 256.0);
    let mut kept = VecDeque::new();
    let mut due = Instant::now();
    for number in 0.. {
        let path = root.join(format!("segment-{number}"));
        let mut file = File::create_new(&path)?;
        for _ in 0..SEGMENT_BYTES / bytes.len() as u64 {
            if ended.load(Ordering::Relaxed) {
                return Ok(());
            }
            file.write_all(&bytes)?;
            due += gap;
            pace::wait(due, pace::LEAD);
        }
        file.sync_data()?;
        kept.push_back(path);
        if kept.len() as u64 > KEPT_BYTES / SEGMENT_BYTES {
            kept.pop_front().map_or(Ok(()), fs::remove_file)?;
        }
    }
    Ok(())
}
