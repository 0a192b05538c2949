//! Space that is prepared ahead of appends.

use super::*;
use felix_core::Monotonic;
use std::fs;
use std::time::Duration;

const NOON: Monotonic = Monotonic(Duration::from_secs(43_200));

fn file(dir: &TempDir, base: u64) -> PathBuf {
    dir.path().join(format!("{base:020}.log"))
}

fn size(dir: &TempDir, base: u64) -> u64 {
    fs::metadata(file(dir, base)).unwrap().len()
}

/// Does the step that the log wants now.
async fn prepare(log: &mut Log) {
    let step = log.preparation(NOON).unwrap();
    let prepared = step.run().await.unwrap();
    log.prepared(&prepared);
}

/// A log that has been written to, and has space prepared.
async fn prepared(dir: &TempDir, config: LogConfig) -> Log {
    let (mut log, _) = open(dir, config).await;
    append(&mut log, 1, 20_000);
    prepare(&mut log).await;
    log
}

#[test]
fn nothing_is_prepared_for_a_log_that_is_hardly_written_to_nor_past_the_end_of_a_segment() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        assert!(log.preparation(NOON).is_none());
        append(&mut log, 1, 100);
        assert!(log.preparation(NOON).is_none());
        append(&mut log, 1, 20_000);
        prepare(&mut log).await;
        assert!(log.preparation(NOON).is_none(), "there is enough");
        assert_eq!(log.prepared_bytes(), 64 << 10);
        let full = LogConfig {
            segment_bytes_max: 50_000,
            ..LARGE
        };
        let dir = tempfile::tempdir().unwrap();
        let log = prepared(&dir, full).await;
        assert_eq!(size(&dir, 0), 50_000);
        assert!(!log.wants_space());
    });
}

#[test]
fn appends_take_the_prepared_space_and_a_killed_broker_finds_the_end_before_it() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut log = prepared(&dir, LARGE).await;
        let before = size(&dir, 0);
        let placed = append(&mut log, 1, 1000);
        assert_eq!(size(&dir, 0), before);
        flush(&mut log).await;
        let (end, bytes) = (log.end(), before - log.prepared_bytes());
        assert_eq!(end, placed.next_offset());
        drop(log);
        for _ in 0..2 {
            let (log, recovery) = open(&dir, LARGE).await;
            assert_eq!((log.end(), recovery.cut_bytes), (end, 0));
            assert_eq!(size(&dir, 0), bytes);
        }
    });
}

#[test]
fn a_closed_log_ends_with_its_last_batch() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let log = prepared(&dir, LARGE).await;
        let (end, bytes) = (log.end(), size(&dir, 0) - log.prepared_bytes());
        log.close().await.unwrap();
        assert_eq!(size(&dir, 0), bytes);
        let (log, recovery) = open(&dir, LARGE).await;
        assert_eq!((log.end(), recovery.rebuilt_indexes), (end, 0));
        assert_eq!(recovery.scanned_batches, 1, "it is taken on trust");
    });
}

/// A log whose first segment is full and has space left of what was prepared.
async fn rolled(dir: &TempDir) -> Log {
    let config = LogConfig {
        segment_bytes_max: 200_000,
        ..LARGE
    };
    let mut log = prepared(dir, config).await;
    append(&mut log, 1, 190_000);
    assert!(size(dir, 1) > 0);
    log
}

#[test]
fn a_full_segment_gives_back_its_space_before_the_checkpoint_passes_it() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut log = rolled(&dir).await;
        assert!(size(&dir, 0) > 64 << 10);
        flush(&mut log).await;
        assert!(log.recovery_point() > Offset::ZERO);
        assert!(size(&dir, 0) < 64 << 10);
        let end = log.end();
        drop(log);
        let (log, recovery) = open(&dir, LARGE).await;
        assert_eq!((log.end(), recovery.cut_bytes), (end, 0));
    });
}

#[test]
fn space_that_a_crash_left_in_a_full_segment_takes_nothing_of_those_behind_it() {
    run(async {
        for is_below_recovery_point in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mut log = rolled(&dir).await;
            let left = fs::read(file(&dir, 0)).unwrap();
            let end = log.end();
            let flushed = log.flush().unwrap().run().await;
            log.flushed(flushed).unwrap();
            if is_below_recovery_point {
                log.close().await.unwrap();
                // As where the cut did not reach the device, and the checkpoint did.
                fs::write(file(&dir, 0), &left).unwrap();
            } else {
                drop(log);
            }
            let (log, recovery) = open(&dir, LARGE).await;
            assert_eq!((log.end(), recovery.cut_bytes), (end, 0));
            assert!(size(&dir, 0) < left.len() as u64);
            drop(log);
            let (log, _) = open(&dir, LARGE).await;
            assert_eq!(log.end(), end);
        }
    });
}

#[test]
fn a_batch_that_never_reached_its_prepared_space_ends_the_log_there() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut log = rolled(&dir).await;
        let (all, end) = (fs::read(file(&dir, 0)).unwrap(), log.end());
        assert_eq!(end, Offset::new(2));
        append(&mut log, 1, 100);
        drop(log);
        // The first batch is gone, and what is behind it stands in another file.
        fs::write(file(&dir, 0), vec![0; all.len()]).unwrap();
        let (log, recovery) = open(&dir, LARGE).await;
        assert_eq!(log.end(), Offset::ZERO);
        assert!(recovery.cut_bytes > 190_000);
    });
}

#[test]
fn a_step_that_ends_after_its_segment_was_sealed_is_given_back() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let config = LogConfig {
            segment_bytes_max: 200_000,
            ..LARGE
        };
        let (mut log, _) = open(&dir, config).await;
        append(&mut log, 1, 20_000);
        let bytes = size(&dir, 0);
        let step = log.preparation(NOON).unwrap();
        append(&mut log, 1, 190_000);
        let prepared = step.run().await.unwrap();
        log.prepared(&prepared);
        assert_eq!(size(&dir, 0), bytes);
        assert_eq!(log.prepared_bytes(), 0);
    });
}
