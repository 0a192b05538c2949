//! Recovery points between rolls, and openings that believe nothing.

use super::*;

#[test]
fn inside_the_segment_that_grows_damage_is_fatal_below_the_recovery_point_and_cut_above_it() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        let mut batches: Vec<_> = (0..3).map(|_| append(&mut log, 2, 50)).collect();
        flush(&mut log).await;
        assert!(log.is_behind());
        keep_up(&mut log).await;
        assert_eq!(log.recovery_point(), Offset::new(6));
        assert!(!log.is_behind());
        assert!(log.upkeep().is_none(), "nothing is owed");
        batches.extend((0..3).map(|_| append(&mut log, 2, 50)));
        flush(&mut log).await;
        kill(log);
        let mut position = 0;
        for (number, batch) in batches.iter().enumerate() {
            let damaged = copy(&dir);
            let path = files(&damaged, "log").remove(0);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[position + 70] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            match Log::open(damaged.path(), LARGE, restart()).await {
                Ok((log, recovery)) => {
                    assert!(number >= 3, "batch {number} was durable");
                    assert!(recovery.cut_bytes > 0);
                    assert_holds(&log, &batches[..number]).await;
                }
                Err(error) => {
                    assert!(number < 3, "{error}");
                    let sentence = error.to_string();
                    let place = format!("00000000000000000000.log is damaged at byte {position}:");
                    assert!(sentence.contains(&place), "{sentence}");
                    let shard = damaged.path().display().to_string();
                    assert!(sentence.starts_with(&shard), "{sentence}");
                }
            }
            position += batch.bytes().len();
        }
        assert_eq!(position, 6 * batches[0].bytes().len());
    });
}

#[test]
fn a_log_cut_below_a_recovery_point_inside_its_last_segment_is_refused() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        let first = append(&mut log, 1, 50);
        append(&mut log, 1, 50);
        flush(&mut log).await;
        keep_up(&mut log).await;
        kill(log);
        let path = files(&dir, "log").remove(0);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..first.bytes().len()]).unwrap();
        let error = Log::open(dir.path(), LARGE, restart()).await.unwrap_err();
        let LogError::Damaged { fault, .. } = &error else {
            panic!("{error}")
        };
        let expected = Fault::EndsEarly {
            end: Offset::new(1),
            recovery_point: Offset::new(2),
        };
        assert_eq!(fault, &expected);
        std::fs::write(&path, bytes).unwrap();
        let (log, _) = open(&dir, LARGE).await;
        assert_eq!(log.end(), Offset::new(2));
    });
}

#[test]
fn a_log_that_is_only_flushed_is_owed_a_checkpoint_once_much_lies_above_the_recovery_point() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let config = LogConfig {
            segment_bytes_max: 1 << 30,
            ..LARGE
        };
        let (mut log, _) = open(&dir, config).await;
        for _ in 0..9 {
            assert!(!log.owes_upkeep());
            append(&mut log, 1, 7_500_000);
            let flushed = log.flush().unwrap().run().await;
            log.flushed(flushed).unwrap();
        }
        assert!(log.owes_upkeep());
        keep_up(&mut log).await;
        assert!(!log.owes_upkeep());
        assert_eq!(log.recovery_point(), log.end());
    });
}

#[test]
fn an_upkeep_that_fails_changes_nothing_and_is_tried_again() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        append(&mut log, 1, 50);
        flush(&mut log).await;
        let path = dir.path().join("checkpoint");
        let before = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let failed = log.upkeep().unwrap().run().await;
        assert!(log.kept_up(failed).is_err());
        assert_eq!(log.recovery_point(), Offset::ZERO);
        append(&mut log, 1, 50);
        flush(&mut log).await;
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, before).unwrap();
        keep_up(&mut log).await;
        assert_eq!(log.recovery_point(), Offset::new(2));
    });
}

#[test]
fn an_opening_that_verifies_finds_damage_that_others_take_on_trust() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        for time in 0..12 {
            let batch = batch(&[NOW.0 + time], 200);
            log.append(batch, Timestamps::Create, NOW).unwrap();
        }
        log.close().await.unwrap();
        let verifying = Opening {
            verify: true,
            ..restart()
        };
        let whole = copy(&dir);
        let (_, recovery) = open(&whole, SMALL).await;
        assert!(recovery.scanned_batches < 12);
        let (log, recovery) = Log::open(whole.path(), SMALL, verifying).await.unwrap();
        assert_eq!(recovery.scanned_batches, 12);
        assert_eq!(recovery.rebuilt_indexes, 0);
        drop(log);
        let path = files(&dir, "log").remove(0);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[70] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        open(&copy(&dir), SMALL).await;
        let error = Log::open(dir.path(), SMALL, verifying).await.unwrap_err();
        assert!(
            error.to_string().contains(".log is damaged at byte 0:"),
            "{error}"
        );
    });
}
