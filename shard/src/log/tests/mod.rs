//! The log on real files. Each test runs on an executor of its own, in a directory of its own.

mod append;
mod crashes;
mod damaged;
mod failing;
mod full;
mod indexes;
mod inspected;
mod leftovers;
mod model;
mod next;
mod openings;
mod preparing;
mod producers;
mod reading;
mod recovering;
mod refused;
mod retention;
mod rewriting;
mod rolling;
mod searching;
mod upkeep;

use super::*;
use bytes::Bytes;
use felix_core::batch::{BatchBuilder, Place, Record};
use felix_core::{Batch, Timestamps};
use glommio::{LocalExecutorBuilder, Placement};
use std::future::Future;
use std::path::PathBuf;
use tempfile::TempDir;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

const SMALL: LogConfig = LogConfig {
    segment_bytes_max: 1000,
    index_interval_bytes: 200,
};

const LARGE: LogConfig = LogConfig {
    segment_bytes_max: 1 << 20,
    index_interval_bytes: 4096,
};

/// Runs on an executor, as the log does in the broker.
fn run<T>(test: impl Future<Output = T>) -> T {
    LocalExecutorBuilder::new(Placement::Unbound)
        .io_memory(64 << 10)
        .make()
        .unwrap()
        .run(test)
}

fn restart() -> Opening {
    Opening {
        reason: OpenReason::Restart,
        generation_floor: Generation::new(0),
        is_floor_noted: false,
        now: NOW,
        verify: false,
        failed: false,
        kept_free_bytes: 0,
    }
}

fn promotion() -> Opening {
    Opening {
        reason: OpenReason::Promotion,
        ..restart()
    }
}

async fn open(dir: &TempDir, config: LogConfig) -> (Log, Recovery) {
    Log::open(dir.path(), config, restart()).await.unwrap()
}

/// A batch of one record per timestamp, with that many bytes in each value.
fn batch(timestamps: &[i64], value_bytes: usize) -> Batch {
    let mut builder = BatchBuilder::new();
    for (number, timestamp) in timestamps.iter().enumerate() {
        let fill = u8::try_from(number % 251).unwrap();
        let value = vec![fill; value_bytes];
        builder = builder.record(Timestamp(*timestamp), None, Some(&value));
    }
    Batch::parse(builder.build()).unwrap()
}

fn append(log: &mut Log, records: usize, value_bytes: usize) -> PlacedBatch {
    let batch = batch(&vec![5; records], value_bytes);
    log.append(batch, Timestamps::Append, NOW).unwrap()
}

async fn flush(log: &mut Log) {
    if let Some(flush) = log.flush() {
        let flushed = flush.run().await;
        log.flushed(flushed).unwrap();
    }
    assert_eq!(log.durable_end(), log.end());
    assert_eq!(log.dirty_bytes(), 0);
    assert!(log.flush().is_none());
    if log.owes_upkeep() {
        keep_up(log).await;
    }
}

async fn keep_up(log: &mut Log) {
    let kept_up = log.upkeep().unwrap().run().await;
    log.kept_up(kept_up).unwrap();
}

/// Everything a read answers, as batches.
fn batches(pieces: Vec<Bytes>) -> Vec<PlacedBatch> {
    let mut found = Vec::new();
    for mut piece in pieces {
        while !piece.is_empty() {
            found.push(PlacedBatch::split_from(&mut piece).unwrap());
        }
    }
    found
}

async fn read_all(log: &Log) -> Vec<PlacedBatch> {
    let read = log.read(log.start(), log.end(), usize::MAX >> 1);
    batches(read.run().await.unwrap())
}

fn all_bytes(batches: &[PlacedBatch]) -> Vec<Bytes> {
    batches.iter().map(|batch| batch.bytes().clone()).collect()
}

async fn assert_holds(log: &Log, expected: &[PlacedBatch]) {
    let found = read_all(log).await;
    assert_eq!(all_bytes(&found), all_bytes(expected));
    let end = expected
        .last()
        .map_or(log.start(), PlacedBatch::next_offset);
    assert_eq!(log.end(), end);
    assert_eq!(log.durable_end(), end);
}

/// A kill: the log is gone, and with it all that was only in memory.
fn kill(log: Log) {
    drop(log);
}

fn files(dir: &TempDir, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    files.sort();
    files
}

fn copy(from: &TempDir) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}
