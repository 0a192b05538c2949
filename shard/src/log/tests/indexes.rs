//! Index files: their bytes, and that a wrong one changes nothing that is read.

use super::*;
use crate::event::step_aside;
use crate::log::index::{Indexes, OffsetEntry};
use std::cell::Cell;
use std::time::Duration;

/// Several full segments with several entries each, closed cleanly.
async fn closed() -> (TempDir, Vec<PlacedBatch>) {
    let dir = tempfile::tempdir().unwrap();
    let config = INDEXED;
    let (mut log, _) = open(&dir, config).await;
    let batches = (0..40_i64)
        .map(|number| {
            // Not in order, so that the time index has work to do.
            let timestamp = 1000 + (number * 37) % 50;
            let batch = batch(&[timestamp, timestamp - 3], 100);
            log.append(batch, Timestamps::Create, NOW).unwrap()
        })
        .collect();
    log.close().await.unwrap();
    (dir, batches)
}

const INDEXED: LogConfig = LogConfig {
    segment_bytes_max: 5000,
    index_interval_bytes: 600,
};

/// What becomes of a file's bytes; `None`: the file is removed.
type Damage<'a> = &'a dyn Fn(&[u8]) -> Option<Vec<u8>>;

/// Reads from every offset and searches every timestamp.
async fn assert_serves(log: &Log, batches: &[PlacedBatch]) {
    for batch in batches {
        for offset in batch.base_offset().get()..batch.next_offset().get() {
            let read = log
                .read(Offset::new(offset), log.end(), 1)
                .run()
                .await
                .unwrap();
            assert_eq!(read, vec![batch.bytes().clone()]);
        }
    }
    let records: Vec<Record> = batches.iter().flat_map(|b| b.records().unwrap()).collect();
    for wanted in 990..1060 {
        let wanted = Timestamp(wanted);
        let expected = records.iter().find(|record| record.timestamp >= wanted);
        let found = log
            .search(Wanted::AtOrAfter(wanted), log.end())
            .run()
            .await
            .unwrap();
        assert_eq!(
            found.map(|found| found.0),
            expected.map(|record| record.offset)
        );
    }
}

#[test]
fn full_segments_have_the_index_files_that_kafka_would_write() {
    run(async {
        let (dir, batches) = closed().await;
        let logs = files(&dir, "log");
        assert!(logs.len() >= 3);
        // An independent run of Kafka's rule over the batches of the first segment.
        let second: u64 = logs[1]
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        let (mut offsets, mut times) = (Vec::new(), Vec::new());
        let (mut position, mut since) = (0_u32, 0);
        let (mut greatest, mut written) = ((-1, 0_u32), -1);
        for batch in batches
            .iter()
            .filter(|batch| batch.base_offset().get() < second)
        {
            let last = u32::try_from(batch.last_offset().get()).unwrap();
            if batch.max_timestamp().0 > greatest.0 {
                greatest = (batch.max_timestamp().0, last);
            }
            if since > 600 {
                offsets.extend(last.to_be_bytes());
                offsets.extend(position.to_be_bytes());
                if greatest.0 > written {
                    times.extend(greatest.0.to_be_bytes());
                    times.extend(greatest.1.to_be_bytes());
                    written = greatest.0;
                }
                since = 0;
            }
            let size = u32::try_from(batch.bytes().len()).unwrap();
            position += size;
            since += size;
        }
        if greatest.0 > written {
            times.extend(greatest.0.to_be_bytes());
            times.extend(greatest.1.to_be_bytes());
        }
        assert!(offsets.len() >= 24);
        assert_eq!(std::fs::read(&files(&dir, "index")[0]).unwrap(), offsets);
        assert_eq!(std::fs::read(&files(&dir, "timeindex")[0]).unwrap(), times);
    });
}

#[test]
fn index_files_that_are_missing_garbage_or_cut_are_made_anew() {
    run(async {
        let (dir, batches) = closed().await;
        let intact = copy(&dir);
        let (log, recovery) = open(&intact, INDEXED).await;
        assert_eq!(recovery.rebuilt_indexes, 0);
        assert_serves(&log, &batches).await;
        for ending in ["index", "timeindex"] {
            let entry = if ending == "index" { 8 } else { 12 };
            for number in 0..files(&dir, ending).len() {
                let damages: [(&str, Damage<'_>); 8] = [
                    ("wrong in its last entry", &|b| {
                        let mut bytes = b.to_vec();
                        bytes[b.len() - entry + 3] ^= 0x40;
                        Some(bytes)
                    }),
                    ("missing", &|_| None),
                    ("garbage", &|b| Some(vec![0xa5; b.len()])),
                    ("zeros", &|b| Some(vec![0; b.len()])),
                    ("empty", &|_| Some(Vec::new())),
                    ("cut inside an entry", &|b| Some(b[..b.len() - 1].to_vec())),
                    ("cut by an entry", &|b| Some(b[..b.len() - entry].to_vec())),
                    ("too long", &|b| Some([b, &[0xff; 24]].concat())),
                ];
                for (damage, apply) in damages {
                    let copied = copy(&dir);
                    let path = &files(&copied, ending)[number];
                    let bytes = std::fs::read(path).unwrap();
                    match apply(&bytes) {
                        Some(damaged) => std::fs::write(path, damaged).unwrap(),
                        None => std::fs::remove_file(path).unwrap(),
                    }
                    let (log, recovery) = open(&copied, INDEXED).await;
                    assert!(recovery.rebuilt_indexes > 0, "{ending} {number} {damage}");
                    assert_serves(&log, &batches).await;
                    if number + 1 < files(&dir, ending).len() {
                        assert_eq!(std::fs::read(path).unwrap(), bytes, "{ending} {damage}");
                    }
                }
            }
        }
    });
}

#[test]
fn an_entry_that_points_to_no_batch_is_not_believed() {
    run(async {
        let (dir, batches) = closed().await;
        for (ending, entry) in [("index", 8), ("timeindex", 12)] {
            for byte in 0..entry {
                // In the middle of a file, where no opening looks.
                let copied = copy(&dir);
                for path in files(&copied, ending) {
                    let mut bytes = std::fs::read(&path).unwrap();
                    for at in (byte..bytes.len().saturating_sub(2 * entry)).step_by(2 * entry) {
                        bytes[at] ^= 0x10;
                    }
                    std::fs::write(&path, bytes).unwrap();
                }
                let (log, _) = open(&copied, INDEXED).await;
                assert_serves(&log, &batches).await;
            }
        }
    });
}

#[test]
fn index_files_that_vanish_while_the_log_is_open_are_missed_by_no_read() {
    run(async {
        let (dir, batches) = closed().await;
        let (log, _) = open(&dir, INDEXED).await;
        for path in [files(&dir, "index"), files(&dir, "timeindex")].concat() {
            std::fs::remove_file(path).unwrap();
        }
        assert_serves(&log, &batches).await;
    });
}

#[test]
fn the_index_files_of_a_large_segment_are_made_in_turns_with_other_tasks() {
    let executor = LocalExecutorBuilder::new(Placement::Unbound)
        .io_memory(64 << 10)
        .preempt_timer(Duration::from_micros(200));
    executor.make().unwrap().run(async {
        let dir = tempfile::tempdir().unwrap();
        let dir = Rc::new(Dir::open(dir.path()).await.unwrap());
        let segment = Segment::create(&dir, Offset::ZERO, 4096).unwrap();
        let entry = OffsetEntry {
            last: 1,
            position: 1,
        };
        let all = 4 << 20;
        let indexes = Indexes::from_entries(vec![entry; all], Vec::new(), 0);
        segment.trust(1, Offset::new(1), None, Some(indexes));
        let turns = Rc::new(Cell::new(0));
        let turn = Rc::clone(&turns);
        let others = glommio::spawn_local(async move {
            loop {
                turn.set(turn.get() + 1);
                step_aside().await;
            }
        });
        let (offsets, _) = segment.index_bytes().await.unwrap();
        assert_eq!(offsets.len(), all * 8);
        assert!(turns.get() > 1, "{}", turns.get());
        others.cancel().await;
    });
}
