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
        assert!(files(&dir, "tmp").is_empty());
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
        log.failure_note().unwrap().leave().await;
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

#[test]
fn an_opening_that_is_refused_leaves_nothing_of_what_it_wrote_once_more() {
    run(async {
        let (dir, _) = failed().await;
        let torn = &files(&dir, "log")[2];
        // It ends at the recovery point, and is written once more for want of indexes.
        let bytes = std::fs::read(torn).unwrap();
        std::fs::write(torn, &bytes[..bytes.len() - 1]).unwrap();
        let error = Log::open(dir.path(), SMALL, restart()).await.unwrap_err();
        assert!(matches!(error, LogError::Damaged { .. }), "{error}");
        assert!(files(&dir, "tmp").is_empty());
    });
}

const DIR: &str = "/log";

/// A log in memory whose segment is in doubt, and the bytes of its file.
async fn in_doubt() -> (Vec<PlacedBatch>, usize) {
    let (mut log, _) = Log::open(Path::new(DIR), LARGE, restart()).await.unwrap();
    let batches: Vec<_> = (0..50).map(|_| append(&mut log, 1, 1000)).collect();
    flush(&mut log).await;
    let bytes = usize::try_from(log.last().bytes()).unwrap();
    kill(log);
    (batches, bytes)
}

async fn open_in_doubt(kept_free_bytes: u64) -> Result<Log, LogError> {
    let opening = Opening {
        failed: true,
        kept_free_bytes,
        ..restart()
    };
    let opened = Log::open(Path::new(DIR), LARGE, opening).await;
    opened.map(|(log, _)| log)
}

/// All names but those of the small files.
async fn large_files() -> Vec<String> {
    let dir = Dir::open(Path::new(DIR)).await.unwrap();
    let names = [".log", ".log.new.tmp"].map(|ending| format!("{:020}{ending}", 0));
    let is_there = |name: &String| dir.size_of(name).unwrap().is_some();
    names.into_iter().filter(is_there).collect()
}

#[test]
fn nothing_is_written_once_more_into_space_that_is_kept_free() {
    let simulation = Simulation::new(2);
    let disk = Rc::clone(simulation.disk());
    simulation.run(async move {
        let (batches, bytes) = in_doubt().await;
        let used = disk.bytes();
        disk.set_faults(Faults {
            capacity: Some(used + bytes + 500),
            ..Faults::default()
        });
        let error = open_in_doubt(501).await.unwrap_err();
        let LogError::NoRoomToRewrite { spare_bytes, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*spare_bytes, Some(bytes as u64 - 1));
        assert!(!error.is_full(), "the reserve is not for this");
        assert!(error.may_pass());
        assert_eq!(large_files().await, [format!("{:020}.log", 0)]);
        assert_eq!(disk.bytes(), used, "nothing was tried");
        assert_holds(&open_in_doubt(500).await.unwrap(), &batches).await;
    });
}

#[test]
fn a_disk_that_fails_while_a_segment_is_written_once_more_has_nothing_of_it_afterwards() {
    let faults = Faults {
        write: 500,
        flush: 2000,
        ..Faults::default()
    };
    let mut failures = 0;
    for seed in 0..100 {
        let simulation = Simulation::new(seed);
        let disk = Rc::clone(simulation.disk());
        failures += simulation.run(async move {
            let (batches, _) = in_doubt().await;
            disk.set_faults(faults);
            let opened = open_in_doubt(0).await;
            disk.set_faults(Faults::default());
            assert_eq!(large_files().await, [format!("{:020}.log", 0)]);
            let failed = u32::from(opened.is_err());
            drop(opened);
            assert_holds(&open_in_doubt(0).await.unwrap(), &batches).await;
            failed
        });
    }
    assert!(failures > 50, "{failures}");
}

#[test]
fn what_runs_out_of_space_while_it_is_written_once_more_leaves_the_reserve_alone() {
    let simulation = Simulation::new(3);
    let disk = Rc::clone(simulation.disk());
    simulation.run(async move {
        let (batches, bytes) = in_doubt().await;
        disk.set_faults(Faults {
            capacity: Some(disk.bytes() + bytes),
            ..Faults::default()
        });
        let taking = Rc::clone(&disk);
        let other = crate::runtime::spawn_local(async move {
            while large_files().await.len() < 2 {
                crate::runtime::breathe().await;
            }
            // Somebody else has it.
            taking.set_faults(Faults {
                capacity: Some(taking.bytes()),
                ..Faults::default()
            });
        });
        let error = open_in_doubt(0).await.unwrap_err();
        other.join().await;
        assert!(matches!(error, LogError::NoRoomToRewrite { .. }), "{error}");
        assert!(!error.is_full() && !error.leaves_doubt());
        assert_eq!(large_files().await.len(), 1);
        disk.set_faults(Faults::default());
        assert_holds(&open_in_doubt(0).await.unwrap(), &batches).await;
    });
}
