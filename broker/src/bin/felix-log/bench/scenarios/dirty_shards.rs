//! A thousand shards that are all written to in each interval, and how long the interval gets.

use super::{Finding, Stage, appends};
use crate::bench::appends::Appends;
use crate::bench::cores;
use crate::bench::load::{Load, Setup};
use crate::bench::machine;
use crate::bench::round::median;
use crate::output::{Lines, Trouble};
use felix_broker::engine::Engine;
use felix_core::limits::DEVICE_FLUSHES_IN_FLIGHT_MAX;
use felix_core::{Durability, Retention};
use futures_util::future::{Either, select};
use serde_json::json;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

/// Of the broker's default, 50 ms.
const INTERVALS_PER_SECOND: u64 = 20;

/// Between two looks at the interval that was reached: less than one takes.
const LOOK: Duration = Duration::from_millis(10);

/// What is written to each file of the floor.
const BYTES: [u8; 1024] = [7; 1024];

/// The longest interval that was reached, and how long as many bare flushes take.
#[derive(Clone, Copy, Debug)]
struct Reached {
    engine_ms: f64,
    bare_ms: f64,
}

pub(super) fn run(stage: &Stage<'_>, lines: &mut Lines) -> Result<(), Trouble> {
    let setup = stage.setup(3.0);
    let shards = stage.amount(1000, 20);
    let interval_ms = setup.flush_interval.as_secs_f64() * 1000.0;
    let load = Load {
        shards,
        // Each shard once in an interval.
        rate: Some(shards as u64 * INTERVALS_PER_SECOND),
        ..appends(Durability::Periodic, None)
    };
    let dir = stage.scratch.fresh().map_err(Trouble::Unreadable)?;
    let specs = cores::specs(&dir, &load, Retention::default());
    let (ids, own) = (cores::own(&specs, 0, 1), setup.clone());
    let others = stage.all_cpus.to_vec();
    let bare = dir.to_path_buf();
    let found = cores::run(&setup, &dir, specs, async move |engine, _| {
        let files = files(&bare, shards).map_err(|error| format!("the floor: {error}"))?;
        let mut found = Vec::new();
        for _ in 0..own.rounds {
            // The core stands still meanwhile, and has nothing to do.
            let bare_ms =
                flush_all(&files, &others).map_err(|error| format!("the floor: {error}"))?;
            let appending = Appends::new(engine, ids.clone(), &load, &own);
            let engine_ms = longest(engine, appending, &own).await?;
            found.push(Reached { engine_ms, bare_ms });
        }
        Ok(found)
    });
    let found = found.map_err(|error| Trouble::Unreadable(format!("dirty-shards: {error}")))?;
    let middle = |of: fn(&Reached) -> f64| median(found[0].iter().map(of)).unwrap_or(f64::NAN);
    let (engine_ms, bare_ms) = (middle(|one| one.engine_ms), middle(|one| one.bare_ms));
    let most_ms = 2.0 * interval_ms;
    let finding = Finding {
        name: "dirty-shards".to_owned(),
        target: format!(
            "{shards} dirty shards flushed within twice the interval of {interval_ms:.0} ms"
        ),
        measured: format!(
            "within {engine_ms:.0} ms at most, {:.2} intervals; {shards} bare flushes, \
             {DEVICE_FLUSHES_IN_FLIGHT_MAX} at a time, take {bare_ms:.0} ms",
            engine_ms / interval_ms,
        ),
        met: Some(engine_ms <= most_ms),
        figures: json!({"longest_interval_ms": engine_ms, "bare_flushes_ms": bare_ms}),
    };
    finding.tell(lines)
}

/// The longest interval that the core reaches while it is appended to, after warming up.
async fn longest(engine: &Engine, appending: Appends<'_>, setup: &Setup) -> Result<f64, String> {
    let mut longest_us = 0;
    let watching = async {
        engine.pause(setup.warm_up).await;
        loop {
            let reached = cores::counter(engine, "felix_storage_sync_interval_us");
            longest_us = longest_us.max(reached);
            engine.pause(LOOK).await;
        }
    };
    let ended = match select(pin!(appending.run()), pin!(watching)).await {
        Either::Left((ended, _)) => ended,
        Either::Right((never, _)) => never,
    };
    ended?;
    Ok(Duration::from_micros(longest_us).as_secs_f64() * 1000.0)
}

fn files(dir: &Path, count: usize) -> io::Result<Vec<File>> {
    let files = (0..count).map(|number| {
        let file = File::create_new(dir.join(format!("floor-{number}")))?;
        file.write_all_at(&BYTES, 0)?;
        Ok(file)
    });
    let files = files.collect::<io::Result<Vec<File>>>()?;
    files.iter().try_for_each(File::sync_all)?;
    Ok(files)
}

/// Writes to each file, and flushes them all with as many at a time as the engine does; how long
/// the flushes take, in milliseconds.
fn flush_all(files: &[File], cpus: &[usize]) -> io::Result<f64> {
    files
        .iter()
        .try_for_each(|file| file.write_all_at(&BYTES, 0))?;
    let begun = Instant::now();
    let share = files.len().div_ceil(DEVICE_FLUSHES_IN_FLIGHT_MAX);
    thread::scope(|scope| {
        let threads = files.chunks(share).map(|share| {
            scope.spawn(move || {
                machine::keep_on(cpus).map_err(io::Error::other)?;
                share.iter().try_for_each(File::sync_data)
            })
        });
        let threads: Vec<_> = threads.collect();
        let mut joined = threads.into_iter().map(|thread| thread.join());
        joined.try_for_each(|result| result.expect("what it found wrong has been said"))
    })?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}
