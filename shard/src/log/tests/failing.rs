//! What is left of a log that the disk fails.

use super::*;

#[test]
fn a_failed_write_poisons_the_log_until_it_is_opened_again() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        let kept = append(&mut log, 1, 700);
        flush(&mut log).await;
        // The next batch needs a new segment, whose place is taken.
        let taken = dir.path().join("00000000000000000001.log");
        std::fs::create_dir(&taken).unwrap();
        let failed = log.append(batch(&[5], 700), Timestamps::Append, NOW);
        let error = failed.unwrap_err();
        assert!(matches!(error, LogError::Disk { .. }), "{error}");
        assert!(
            error.to_string().contains("00000000000000000001.log"),
            "{error}"
        );
        std::fs::remove_dir(&taken).unwrap();
        let refused = log
            .append(batch(&[5], 10), Timestamps::Append, NOW)
            .unwrap_err();
        assert!(matches!(refused, LogError::Poisoned { .. }), "{refused}");
        assert_eq!(log.end(), Offset::new(1));
        assert!(log.flush().is_none());
        assert!(matches!(log.close().await, Err(LogError::Poisoned { .. })));
        assert!(dir.path().join("failed").exists());
        let (log, _) = open(&dir, SMALL).await;
        assert_holds(&log, &[kept]).await;
        assert!(!dir.path().join("failed").exists());
    });
}

#[test]
fn a_failed_flush_poisons_the_log_and_makes_nothing_durable() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let (here, away) = (root.path().join("here"), root.path().join("away"));
        let (mut log, _) = Log::open(&here, SMALL, restart()).await.unwrap();
        let batches = [append(&mut log, 1, 700), append(&mut log, 1, 700)];
        // The flush of a roll syncs the directory, which it does not find.
        std::fs::rename(&here, &away).unwrap();
        let result = log.flush().unwrap().run().await;
        assert!(result.is_err());
        assert!(matches!(log.flushed(result), Err(LogError::Disk { .. })));
        assert_eq!(log.durable_end(), Offset::ZERO);
        assert!(!log.is_unindexed());
        let refused = log
            .append(batch(&[5], 1), Timestamps::Append, NOW)
            .unwrap_err();
        assert!(
            refused.to_string().contains("takes nothing more"),
            "{refused}"
        );
        kill(log);
        let (log, _) = Log::open(&away, SMALL, restart()).await.unwrap();
        assert_holds(&log, &batches).await;
    });
}

#[test]
fn an_index_file_that_cannot_be_written_is_tried_again_and_the_log_goes_on() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        let mut batches = vec![append(&mut log, 1, 700), append(&mut log, 1, 700)];
        let flushed = log.flush().unwrap().run().await;
        log.flushed(flushed).unwrap();
        // Index files are replaced: a directory in their place cannot be.
        let taken = dir.path().join("00000000000000000000.index");
        std::fs::create_dir(&taken).unwrap();
        for _ in 0..2 {
            let result = log.upkeep().unwrap().run().await;
            assert!(matches!(log.kept_up(result), Err(LogError::Disk { .. })));
            assert_eq!(log.recovery_point(), Offset::ZERO, "nothing is claimed");
            assert!(log.is_unindexed());
            batches.push(append(&mut log, 1, 700));
            let flushed = log.flush().unwrap().run().await;
            log.flushed(flushed).unwrap();
            assert_eq!(log.durable_end(), log.end());
        }
        assert_holds(&log, &batches).await;
        assert!(!dir.path().join("failed").exists());
        assert!(files(&dir, "tmp").is_empty(), "no attempt leaves anything");
        std::fs::remove_dir(&taken).unwrap();
        let kept_up = log.upkeep().unwrap().run().await;
        log.kept_up(kept_up).unwrap();
        assert_eq!(log.recovery_point(), Offset::new(4));
        assert_eq!(files(&dir, "index").len(), 3);
        assert_holds(&log, &batches).await;
    });
}

#[test]
fn a_log_whose_index_files_cannot_be_written_is_not_closed_cleanly_and_loses_nothing() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        let batches = [append(&mut log, 1, 700), append(&mut log, 1, 700)];
        let taken = dir.path().join("00000000000000000000.index");
        std::fs::create_dir(&taken).unwrap();
        assert!(matches!(log.close().await, Err(LogError::Disk { .. })));
        assert!(!dir.path().join("failed").exists(), "it was flushed");
        std::fs::remove_dir(&taken).unwrap();
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!((recovery.scanned_batches, recovery.cut_bytes), (2, 0));
        assert_holds(&log, &batches).await;
    });
}

/// A log that failed to begin a new segment, with a batch in it that was not flushed before. What
/// has to go before it can be opened again.
async fn failed_roll(dir: &TempDir) -> (Log, PlacedBatch, PathBuf) {
    let (mut log, _) = open(dir, SMALL).await;
    let kept = append(&mut log, 1, 700);
    let taken = dir.path().join("00000000000000000001.log");
    std::fs::create_dir(&taken).unwrap();
    let failed = log.append(batch(&[5], 700), Timestamps::Append, NOW);
    assert!(matches!(failed, Err(LogError::Disk { .. })));
    (log, kept, taken)
}

#[test]
fn what_was_written_before_a_write_failed_is_still_flushed() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _, _) = failed_roll(&dir).await;
        assert!(log.dirty_bytes() > 0);
        let flushed = log.flush().unwrap().run().await;
        log.flushed(flushed).unwrap();
        assert_eq!((log.durable_end(), log.dirty_bytes()), (log.end(), 0));
        assert!(log.flush().is_none());
        let refused = log.append(batch(&[5], 1), Timestamps::Append, NOW);
        assert!(matches!(refused, Err(LogError::Poisoned { .. })));
        assert!(log.upkeep().is_none());
    });
}

#[test]
fn a_log_whose_write_failed_is_flushed_when_it_is_closed_and_claims_nothing_more() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (log, kept, taken) = failed_roll(&dir).await;
        let checkpoint = || std::fs::read(dir.path().join("checkpoint")).unwrap();
        let before = checkpoint();
        assert!(matches!(log.close().await, Err(LogError::Poisoned { .. })));
        assert!(checkpoint() == before);
        std::fs::remove_dir(&taken).unwrap();
        let (log, _) = open(&dir, SMALL).await;
        assert_holds(&log, &[kept]).await;
    });
}

#[test]
fn after_a_failed_flush_no_flush_is_asked_for_even_if_a_write_failed_before() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let (here, away) = (root.path().join("here"), root.path().join("away"));
        let (mut log, _) = Log::open(&here, SMALL, restart()).await.unwrap();
        append(&mut log, 1, 700);
        append(&mut log, 1, 700);
        // Neither a third segment can be made nor the directory be synced.
        std::fs::rename(&here, &away).unwrap();
        let failed = log.append(batch(&[5], 700), Timestamps::Append, NOW);
        assert!(failed.is_err());
        let result = log.flush().unwrap().run().await;
        assert!(log.flushed(result).is_err());
        assert!(log.dirty_bytes() > 0);
        assert!(!log.is_dirty());
        assert!(log.flush().is_none());
        assert_eq!(log.durable_end(), Offset::ZERO);
        assert!(matches!(log.close().await, Err(LogError::Poisoned { .. })));
    });
}
