//! What a stream does not keep goes: whole full segments from the head, in an order that survives a
//! crash between any two steps.

use super::*;
use felix_core::Retention;
use futures_util::FutureExt;
use std::num::NonZeroU64;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: i64 = 3_600_000;

fn of_bytes(bytes: u64) -> Retention {
    Retention {
        bytes: NonZeroU64::new(bytes),
        age: None,
    }
}

fn of_age(age: Duration) -> Retention {
    Retention {
        bytes: None,
        age: Some(age),
    }
}

/// A log of `count` batches, some to a segment, all flushed.
async fn filled(dir: &TempDir, count: usize) -> (Log, Vec<PlacedBatch>) {
    let (mut log, _) = open(dir, SMALL).await;
    let batches = (0..count).map(|_| append(&mut log, 2, 120)).collect();
    flush(&mut log).await;
    (log, batches)
}

fn after(log: &Log, batches: &[PlacedBatch]) -> Vec<PlacedBatch> {
    let kept = batches
        .iter()
        .filter(|batch| batch.base_offset() >= log.start());
    kept.cloned().collect()
}

/// Removes what the log let go of; the bytes that are free again.
async fn remove(log: &mut Log) -> u64 {
    let mut freed = 0;
    if let Some(mut removal) = log.removal() {
        while let Some(remains) = removal.next().await {
            freed += remains.remove(|| true).await.unwrap();
        }
    }
    freed
}

fn log_bytes(dir: &TempDir) -> u64 {
    let sizes = files(dir, "log").into_iter();
    sizes.map(|path| path.metadata().unwrap().len()).sum()
}

#[test]
fn by_bytes_the_oldest_full_segments_go_while_so_much_is_left_without_them() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, batches) = filled(&dir, 20).await;
        let before = log_bytes(&dir);
        log.retain(of_bytes(before), NOW);
        assert!(!log.owes_upkeep(), "all of it is to be kept");
        log.retain(of_bytes(2000), NOW);
        assert_eq!(log.start(), Offset::ZERO, "nothing says so yet");
        assert!(log.owes_upkeep());
        keep_up(&mut log).await;
        assert!(log.start() > Offset::ZERO);
        assert_holds(&log, &after(&log, &batches)).await;
        assert_eq!(log_bytes(&dir), before, "the files go last");
        let freed = remove(&mut log).await;
        let left = log_bytes(&dir);
        assert_eq!(freed + left, before);
        let first = files(&dir, "log").remove(0).metadata().unwrap().len();
        assert!(left >= 2000);
        assert!(left - first < 2000);
        for ending in ["log", "index", "timeindex"] {
            let first = format!("{:020}.{ending}", log.start().get());
            assert!(files(&dir, ending)[0].ends_with(first));
        }
        log.close().await.unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        assert_holds(&log, &after(&log, &batches)).await;
        assert!(log.start() > Offset::ZERO);
        assert!(log.removal().is_none());
    });
}

#[test]
fn the_segment_that_grows_stays_and_so_does_what_is_not_durable() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        for _ in 0..10 {
            append(&mut log, 2, 120);
        }
        log.retain(of_bytes(1), NOW);
        assert!(!log.owes_upkeep(), "nothing is durable");
        flush(&mut log).await;
        log.retain(of_bytes(1), NOW);
        log.retain(of_age(HOUR), Timestamp(i64::MAX));
        keep_up(&mut log).await;
        remove(&mut log).await;
        assert_eq!(files(&dir, "log").len(), 1);
        assert!(log.start() < log.end());
        append(&mut log, 2, 120);
        flush(&mut log).await;
    });
}

#[test]
fn by_age_a_segment_goes_once_its_newest_record_is_older() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        for hour in 0..5 {
            // One segment each: the second record is the newer one.
            let time = NOW.0 + hour * HOUR_MS;
            let batch = batch(&[time - 7 * HOUR_MS, time], 400);
            log.append(batch, Timestamps::Create, Timestamp(time))
                .unwrap();
        }
        flush(&mut log).await;
        assert_eq!(files(&dir, "log").len(), 5);
        for (hours, start) in [(2, 0), (3, 2), (4, 4), (40, 8)] {
            log.retain(of_age(2 * HOUR), Timestamp(NOW.0 + hours * HOUR_MS));
            if log.owes_upkeep() {
                keep_up(&mut log).await;
            }
            assert_eq!(log.start(), Offset::new(start), "after {hours} hours");
        }
    });
}

/// A log with one full segment whose record says that it is of the next year.
async fn from_the_future(dir: &TempDir) -> Log {
    let (mut log, _) = open(dir, SMALL).await;
    let next_year = NOW.0 + 365 * 24 * HOUR_MS;
    for _ in 0..2 {
        let batch = batch(&[next_year], 900);
        log.append(batch, Timestamps::Create, NOW).unwrap();
    }
    flush(&mut log).await;
    log
}

async fn start_after(dir: &TempDir, hours: i64) -> Offset {
    let now = Timestamp(NOW.0 + hours * HOUR_MS);
    let opening = Opening { now, ..restart() };
    let (mut log, _) = Log::open(dir.path(), SMALL, opening).await.unwrap();
    log.retain(of_age(2 * HOUR), now);
    if log.owes_upkeep() {
        keep_up(&mut log).await;
    }
    log.start()
}

#[test]
fn a_time_in_the_future_counts_as_that_of_the_append_after_a_restart_too() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut log = from_the_future(&dir).await;
        let closed = copy(&dir);
        log.retain(of_age(2 * HOUR), Timestamp(NOW.0 + 2 * HOUR_MS));
        assert!(!log.owes_upkeep());
        log.retain(of_age(2 * HOUR), Timestamp(NOW.0 + 3 * HOUR_MS));
        assert!(log.owes_upkeep());
        kill(log);
        assert_eq!(start_after(&closed, 2).await, Offset::ZERO);
        assert_eq!(start_after(&closed, 3).await, Offset::new(1));
    });
}

#[test]
fn where_the_time_of_the_append_was_lost_that_of_the_opening_counts() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        for _ in 0..2 {
            let batch = batch(&[i64::MAX], 900);
            log.append(batch, Timestamps::Create, NOW).unwrap();
        }
        // Killed before anything was flushed or noted.
        kill(log);
        assert_eq!(start_after(&dir, 10).await, Offset::ZERO);
        assert_eq!(start_after(&dir, 12).await, Offset::ZERO);
        assert_eq!(start_after(&dir, 13).await, Offset::new(1));
    });
}

#[test]
fn a_crash_between_any_two_steps_leaves_a_whole_log_and_the_next_opening_ends_it() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, batches) = filled(&dir, 20).await;
        let mut crashes = vec![copy(&dir)];
        log.retain(of_bytes(2000), NOW);
        let kept_up = log.upkeep().unwrap().run().await;
        crashes.push(copy(&dir));
        log.kept_up(kept_up).unwrap();
        let mut removal = log.removal().unwrap();
        let gone = removal.segments();
        assert!(gone > 2);
        while let Some(remains) = removal.next().await {
            // As after the first step of several.
            let cut = copy(&dir);
            let first = files(&cut, "log").remove(0);
            std::fs::File::options()
                .write(true)
                .open(first)
                .unwrap()
                .set_len(100)
                .unwrap();
            crashes.push(cut);
            remains.remove(|| true).await.unwrap();
            crashes.push(copy(&dir));
        }
        let start = log.start();
        kill(log);
        for (number, crashed) in crashes.iter().enumerate() {
            let (mut log, recovery) = open(crashed, SMALL).await;
            assert_eq!(recovery.cut_bytes, 0);
            let expected = if number == 0 { Offset::ZERO } else { start };
            assert_eq!(log.start(), expected, "crash {number}");
            assert_holds(&log, &after(&log, &batches)).await;
            remove(&mut log).await;
            let left = files(crashed, "log");
            assert!(left[0].ends_with(format!("{:020}.log", log.start().get())));
            assert_eq!(left.len(), log.segment_count());
            log.close().await.unwrap();
            let (log, _) = open(crashed, SMALL).await;
            assert_holds(&log, &after(&log, &batches)).await;
        }
    });
}

#[test]
fn a_read_of_a_segment_that_is_gone_ends_well_and_only_then_its_files_go() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, batches) = filled(&dir, 20).await;
        let read = log.read(Offset::ZERO, log.end(), usize::MAX >> 1);
        log.retain(of_bytes(1), NOW);
        keep_up(&mut log).await;
        let mut removal = log.removal().unwrap();
        let next = removal.next().now_or_never();
        assert!(next.is_none(), "the read looks at it");
        assert!(files(&dir, "log").len() > 2);
        let found = super::batches(read.run().await.unwrap());
        assert_eq!(all_bytes(&found), all_bytes(&batches));
        drop(read);
        let next = removal.next().now_or_never();
        let remains = next.expect("nobody does any more").unwrap();
        remains.remove(|| true).await.unwrap();
        while let Some(remains) = removal.next().await {
            remains.remove(|| true).await.unwrap();
        }
        assert_eq!(files(&dir, "log").len(), 1);
    });
}

#[test]
fn generations_below_the_start_are_forgotten_and_the_others_end_where_they_did() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        for _ in 1..6 {
            let (mut log, _) = open(&dir, SMALL).await;
            append(&mut log, 2, 200);
            append(&mut log, 2, 200);
            log.close().await.unwrap();
        }
        let (mut log, _) = open(&dir, SMALL).await;
        let end_of = |log: &Log, generation| log.generation_end(Generation::new(generation));
        let ends: Vec<_> = (1..6).map(|generation| end_of(&log, generation)).collect();
        log.retain(of_bytes(1000), NOW);
        keep_up(&mut log).await;
        let start = log.start();
        assert!(start > Offset::new(4));
        let check = |log: &Log| {
            for (generation, before) in (1..6).zip(&ends) {
                let (found, end) = before.unwrap();
                let end = end.max(start);
                assert_eq!(end_of(log, generation).unwrap(), (found, end));
            }
        };
        check(&log);
        log.close().await.unwrap();
        let (log, _) = open(&dir, SMALL).await;
        check(&log);
    });
}

#[test]
fn a_large_file_is_cut_down_in_steps_before_its_name_goes_and_a_closing_leaves_the_rest() {
    const STEP: u64 = 64 << 20;
    for is_cut_short in [false, true] {
        run(async move {
            let dir = tempfile::tempdir().unwrap();
            let (mut log, batches) = filled(&dir, 20).await;
            let first = files(&dir, "log").remove(0);
            // Holes take no space and are cut like anything else.
            let size = 2 * STEP + 1000;
            let file = std::fs::File::options().write(true).open(&first).unwrap();
            file.set_len(size).unwrap();
            log.retain(of_bytes(log_bytes(&dir) - size), NOW);
            keep_up(&mut log).await;
            let mut removal = log.removal().unwrap();
            let remains = removal.next().await.unwrap();
            let sizes = std::cell::RefCell::new(Vec::new());
            let is_wanted = || {
                let found = first.metadata().unwrap().len();
                sizes.borrow_mut().push(found);
                assert!(first.exists(), "its name goes last");
                for of_indexes in ["index", "timeindex"] {
                    let points_to_what_is_gone = first.with_extension(of_indexes).exists();
                    assert!(!points_to_what_is_gone, "{of_indexes}");
                }
                !is_cut_short
            };
            let freed = remains.remove(is_wanted).await.unwrap();
            if is_cut_short {
                assert_eq!((freed, sizes.take()), (STEP, vec![STEP + 1000]));
                assert!(first.exists());
                log.close().await.unwrap();
                let (mut log, _) = open(&dir, SMALL).await;
                assert_eq!(remove(&mut log).await, STEP + 1000);
                assert_holds(&log, &after(&log, &batches)).await;
            } else {
                assert_eq!((freed, sizes.take()), (size, vec![STEP + 1000, 1000, 0]));
            }
            assert!(!first.exists());
            assert!(!first.with_extension("index").exists());
        });
    }
}
