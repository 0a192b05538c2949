//! The segment that grows is sealed for its age, which a restart does not begin anew.

use super::*;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: i64 = 3_600_000;

fn after(hours: i64) -> Timestamp {
    Timestamp(NOW.0 + hours * HOUR_MS)
}

async fn open_at(dir: &TempDir, now: Timestamp) -> Log {
    let opening = Opening { now, ..restart() };
    Log::open(dir.path(), LARGE, opening).await.unwrap().0
}

fn append_at(log: &mut Log, timestamps: Timestamps, now: Timestamp) {
    // Of long ago, by the producer's clock.
    log.append(batch(&[5], 100), timestamps, now).unwrap();
}

#[test]
fn the_age_of_a_segment_counts_from_its_first_batch_and_one_without_a_batch_has_none() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open_at(&dir, NOW).await;
        assert_eq!(log.roll_due(HOUR, after(99)), None);
        assert!(!log.roll_if_due(HOUR, after(99)));
        append_at(&mut log, Timestamps::Create, after(1));
        append_at(&mut log, Timestamps::Create, after(3));
        assert_eq!(log.roll_due(4 * HOUR, after(3)), Some(2 * HOUR));
        assert!(!log.roll_if_due(4 * HOUR, after(4)));
        assert_eq!(log.roll_due(4 * HOUR, after(5)), Some(Duration::ZERO));
        assert!(!log.roll_if_due(4 * HOUR, after(5)), "the next is not made");
        assert!(log.making_next_for_age(4 * HOUR, after(4)).is_none());
        let making = log.making_next_for_age(4 * HOUR, after(5)).unwrap();
        assert_eq!(making.bytes(), 0);
        log.made_next(making.run().await.unwrap());
        assert!(log.roll_if_due(4 * HOUR, after(5)));
        assert_eq!((log.segment_count(), log.sealed()), (2, 1));
        assert_eq!(log.roll_due(HOUR, after(99)), None, "the next is empty");
        let retention = felix_core::Retention {
            bytes: None,
            age: Some(HOUR),
        };
        log.retain(retention, after(9));
        assert!(!log.owes_upkeep(), "no flush has seen it sealed");
        flush(&mut log).await;
        log.retain(
            felix_core::Retention {
                bytes: None,
                age: Some(HOUR),
            },
            after(9),
        );
        keep_up(&mut log).await;
        assert_eq!((log.start(), log.segment_count()), (Offset::new(2), 1));
        append_at(&mut log, Timestamps::Create, after(9));
        assert_eq!(log.roll_due(4 * HOUR, after(10)), Some(3 * HOUR));
        log.close().await.unwrap();
        let log = open_at(&dir, after(11)).await;
        assert_eq!((log.start(), log.end()), (Offset::new(2), Offset::new(3)));
    });
}

#[test]
fn a_restart_does_not_begin_it_anew() {
    for timestamps in [Timestamps::Append, Timestamps::Create] {
        for is_closed in [true, false] {
            run(async move {
                let dir = tempfile::tempdir().unwrap();
                let mut log = open_at(&dir, NOW).await;
                append_at(&mut log, timestamps, after(1));
                append_at(&mut log, timestamps, after(2));
                flush(&mut log).await;
                if is_closed {
                    log.close().await.unwrap();
                } else {
                    // As a minute after it became quiet.
                    keep_up(&mut log).await;
                    kill(log);
                }
                for opened in [10, 11] {
                    let mut log = open_at(&dir, after(opened)).await;
                    let left = HOUR * u32::try_from(21 - opened).unwrap();
                    assert_eq!(log.roll_due(20 * HOUR, after(opened)), Some(left));
                    append_at(&mut log, timestamps, after(opened));
                    kill(log);
                }
            });
        }
    }
}

#[test]
fn where_the_time_of_the_first_batch_was_lost_that_of_the_opening_counts() {
    for (timestamps, left) in [(Timestamps::Append, 11), (Timestamps::Create, 20)] {
        run(async move {
            let dir = tempfile::tempdir().unwrap();
            let mut log = open_at(&dir, NOW).await;
            append_at(&mut log, timestamps, after(1));
            // Killed before anything was flushed or noted.
            kill(log);
            let log = open_at(&dir, after(10)).await;
            let due = |log: &Log, hours| log.roll_due(20 * HOUR, after(hours));
            assert_eq!(due(&log, 10), Some(HOUR * left));
            kill(log);
            // From then on it is noted.
            let log = open_at(&dir, after(12)).await;
            assert_eq!(due(&log, 12), Some(HOUR * (left - 2)));
        });
    }
}

#[test]
fn a_clock_that_was_ahead_does_not_keep_a_segment_open() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open_at(&dir, NOW).await;
        append_at(&mut log, Timestamps::Create, after(9000));
        assert_eq!(log.roll_due(2 * HOUR, after(1)), Some(2 * HOUR));
        assert_eq!(log.roll_due(2 * HOUR, after(2)), Some(HOUR));
    });
}
