//! A shard's directory as the log itself writes it: grown, rolled, killed and closed.

use super::Seed;
use super::batches::plain;
use crate::targets::log::{CONFIG, Part, SEALED, opening, run_on_executor};
use crate::targets::producers;
use felix_core::batch::Codec;
use felix_core::{Batch, Timestamp, Timestamps};
use felix_shard::log::{Log, OpenReason};
use std::fs;
use std::path::Path;

/// The files of a directory as an input.
fn image(dir: &Path, flags: u8) -> Vec<u8> {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .expect("the directory is ours")
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    paths.sort();
    let mut out = vec![flags];
    for path in paths {
        let name = path.file_name().expect("it has a name").to_string_lossy();
        let (stem, ending) = name.split_once('.').unwrap_or((&*name, ""));
        let kind = match (stem, ending) {
            ("generations", "") => 3,
            ("checkpoint", "") => 4,
            ("failed", "") => 5,
            (producers::NAME, "") => 7,
            (_, "log.new.tmp") => 8,
            (_, "next") => 9,
            ("crashes", "") => 10,
            (_, "log") => 0,
            (_, "index") => 1,
            (_, "timeindex") => 2,
            _ => 11,
        };
        let part = Part {
            kind,
            base: stem.parse().unwrap_or_default(),
            bytes: fs::read(&path).expect("it can be read"),
        };
        part.write(&mut out);
    }
    out
}

async fn open(dir: &Path, reason: OpenReason) -> Log {
    let opened = Log::open(dir, CONFIG, opening(reason)).await;
    opened.expect("the log is whole").0
}

async fn grow(log: &mut Log, batches: i64) {
    for number in 0..batches {
        let batch = Batch::parse(plain(1 + number % 3, Codec::None)).expect("it is valid");
        log.append(
            batch,
            Timestamps::Append,
            Timestamp(1_600_000_000_000 + number),
        )
        .expect("the disk takes it");
        if let Some(flush) = log.flush() {
            let flushed = flush.run().await;
            log.flushed(flushed).expect("the disk takes it");
        }
    }
}

/// As a crash leaves it while the segments are written once more after a failed flush.
fn doubted(dir: &Path) -> Vec<u8> {
    let mut image = image(dir, 0);
    let half = b"half of a segment".to_vec();
    for (kind, bytes) in [(5, Vec::new()), (8, half)] {
        let part = Part {
            kind,
            base: 0,
            bytes,
        };
        part.write(&mut image);
    }
    image
}

/// With notes of crashes at these times.
fn crashed(dir: &Path, times: &[i64]) -> Vec<u8> {
    let mut image = image(dir, SEALED);
    let note = |time: &i64| [&b"FLXX"[..], &time.to_be_bytes(), &[0; 4]].concat();
    let part = Part {
        kind: 10,
        base: 0,
        bytes: times.iter().flat_map(note).collect(),
    };
    part.write(&mut image);
    image
}

/// As a crash leaves it while the last segment has no name of its own.
fn unnamed(dir: &Path) -> Vec<u8> {
    let entries = fs::read_dir(dir).expect("the directory is ours");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let last = paths.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    let last = last.max().expect("it has segments");
    let next = dir.join("00000000000000000001.next");
    fs::rename(&last, &next).expect("the directory is ours");
    let image = image(dir, 0);
    fs::rename(next, last).expect("the directory is ours");
    image
}

/// Directories that open, and some that must not.
#[must_use]
pub fn directories() -> Vec<Seed> {
    run_on_executor(async {
        let mut seeds = Vec::new();
        for (size, batches) in [("empty", 0), ("one", 1), ("rolled", 14)] {
            let dir = tempfile::tempdir().expect("a temporary directory can be made");
            let mut log = open(dir.path(), OpenReason::Restart).await;
            grow(&mut log, batches).await;
            drop(log);
            seeds.push(Seed::ok(format!("{size}-killed"), image(dir.path(), 0)));
            if size == "rolled" {
                seeds.push(Seed::ok("doubted", doubted(dir.path())));
                seeds.push(Seed::ok("unnamed", unnamed(dir.path())));
                let notes = [0, 1, 2].map(|number| number * 601_000);
                seeds.push(Seed::ok("crashed", crashed(dir.path(), &notes)));
                let notes = [0, 1, 2].map(|number| number * 300_000);
                seeds.push(Seed::bad("crashes-again", crashed(dir.path(), &notes)));
            }
            let mut log = open(dir.path(), OpenReason::Promotion).await;
            grow(&mut log, 2).await;
            log.close().await.expect("the log is healthy");
            for (how, flags) in [("", 0), ("-sealed", SEALED)] {
                let name = format!("{size}-promoted-closed{how}");
                seeds.push(Seed::ok(name, image(dir.path(), flags)));
            }
            fs::write(dir.path().join("7.log"), b"").expect("the directory is ours");
            let mut foreign = image(dir.path(), 0);
            let part = Part {
                kind: 6,
                base: 7,
                bytes: Vec::new(),
            };
            part.write(&mut foreign);
            seeds.push(Seed::bad(format!("{size}-foreign"), foreign));
        }
        seeds.push(Seed::ok("nothing", [0]));
        seeds
    })
}
