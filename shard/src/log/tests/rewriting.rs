//! What an opening writes once more after a write or a flush had failed.

use super::*;
use crate::disk::memory::Faults;
use crate::log::poison::Distrust;
use crate::runtime::simulated::Simulation;
use felix_core::Retention;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The file on the device that each segment is.
fn inodes(dir: &TempDir) -> Vec<u64> {
    let segments = files(dir, "log");
    segments
        .iter()
        .map(|path| path.metadata().unwrap().ino())
        .collect()
}

/// A log of four segments, of which the first two are below the recovery point, that was killed
/// after a failure.
async fn failed() -> (TempDir, Vec<PlacedBatch>) {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(&dir, SMALL).await;
    let mut batches = vec![append(&mut log, 1, 700), append(&mut log, 1, 700)];
    flush(&mut log).await;
    // The second is not full, so that only the first had its indexes written.
    batches.push(append(&mut log, 1, 700));
    flush(&mut log).await;
    assert_eq!(log.recovery_point(), Offset::new(3));
    batches.push(append(&mut log, 1, 700));
    batches.push(append(&mut log, 1, 100));
    batches.push(append(&mut log, 1, 700));
    kill(log);
    std::fs::write(dir.path().join("failed"), "").unwrap();
    (dir, batches)
}

#[test]
fn after_a_failure_what_is_in_doubt_lies_in_new_files_and_what_was_durable_in_the_old() {
    run(async {
        let (dir, batches) = failed().await;
        let before = inodes(&dir);
        assert_eq!(before.len(), 5);
        let (log, recovery) = open(&dir, SMALL).await;
        let after = inodes(&dir);
        assert_eq!(recovery.cut_bytes, 0);
        assert_eq!(after[..2], before[..2], "taken on trust");
        // The third ends at the recovery point, and has no indexes to be trusted for.
        for (number, inode) in after.iter().enumerate().skip(2) {
            assert_ne!(*inode, before[number], "segment {number} is in doubt");
        }
        assert_holds(&log, &batches).await;
        assert!(!dir.path().join("failed").exists());
        assert!(files(&dir, "tmp").is_empty());
        // They are opened by these paths whenever they were closed.
        assert!(
            log.segments
                .iter()
                .all(|segment| segment.log().path().is_file())
        );
        kill(log);
        let again = inodes(&dir);
        assert_holds(&open(&dir, SMALL).await.0, &batches).await;
        assert_eq!(inodes(&dir), again, "once is enough");
    });
}

#[test]
fn a_segment_that_holds_the_recovery_point_is_written_once_more_as_a_whole() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        let mut batches = vec![append(&mut log, 2, 30)];
        log.close().await.unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        batches.push(append(&mut log, 1, 30));
        kill(log);
        std::fs::write(dir.path().join("failed"), "").unwrap();
        let before = inodes(&dir);
        let (mut log, _) = open(&dir, LARGE).await;
        assert_ne!(inodes(&dir), before);
        batches.push(append(&mut log, 1, 30));
        flush(&mut log).await;
        assert_holds(&log, &batches).await;
    });
}

#[test]
fn an_opening_that_was_killed_while_it_wrote_once_more_is_begun_again_by_the_next() {
    run(async {
        let (dir, batches) = failed().await;
        let crashed = copy(&dir);
        kill(open(&dir, SMALL).await.0);
        let [old, new] = [&crashed, &dir].map(|dir| files(dir, "log"));
        // As a kill leaves it: some segments are the new ones, one is half written beside the old.
        for replaced in 0..old.len() {
            let state = copy(&crashed);
            for path in &new[..replaced] {
                let name = path.file_name().unwrap();
                std::fs::copy(path, state.path().join(name)).unwrap();
            }
            let half = std::fs::read(&old[replaced]).unwrap();
            let name = old[replaced].file_name().unwrap().to_str().unwrap();
            let beside = state.path().join(format!("{name}.new.tmp"));
            std::fs::write(beside, &half[..half.len() / 2]).unwrap();
            let (log, recovery) = open(&state, SMALL).await;
            assert_eq!(recovery.cut_bytes, 0);
            assert_holds(&log, &batches).await;
            assert!(files(&state, "tmp").is_empty());
            assert!(!state.path().join("failed").exists());
        }
    });
}

#[test]
fn what_is_not_whole_after_a_failure_is_left_out_of_the_new_file_and_counted() {
    run(async {
        let (dir, batches) = failed().await;
        let torn = &files(&dir, "log")[3];
        let bytes = std::fs::read(torn).unwrap();
        // The second batch of the segment is torn, and a segment follows it.
        let kept = batches[3].bytes().len();
        std::fs::write(torn, &bytes[..kept + 70]).unwrap();
        let follows = std::fs::read(&files(&dir, "log")[4]).unwrap();
        // Zeros at an end hold no record and do not count.
        let counted = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
        let lost = counted(&bytes[kept..kept + 70]) + counted(&follows);
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!(recovery.cut_bytes, lost);
        assert_holds(&log, &batches[..4]).await;
        let left = std::fs::metadata(torn).unwrap().len();
        assert_eq!(left, kept as u64);
    });
}

#[test]
fn damage_below_the_recovery_point_leaves_every_file_as_it_was_after_a_failure_too() {
    run(async {
        let (dir, _) = failed().await;
        let segments = files(&dir, "log");
        std::fs::remove_file(&segments[1]).unwrap();
        let before = inodes(&dir);
        let error = Log::open(dir.path(), SMALL, restart()).await.unwrap_err();
        assert!(matches!(error, LogError::Damaged { .. }), "{error}");
        assert_eq!(inodes(&dir), before);
        assert!(dir.path().join("failed").exists(), "it is not mended");
    });
}

#[test]
fn a_checkpoint_whose_name_was_not_synced_is_written_again_before_anything_relies_on_it() {
    let simulation = Simulation::new(1);
    let disk = Rc::clone(simulation.disk());
    let retention = Retention {
        bytes: NonZeroU64::new(1),
        age: None,
    };
    let opened = || async {
        let opened = Log::open(Path::new("/log"), SMALL, restart()).await;
        opened.unwrap().0
    };
    let failing = Rc::clone(&disk);
    let batches = simulation.run(async move {
        let mut log = opened().await;
        let batches: Vec<_> = (0..9).map(|_| append(&mut log, 2, 120)).collect();
        flush(&mut log).await;
        log.retain(retention, NOW);
        failing.set_faults(Faults {
            sync: 10_000,
            ..Faults::default()
        });
        let checkpoint = log.checkpoint(log.durable_end());
        let error = checkpoint.save(&log.dir).await.unwrap_err();
        assert!(error.is_failed_sync());
        let _ = log.poison(error, Distrust::Flushes);
        kill(log);
        failing.set_faults(Faults::default());
        let mut log = opened().await;
        assert!(log.start() > Offset::ZERO, "as the page cache has it");
        let mut removal = log.removal().unwrap();
        while let Some(remains) = removal.next().await {
            remains.remove(|| true).await.unwrap();
        }
        Dir::open(Path::new("/log"))
            .await
            .unwrap()
            .sync()
            .await
            .unwrap();
        batches
    });
    disk.lose_power();
    simulation.run(async move {
        let log = opened().await;
        let kept = batches.into_iter();
        let kept: Vec<_> = kept
            .filter(|batch| batch.base_offset() >= log.start())
            .collect();
        assert_holds(&log, &kept).await;
    });
}
