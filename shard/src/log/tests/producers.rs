//! What a log knows of idempotent producers: over restarts and kills, with its snapshot and without.

use super::*;
use crate::disk::Calls;
use crate::log::apply::ApplyError;
use felix_core::producers::{Producers, Refusal, Verdict};
use proptest::prelude::*;
use std::path::Path;
use std::time::Duration;

const SNAPSHOT: &str = "producers";

fn of(id: i64, epoch: i16, first: i32, records: u32, value_bytes: usize) -> Batch {
    let mut builder = BatchBuilder::new().producer(id, epoch, first);
    for _ in 0..records {
        builder = builder.record(Timestamp(5), None, Some(&vec![7; value_bytes]));
    }
    Batch::parse(builder.build()).unwrap()
}

/// The bytes of a batch as another log has placed it.
fn placed(batch: Batch, base: u64, generation: Generation) -> Bytes {
    let place = Place {
        base_offset: Offset::new(base),
        generation,
        append_time: Some(NOW),
    };
    batch.place(place).bytes().clone()
}

fn judge(log: &Log, batch: &Batch) -> Result<Verdict, Refusal> {
    log.judge(batch.header())
}

async fn opened(dir: &Path) -> Log {
    Log::open(dir, SMALL, restart()).await.unwrap().0
}

fn same(one: &Log, other: &Log) -> bool {
    let known =
        |log: &Log, with: &mut dyn FnMut(&Producers)| log.with_producers(|table| with(table));
    let mut is_same = false;
    known(one, &mut |one| {
        known(other, &mut |other| is_same = one == other)
    });
    is_same
}

/// Opens a copy of the log with its snapshot, and another one without: both know the same, which is
/// returned; the first says whether it had one.
async fn both_openings(dir: &TempDir) -> (Log, bool) {
    let (with, without) = (copy(dir), copy(dir));
    let had = std::fs::remove_file(without.path().join(SNAPSHOT)).is_ok();
    let (with, without) = (opened(with.path()).await, opened(without.path()).await);
    assert!(same(&with, &without));
    (with, had)
}

#[derive(Clone, Debug)]
enum Step {
    Append {
        id: i64,
        records: u32,
        value_bytes: usize,
    },
    Epoch(i64),
    FlushOnly,
    Flush,
    Close,
    Kill,
    Promote,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => (0..5_i64, 1..4_u32, 0..200_usize).prop_map(|(id, records, value_bytes)| Step::Append { id, records, value_bytes }),
        1 => (0..5_i64).prop_map(Step::Epoch),
        2 => Just(Step::FlushOnly),
        3 => Just(Step::Flush),
        1 => Just(Step::Close),
        1 => Just(Step::Kill),
        1 => Just(Step::Promote),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn an_opening_knows_of_producers_what_was_known_before_with_a_snapshot_and_without(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        run(async move {
            let dir = tempfile::tempdir().unwrap();
            let mut log = opened(dir.path()).await;
            let mut next = [(0_i16, 0_i32); 5];
            for step in steps {
                match step {
                    Step::Append { id, records, value_bytes } => {
                        let (epoch, owed) = &mut next[usize::try_from(id).unwrap()];
                        let sent = of(id, *epoch, *owed, records, value_bytes);
                        *owed += records.cast_signed();
                        log.append(sent, Timestamps::Append, NOW).unwrap();
                    }
                    Step::Epoch(id) => {
                        let (epoch, owed) = &mut next[usize::try_from(id).unwrap()];
                        (*epoch, *owed) = (*epoch + 1, 0);
                    }
                    Step::FlushOnly => {
                        if let Some(flush) = log.flush() {
                            let flushed = flush.run().await;
                            log.flushed(flushed).unwrap();
                        }
                    }
                    Step::Flush => flush(&mut log).await,
                    Step::Close | Step::Kill | Step::Promote => {
                        let before = log.with_producers(|table| {
                            std::mem::replace(table, Producers::new(Offset::ZERO, 1))
                        });
                        // The log that ends here knows nobody any more, and writes none of that.
                        if matches!(step, Step::Close) {
                            log.with_producers(|table| *table = before);
                            let known = opened(copy(&dir).path()).await;
                            assert!(same(&log, &known));
                            log.close().await.unwrap();
                            log = opened(dir.path()).await;
                            assert!(same(&log, &known));
                        } else {
                            kill(log);
                            log = both_openings(&dir).await.0;
                            log.with_producers(|table| assert!(*table == before));
                            kill(log);
                            let opening = if matches!(step, Step::Kill) { restart() } else { promotion() };
                            log = Log::open(dir.path(), SMALL, opening).await.unwrap().0;
                            log.with_producers(|table| assert!(*table == before));
                        }
                    }
                }
            }
            let (opened, _) = both_openings(&dir).await;
            assert!(same(&opened, &log));
        });
    }
}

/// A log of several segments whose snapshot lies before its end, killed, and what was sent to it.
async fn killed_behind_its_snapshot(dir: &TempDir) -> Vec<(i32, PlacedBatch)> {
    let mut log = opened(dir.path()).await;
    let mut written = Vec::new();
    for number in 0..12 {
        let sent = of(9, 0, number * 2, 2, 100);
        written.push((
            number * 2,
            log.append(sent, Timestamps::Append, NOW).unwrap(),
        ));
        if number == 8 {
            flush(&mut log).await;
        }
    }
    kill(log);
    assert!(dir.path().join(SNAPSHOT).exists());
    written
}

fn assert_remembers(log: &Log, written: &[(i32, PlacedBatch)]) {
    for (first, batch) in written {
        let Ok(Verdict::Duplicate(landed)) = judge(log, &of(9, 0, *first, 2, 100)) else {
            panic!("{first} is forgotten");
        };
        assert_eq!(landed.base_offset, batch.base_offset());
        assert_eq!(landed.append_time, Some(batch.max_timestamp()));
    }
    let next = i32::try_from(written.len() * 2).unwrap();
    assert_eq!(judge(log, &of(9, 0, next, 1, 1)), Ok(Verdict::New));
}

#[test]
fn a_kill_forgets_no_batch_that_was_sent_before_it() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let written = killed_behind_its_snapshot(&dir).await;
        let (log, had_snapshot) = both_openings(&dir).await;
        assert!(had_snapshot);
        assert_remembers(&log, &written);
    });
}

#[test]
fn a_snapshot_that_is_damaged_or_cut_anywhere_does_no_harm() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let written = killed_behind_its_snapshot(&dir).await;
        let whole = std::fs::read(dir.path().join(SNAPSHOT)).unwrap();
        for at in (0..whole.len()).step_by(23) {
            for cut in [false, true] {
                let damaged = copy(&dir);
                let mut bytes = whole.clone();
                if cut {
                    bytes.truncate(at);
                } else {
                    bytes[at] ^= 0x10;
                }
                std::fs::write(damaged.path().join(SNAPSHOT), bytes).unwrap();
                let log = opened(damaged.path()).await;
                assert_remembers(&log, &written);
                kill(log);
                // It is whole again.
                let dir = Dir::open(damaged.path()).await.unwrap();
                let load = |calls: &Calls<'_>| table::load(calls, SNAPSHOT, *b"FLXP");
                let mended = dir.aside(load).await;
                assert!(mended.unwrap().is_some());
            }
        }
    });
}

#[test]
fn a_snapshot_of_another_log_end_than_there_is_is_not_believed() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let written = killed_behind_its_snapshot(&dir).await;
        // Of the same batches, and one more.
        let longer = copy(&dir);
        let mut log = opened(longer.path()).await;
        log.append(of(9, 0, 24, 2, 100), Timestamps::Append, NOW)
            .unwrap();
        log.close().await.unwrap();
        std::fs::copy(longer.path().join(SNAPSHOT), dir.path().join(SNAPSHOT)).unwrap();
        let log = opened(dir.path()).await;
        assert_remembers(&log, &written);
        kill(log);
        // Of batches that end elsewhere.
        let other = tempfile::tempdir().unwrap();
        let mut log = opened(other.path()).await;
        log.append(of(4, 0, 0, 3, 10), Timestamps::Append, NOW)
            .unwrap();
        log.close().await.unwrap();
        std::fs::copy(other.path().join(SNAPSHOT), dir.path().join(SNAPSHOT)).unwrap();
        let log = opened(dir.path()).await;
        assert_remembers(&log, &written);
        assert_eq!(judge(&log, &of(4, 0, 3, 1, 1)), Err(Refusal::Unknown));
    });
}

#[test]
fn a_snapshot_is_gone_before_a_log_that_was_cut_to_its_start_grows_to_its_end() {
    for has_checkpoint in [true, false] {
        run(async move {
            let dir = tempfile::tempdir().unwrap();
            let checkpoint = dir.path().join("checkpoint");
            let mut log = opened(dir.path()).await;
            let of_the_beginning = std::fs::read(&checkpoint).unwrap();
            for number in 0..4 {
                let sent = of(9, 0, number * 2, 2, 10);
                log.append(sent, Timestamps::Append, NOW).unwrap();
            }
            log.close().await.unwrap();
            assert!(dir.path().join(SNAPSHOT).exists());
            // All of it is lost but the snapshot.
            std::fs::write(&files(&dir, "log")[0], "").unwrap();
            if has_checkpoint {
                std::fs::write(&checkpoint, of_the_beginning).unwrap();
            } else {
                std::fs::remove_file(&checkpoint).unwrap();
            }
            let mut log = opened(dir.path()).await;
            assert_eq!(log.end(), Offset::ZERO);
            for number in 0..4 {
                let sent = of(4, 0, number * 2, 2, 10);
                log.append(sent, Timestamps::Append, NOW).unwrap();
            }
            kill(log);
            let log = opened(dir.path()).await;
            assert_eq!(log.end(), Offset::new(8), "where the snapshot ended");
            assert_eq!(judge(&log, &of(9, 0, 0, 2, 10)), Ok(Verdict::New));
            let again = judge(&log, &of(4, 0, 0, 2, 10));
            assert!(matches!(again, Ok(Verdict::Duplicate(_))), "{again:?}");
        });
    }
}

#[test]
fn after_a_clean_closing_no_header_is_read_for_the_producers() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        for number in 0..40 {
            let now = Timestamp(number.into());
            log.append(of(9, 0, number, 1, 300), Timestamps::Append, now)
                .unwrap();
        }
        log.close().await.unwrap();
        // The format of the second batch: whoever steps through the headers is told.
        let segment = &files(&dir, "log")[0];
        let bytes = std::fs::read(segment).unwrap();
        let mut rest = Bytes::from(bytes.clone());
        let first = PlacedBatch::split_from(&mut rest).unwrap();
        let mut bytes = bytes;
        bytes[first.bytes().len() + 16] ^= 1;
        std::fs::write(segment, bytes).unwrap();
        let (log, _) = open(&dir, LARGE).await;
        assert_eq!(judge(&log, &of(9, 0, 40, 1, 1)), Ok(Verdict::New));
        kill(log);
        std::fs::remove_file(dir.path().join(SNAPSHOT)).unwrap();
        let refused = Log::open(dir.path(), LARGE, restart()).await.unwrap_err();
        assert!(matches!(refused, LogError::Damaged { .. }), "{refused}");
    });
}

#[test]
fn a_snapshot_that_cannot_be_written_keeps_the_recovery_point_where_it_was() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut log = opened(dir.path()).await;
        // Nothing can be put in the place of a directory that is not empty.
        std::fs::create_dir(dir.path().join(SNAPSHOT)).unwrap();
        std::fs::write(dir.path().join(SNAPSHOT).join("in the way"), "").unwrap();
        for number in 0..8 {
            log.append(of(9, 0, number, 1, 300), Timestamps::Append, NOW)
                .unwrap();
        }
        let flushed = log.flush().unwrap().run().await;
        log.flushed(flushed).unwrap();
        let upkeep = log.upkeep().unwrap();
        let failed = upkeep.run().await;
        assert!(log.kept_up(failed).is_err());
        assert_eq!(log.recovery_point(), Offset::ZERO);
        std::fs::remove_dir_all(dir.path().join(SNAPSHOT)).unwrap();
        let upkeep = log.upkeep().unwrap();
        let written = upkeep.run().await;
        log.kept_up(written).unwrap();
        assert!(log.recovery_point() > Offset::ZERO);
        kill(log);
        let (log, _) = both_openings(&dir).await;
        assert_eq!(judge(&log, &of(9, 0, 8, 1, 1)), Ok(Verdict::New));
    });
}

#[test]
fn a_checkpoint_between_rolls_brings_a_snapshot_of_all_that_is_durable() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        for number in 0..6 {
            log.append(of(9, 0, number, 1, 300), Timestamps::Append, NOW)
                .unwrap();
            let flushed = log.flush().unwrap().run().await;
            log.flushed(flushed).unwrap();
            // One that is given up leaves nothing behind.
            drop(log.upkeep().unwrap());
            if number % 2 == 1 {
                let kept_up = log.upkeep().unwrap().run().await;
                log.kept_up(kept_up).unwrap();
                assert_eq!(log.recovery_point(), log.end());
                let dir = Dir::open(dir.path()).await.unwrap();
                let load = |calls: &Calls<'_>| table::load(calls, SNAPSHOT, *b"FLXP");
                let payload = dir.aside(load).await.unwrap().unwrap();
                assert_eq!(payload[..8], log.end().to_wire().to_be_bytes());
            }
        }
        kill(log);
        let (log, _) = open(&dir, LARGE).await;
        assert_eq!(judge(&log, &of(9, 0, 6, 1, 1)), Ok(Verdict::New));
    });
}

#[test]
fn batches_of_another_log_are_applied_and_move_what_is_known_without_being_judged() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut log = opened(dir.path()).await;
        let generation = log.generation();
        // From near the greatest sequence on, as no client could begin.
        let near = i32::MAX - 6;
        let bytes = [
            placed(of(9, 3, near, 5, 10), 0, generation),
            placed(batch(&[1, 2], 10), 5, generation),
            placed(of(9, 3, near + 5, 4, 10), 7, generation),
        ];
        let applied = log.apply(bytes.concat().into(), NOW).unwrap();
        assert_eq!(applied.len(), 3);
        assert_eq!(log.end(), Offset::new(11));
        for log in [log, opened(copy(&dir).path()).await] {
            // Claim 192: on from 0, and known from the other side.
            assert_eq!(judge(&log, &of(9, 3, 2, 1, 10)), Ok(Verdict::New));
            for (first, records, base) in [(near, 5, 0), (near + 5, 4, 7)] {
                let again = judge(&log, &of(9, 3, first, records, 10));
                let Ok(Verdict::Duplicate(landed)) = again else {
                    panic!("{again:?}")
                };
                assert_eq!(landed.base_offset, Offset::new(base));
                assert_eq!(landed.append_time, Some(NOW));
            }
        }
    });
}

#[test]
fn what_is_applied_was_appended_now_whatever_time_its_records_carry() {
    const HOUR: Duration = Duration::from_secs(3600);
    for time in [i64::MIN, -1, 0, NOW.0 + 1_000_000] {
        run(async move {
            let dir = tempfile::tempdir().unwrap();
            let mut log = opened(dir.path()).await;
            let record = BatchBuilder::new().record(Timestamp(time.max(-1)), None, Some(b"x"));
            let place = Place {
                base_offset: Offset::ZERO,
                generation: log.generation(),
                append_time: (time == i64::MIN).then_some(Timestamp(time)),
            };
            let batch = Batch::parse(record.build()).unwrap().place(place);
            log.apply(batch.bytes().clone(), NOW).unwrap();
            assert_eq!(log.roll_due(HOUR, NOW), Some(HOUR), "{time}");
            drop(log);
            // Without the checkpoint the time in its header is all that tells of an append.
            let log = opened(copy(&dir).path()).await;
            let expected = if time == i64::MIN {
                Duration::ZERO
            } else {
                HOUR
            };
            assert_eq!(log.roll_due(HOUR, NOW), Some(expected), "{time}");
        });
    }
}

#[test]
fn what_does_not_follow_is_not_applied_and_nothing_before_it_either() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut log = opened(dir.path()).await;
        let generation = log.generation();
        let good = placed(of(9, 0, 0, 2, 10), 0, generation);
        let mut refused = |second: Bytes| {
            let error = log
                .apply([good.clone(), second].concat().into(), NOW)
                .unwrap_err();
            assert_eq!(log.end(), Offset::ZERO);
            error
        };
        let gap = refused(placed(of(9, 0, 2, 1, 10), 3, generation));
        assert!(matches!(gap, ApplyError::Gap { .. }), "{gap}");
        let lower = refused(placed(of(9, 0, 2, 1, 10), 2, Generation::new(0)));
        assert!(matches!(lower, ApplyError::Generation { .. }), "{lower}");
        let later = refused(placed(of(9, 0, 2, 1, 10), 2, Generation::new(9)));
        assert!(matches!(later, ApplyError::Generation { .. }), "{later}");
        let mut flipped = placed(of(9, 0, 2, 1, 10), 2, generation).to_vec();
        *flipped.last_mut().unwrap() ^= 1;
        let flipped = refused(flipped.into());
        assert!(matches!(flipped, ApplyError::Batch(_)), "{flipped}");
        let short = refused(good.slice(..70));
        assert!(matches!(short, ApplyError::Batch(_)), "{short}");
        log.apply(good.clone(), NOW).unwrap();
        assert_eq!(log.end(), Offset::new(2));
    });
}
