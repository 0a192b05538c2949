//! Appending to a shard's log, beside the bare write of the same bytes.
//!
//! `log` places a parsed batch, notes it in the indexes and writes it into the page cache; `pwrite`
//! is the system call alone, and the floor. Both fill new files, which are thrown away before the
//! kernel writes much of them back. Does not show a flush, the change to a new segment, a disk that
//! falls behind, nor what the batch has cost before it.

use crate::{batches, executor, scale};
use bytes::BytesMut;
use criterion::{BenchmarkId, Criterion, Throughput};
use felix_core::batch::Codec;
use felix_core::{Batch, Generation, Offset, PlacedBatch, Timestamp, Timestamps};
use felix_shard::log::{Log, LogConfig, OpenReason, Opening};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Segments that are never full.
const CONFIG: LogConfig = LogConfig {
    segment_bytes_max: 1 << 30,
    index_interval_bytes: 4096,
};

/// Bytes written to one file before it makes way for the next: a fraction of the memory, so that
/// nobody waits for a disk.
const FILE_BYTES: usize = 64 << 20;

/// Bytes of batches that are prepared in one go and then appended without a pause.
const AHEAD_BYTES: usize = 256 << 10;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

pub(crate) fn measure(criterion: &mut Criterion) {
    let executor = executor::here();
    let mut group = criterion.benchmark_group("append");
    for (shape, records) in batches::SHAPES {
        let sent = batches::bytes(records, Timestamp(1), Codec::None);
        executor.run(check(&sent));
        group.throughput(Throughput::Bytes(sent.len() as u64));
        group.bench_function(BenchmarkId::new("log", shape), |bencher| {
            bencher.iter_custom(|count| executor.run(in_files(&sent, count, to_log)));
        });
        group.bench_function(BenchmarkId::new("pwrite", shape), |bencher| {
            bencher.iter_custom(|count| executor.run(in_files(&sent, count, to_file)));
        });
    }
    group.finish();
}

/// A log of its own in a directory of its own.
pub(crate) async fn open(config: LogConfig) -> (TempDir, Log) {
    let dir = tempfile::tempdir().expect("the temporary directory can be written");
    let opening = Opening {
        reason: OpenReason::Restart,
        generation_floor: Generation::new(0),
        is_floor_noted: false,
        now: NOW,
        verify: false,
        failed: false,
        kept_free_bytes: 0,
    };
    let (log, _) = Log::open(dir.path(), config, opening)
        .await
        .expect("the temporary directory can hold a log");
    (dir, log)
}

/// What was appended is read again.
async fn check(sent: &BytesMut) {
    let (_dir, mut log) = open(CONFIG).await;
    let batch = batches::parsed(sent);
    let end = Offset::new(batch.offsets());
    let placed = append(&mut log, batch);
    assert_eq!(log.end(), end);
    let read = log.read(Offset::ZERO, end, sent.len()).run().await;
    assert_eq!(read.expect("it is whole"), [placed.bytes().clone()]);
}

fn append(log: &mut Log, batch: Batch) -> PlacedBatch {
    log.append(batch, Timestamps::Append, NOW)
        .expect("the temporary directory has room")
}

/// Writes `count` batches, each file its share, and adds up the time.
async fn in_files(
    sent: &BytesMut,
    count: u64,
    write: impl AsyncFn(&BytesMut, usize) -> Duration,
) -> Duration {
    let file_batches = scale::of(FILE_BYTES, AHEAD_BYTES) / sent.len();
    let mut left = usize::try_from(count).expect("fewer than a process could hold");
    let mut took = Duration::ZERO;
    while left > 0 {
        let share = left.min(file_batches);
        took += write(sent, share).await;
        left -= share;
    }
    took
}

async fn to_log(sent: &BytesMut, count: usize) -> Duration {
    let (_dir, mut log) = open(CONFIG).await;
    let ahead = AHEAD_BYTES / sent.len();
    let mut took = Duration::ZERO;
    let mut placed = Vec::with_capacity(ahead);
    for done in (0..count).step_by(ahead) {
        let share = ahead.min(count - done);
        let batches: Vec<Batch> = (0..share).map(|_| batches::parsed(sent)).collect();
        let start = Instant::now();
        for batch in batches {
            placed.push(append(&mut log, batch));
        }
        took += start.elapsed();
        // Not part of an append: the tail cache keeps them.
        placed.clear();
    }
    took
}

async fn to_file(sent: &BytesMut, count: usize) -> Duration {
    let dir = tempfile::tempdir().expect("the temporary directory can be written");
    let file = File::create(dir.path().join("floor")).expect("it can hold a file");
    let mut position = 0;
    let start = Instant::now();
    for _ in 0..count {
        file.write_all_at(sent, position)
            .expect("the temporary directory has room");
        position += sent.len() as u64;
    }
    start.elapsed()
}
