//! Finding a place in a log, by offset and by timestamp, among 64 MiB that the page cache holds.
//!
//! `growing` is one segment with its indexes in memory, `sealed` is 256 of them with their indexes
//! in files. By offset is a read of the one batch found, since nobody looks for a batch that they
//! do not read; by timestamp goes on into the batch, to its record. `pread` is the floor: the read
//! of the chunk in which either looks for its batch. Does not show a cold cache, where the device
//! decides, nor large or compressed batches, where a look into the batch does.

use crate::append::open;
use crate::{batches, executor, scale};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion};
use felix_core::batch::{Codec, Header};
use felix_core::{Offset, PlacedBatch, Timestamp, Timestamps};
use felix_shard::log::{Log, LogConfig, Searched, Wanted};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes of a whole log.
const LOG_BYTES: u64 = 64 << 20;

/// Segments of one that has many.
const SEGMENTS: u64 = 256;

/// The same where each piece is only run once.
const LOG_BYTES_ONCE: u64 = 1 << 20;
const SEGMENTS_ONCE: u64 = 4;

/// Each segment has more records.
const RECORDS_PER_SEGMENT_MIN: u64 = 100;

/// The chunks in which the log is read for a batch at an offset, and for one with a timestamp.
const CHUNKS: [(&str, usize); 2] = [("16KiB", 16 << 10), ("64KiB", 64 << 10)];

/// The record at offset 0 has this timestamp, each other one a millisecond more.
const FIRST: Timestamp = Timestamp(1_700_000_000_000);

const SEED: u64 = 0x005e_a2c4;

pub(crate) fn measure(criterion: &mut Criterion) {
    let executor = executor::here();
    let mut group = criterion.benchmark_group("search");
    let bytes = scale::of(LOG_BYTES, LOG_BYTES_ONCE);
    let segments = scale::of(SEGMENTS, SEGMENTS_ONCE);
    for (name, segment_bytes_max) in [("growing", 1 << 30), ("sealed", bytes / segments)] {
        let filled = executor.run(Filled::new(bytes, segment_bytes_max));
        filled.check_segments(if name == "sealed" { segments } else { 1 });
        executor.run(filled.check());
        let by_offset = async |offset| filled.batch_at(offset).await.0;
        group.bench_function(BenchmarkId::new("offset", name), |bencher| {
            bencher.iter_custom(|count| executor.run(filled.times(count, by_offset)));
        });
        let by_timestamp = async |offset| filled.since(offset).await;
        group.bench_function(BenchmarkId::new("timestamp", name), |bencher| {
            bencher.iter_custom(|count| executor.run(filled.times(count, by_timestamp)));
        });
        // A log's files are closed by the executor that opened them.
        executor.run(async move { drop(filled) });
    }
    for (name, chunk_bytes) in CHUNKS {
        let file = Floor::new(usize::try_from(bytes).expect("it fits memory"), chunk_bytes);
        group.bench_function(BenchmarkId::new("pread", name), |bencher| {
            bencher.iter_custom(|count| file.times(count));
        });
    }
    group.finish();
}

/// A log to be searched.
struct Filled {
    dir: TempDir,
    log: Log,
}

impl Filled {
    /// With so many bytes of batches of one record, all durable, full segments with index files.
    async fn new(bytes: u64, segment_bytes_max: u64) -> Self {
        let (dir, mut log) = open(LogConfig {
            segment_bytes_max,
            index_interval_bytes: 4096,
        })
        .await;
        let mut left = bytes;
        for timestamp in FIRST.0.. {
            let sent = batches::bytes(1, Timestamp(timestamp), Codec::None);
            let size = sent.len() as u64;
            if left < size {
                break;
            }
            left -= size;
            log.append(batches::parsed(&sent), Timestamps::Create, FIRST)
                .expect("the temporary directory has room");
        }
        if let Some(flush) = log.flush() {
            let flushed = flush.run().await;
            log.flushed(flushed).expect("the disk flushes");
        }
        if let Some(upkeep) = log.upkeep() {
            let kept_up = upkeep.run().await;
            log.kept_up(kept_up).expect("the disk takes index files");
        }
        let filled = Self { dir, log };
        filled.open_indexes().await;
        filled
    }

    /// The first look into a segment opens its index files, which takes a thread that may wait.
    async fn open_indexes(&self) {
        let steps = usize::try_from(RECORDS_PER_SEGMENT_MIN).expect("it is small");
        for offset in (0..self.log.end().get()).step_by(steps).map(Offset::new) {
            self.batch_at(offset).await;
            self.since(offset).await;
        }
    }

    /// There are as many as meant, or one more for what did not fit exactly.
    fn check_segments(&self, meant: u64) {
        let files = self.dir.path().read_dir().expect("the log is there");
        let paths = files.map(|file| file.expect("the log is there").path());
        let logs = paths.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
        let found = logs.count() as u64;
        assert!((meant..=meant + 2).contains(&found), "{found} for {meant}");
    }

    /// Both ways find the right record at the start, in the middle and at the end.
    async fn check(&self) {
        let end = self.log.end().get();
        for offset in [0, 1, end / 3, end / 2, end - 1].map(Offset::new) {
            let (base, mut bytes) = self.batch_at(offset).await;
            assert_eq!(base, offset);
            let batch = PlacedBatch::split_from(&mut bytes).expect("the batch is whole");
            assert_eq!(batch.max_timestamp(), timestamp_of(offset));
            assert!(bytes.is_empty(), "one batch was asked for");
            assert_eq!(self.since(offset).await, offset);
        }
    }

    /// The batch that holds the record at an offset: the offset where it begins, and its bytes. As
    /// an owner reads it: at once, or else from the device.
    async fn batch_at(&self, offset: Offset) -> (Offset, Bytes) {
        let read = self.log.read(offset, self.log.end(), 1);
        let pieces = match read.try_now() {
            Some(pieces) => pieces,
            None => read.run().await,
        };
        let mut pieces = pieces.expect("the log is whole");
        let bytes = pieces.pop().expect("the offset is in the log");
        let header = Header::read(&bytes).expect("a batch begins here");
        let base = Offset::from_wire(header.base_offset).expect("the log placed it");
        (base, bytes)
    }

    /// The offset of the first record with the timestamp of the one at `offset`, or a later one.
    async fn since(&self, offset: Offset) -> Offset {
        let wanted = Wanted::AtOrAfter(timestamp_of(offset));
        let search = self.log.search(wanted, self.log.end());
        match search.step().await.expect("the log is whole") {
            Searched::Done(Some((found, _, _))) => found,
            Searched::Done(None) | Searched::Heavy(_) => panic!("there is such a small batch"),
        }
    }

    /// The time that `find` takes for `count` offsets, drawn anew.
    async fn times(&self, count: u64, find: impl AsyncFn(Offset) -> Offset) -> Duration {
        let mut random = fastrand::Rng::with_seed(SEED ^ count);
        let end = self.log.end().get();
        let start = Instant::now();
        for _ in 0..count {
            let offset = Offset::new(random.u64(..end));
            let found = find(offset).await;
            assert_eq!(found, offset);
        }
        start.elapsed()
    }
}

fn timestamp_of(offset: Offset) -> Timestamp {
    Timestamp(FIRST.0 + offset.to_wire())
}

/// A file of the same size, read a chunk at a time.
struct Floor {
    file: File,
    bytes: usize,
    chunk_bytes: usize,
}

impl Floor {
    fn new(bytes: usize, chunk_bytes: usize) -> Self {
        let file = tempfile::tempfile().expect("the temporary directory can be written");
        let zeros = vec![0; bytes];
        file.write_all_at(&zeros, 0)
            .expect("the temporary directory has room");
        Self {
            file,
            bytes,
            chunk_bytes,
        }
    }

    fn times(&self, count: u64) -> Duration {
        let mut random = fastrand::Rng::with_seed(SEED ^ count);
        let mut chunk = vec![0xff; self.chunk_bytes];
        let start = Instant::now();
        for _ in 0..count {
            let position = random.usize(..self.bytes - self.chunk_bytes) as u64;
            self.file
                .read_exact_at(&mut chunk, position)
                .expect("the file is as large");
        }
        let took = start.elapsed();
        assert!(chunk.iter().all(|byte| *byte == 0), "the chunk was read");
        took
    }
}
