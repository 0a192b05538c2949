//! Many that wait for flushes, on one shard and on as many shards, beside one that does.

use super::{Finding, Stage, appends};
use crate::bench::floor::Bare;
use crate::bench::load::{Load, Setup};
use crate::bench::machine;
use crate::bench::round::{Rounds, median};
use crate::output::{Lines, Trouble};
use felix_core::Durability;
use serde_json::{Value, json};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Instant;

const WAITERS: usize = 64;

/// Bytes of each file of the floor that flushes many.
const FILE_BYTES: u64 = 1 << 20;

pub(super) fn run(stage: &Stage<'_>, lines: &mut Lines) -> Result<(), Trouble> {
    let setup = stage.setup(1.5);
    let one = appends(Durability::OnCommit, None);
    let shared = Load {
        waiters: WAITERS,
        ..one
    };
    let spread = Load {
        shards: WAITERS,
        ..shared
    };
    let mut engine = [const { Rounds::new() }; 3];
    let mut bare = [const { Rounds::new() }; 2];
    let mut bare_files = Vec::new();
    for _ in 0..setup.rounds {
        for (load, side) in [one, shared, spread].iter().zip(&mut engine) {
            side.push(stage.engine(load, &setup)?);
        }
        for (load, side) in [one, shared].iter().zip(&mut bare) {
            side.push(stage.bare(load, &setup, Bare::AsNeeded)?);
        }
        bare_files.push(many_files(stage, &setup)?);
    }
    let [single, shared, spread] = &engine;
    let bare_files = median(bare_files).unwrap_or(f64::NAN);
    let floors = [bare[1].rate(), bare_files];
    let sides = [("one shard", shared, 40.0), ("64 shards", spread, 20.0)];
    for ((name, side, least), floor) in sides.into_iter().zip(floors) {
        let ratio = side.rate() / single.rate();
        let bare_ratio = floor / bare[0].rate();
        let finding = Finding {
            name: format!("fan-in, {name}"),
            target: format!("on_commit, {WAITERS} waiters on {name}: {least} times one waiter"),
            measured: format!(
                "{ratio:.1} times ({:.0} over {:.0} a second), {:.1} appends a flush; bare writes \
                 and flushes: {bare_ratio:.1} times ({floor:.0} over {:.0})",
                side.rate(),
                single.rate(),
                side.fan_in().unwrap_or(0.0),
                bare[0].rate(),
            ),
            met: Some(ratio >= least),
            figures: json!({
                "ratio": ratio,
                "many": side.to_json(),
                "one": single.to_json(),
                "floor_ratio": bare_ratio,
                "floor_many_per_second": Value::from(floor),
                "floor_one": bare[0].to_json(),
            }),
        };
        finding.tell(lines)?;
    }
    Ok(())
}

/// Flushed writes a second of as many threads, each with a file of its own, on all processors: what
/// the engine's flushes may use as well.
fn many_files(stage: &Stage<'_>, setup: &Setup) -> Result<f64, Trouble> {
    let dir = stage.scratch.fresh().map_err(Trouble::Unreadable)?;
    let end = Instant::now() + setup.warm_up + setup.span;
    let written = thread::scope(|scope| {
        let threads = (0..WAITERS).map(|number| {
            let path = dir.join(number.to_string());
            scope.spawn(move || {
                machine::keep_on(&setup.all_cpus).map_err(io::Error::other)?;
                write_and_flush(&path, end, setup)
            })
        });
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|result| result.expect("what it found wrong has been said"))
            .sum::<io::Result<u64>>()
    });
    let written = written.map_err(|error| Trouble::Unreadable(format!("the floor: {error}")))?;
    #[expect(clippy::cast_precision_loss, reason = "a rate is told whole")]
    let rate = written as f64 / setup.span.as_secs_f64();
    Ok(rate)
}

/// How many writes were flushed in the span that ends at `end`.
fn write_and_flush(path: &Path, end: Instant, setup: &Setup) -> io::Result<u64> {
    let file = File::create_new(path)?;
    file.write_all_at(&vec![0; 1 << 20], 0)?;
    file.sync_all()?;
    let bytes = [7; 1024];
    let (mut position, mut counted) = (0, 0);
    loop {
        file.write_all_at(&bytes, position)?;
        file.sync_data()?;
        let now = Instant::now();
        if now >= end {
            return Ok(counted);
        }
        counted += u64::from(now + setup.span >= end);
        position = (position + bytes.len() as u64) % FILE_BYTES;
    }
}
