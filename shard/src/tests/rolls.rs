//! What a roll promises where nothing else asks for a flush.

use super::{Rig, batch, large_batch, records, run, run_in};
use felix_core::Durability;
use std::path::{Path, PathBuf};

const SEGMENT_BYTES: u64 = 64 << 10;

fn directory(root: &Path, rig: Rig) -> PathBuf {
    rig.specs(root).remove(0).directory
}

/// The recovery point as the checkpoint says it (`docs/log-format.md`).
fn recovery_point(root: &Path, rig: Rig) -> u64 {
    let checkpoint = std::fs::read(directory(root, rig).join("checkpoint")).unwrap();
    u64::from_be_bytes(checkpoint[8..16].try_into().unwrap())
}

/// Files of the only shard, by ending.
fn files(root: &Path, rig: Rig, ending: &str) -> usize {
    let entries = std::fs::read_dir(directory(root, rig)).unwrap();
    entries
        .filter(|entry| {
            let path = entry.as_ref().unwrap().path();
            path.extension().is_some_and(|found| found == ending)
        })
        .count()
}

#[test]
fn a_shard_that_is_never_flushed_is_flushed_once_after_each_roll() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_owned();
    let rig = Rig {
        segment_bytes_max: SEGMENT_BYTES,
        ..Rig::new(1, Durability::None)
    };
    run_in(&root, rig, move |bench| {
        let path = path.clone();
        async move {
            let syncs = || bench.metric("felix_storage_sync_total");
            let unsynced = || bench.metric("felix_storage_unsynced_bytes");
            let begin = syncs();
            bench.append(0, large_batch(40 << 10)).await.unwrap();
            for roll in 1..=5 {
                // The rest of the segment takes these, and nobody asks for their flush.
                for _ in 0..3 {
                    bench.append(0, large_batch(1 << 10)).await.unwrap();
                }
                assert!(unsynced() > 0);
                assert_eq!(syncs(), begin + roll - 1, "nothing rolled since");
                bench.append(0, large_batch(40 << 10)).await.unwrap();
                bench.until("the flush", || unsynced() == 0).await;
                assert_eq!(syncs(), begin + roll, "one flush for one roll");
                let rolls = usize::try_from(roll).unwrap();
                assert_eq!(files(&path, rig, "log"), rolls + 1);
                let written = 1 + 4 * u64::try_from(roll).unwrap();
                let is_claimed = || recovery_point(&path, rig) == written;
                bench.until("the checkpoint", is_claimed).await;
                assert_eq!(files(&path, rig, "index"), rolls, "the indexes are written");
            }
        }
    });
}

#[test]
fn full_segments_get_their_indexes_after_the_commit_and_at_the_latest_at_the_close() {
    for durability in [Durability::OnCommit, Durability::Periodic] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().to_owned();
        let rig = Rig {
            segment_bytes_max: SEGMENT_BYTES,
            ..Rig::new(1, durability)
        };
        run_in(&root, rig, move |bench| {
            let path = path.clone();
            async move {
                for _ in 0..3 {
                    bench.append(0, large_batch(40 << 10)).await.unwrap();
                }
                let are_there = || files(&path, rig, "index") == 2;
                bench.until("the indexes", are_there).await;
                // Closed with what these leave behind.
                for _ in 0..3 {
                    bench.append(0, large_batch(40 << 10)).await.unwrap();
                }
            }
        });
        assert_eq!(files(root.path(), rig, "log"), 6);
        assert_eq!(files(root.path(), rig, "index"), 6);
        assert_eq!(recovery_point(root.path(), rig), 6);
    }
}

#[test]
fn shards_that_nobody_uses_have_no_file_open_and_one_that_is_written_to_has_its_own() {
    let root = tempfile::tempdir().unwrap();
    let rig = Rig {
        shards: 60,
        ..Rig::new(1, Durability::OnCommit)
    };
    for opening in 0..2 {
        run_in(&root, rig, move |bench| async move {
            let open_files = || bench.metric("felix_storage_open_files");
            assert_eq!(open_files(), 0);
            for shard in 0..10 {
                bench.append(shard, batch(&["x"])).await.unwrap();
                assert_eq!(bench.read(shard, opening).await.unwrap().log_start.get(), 0);
            }
            assert_eq!(open_files(), 10);
        });
    }
}

#[test]
fn a_log_of_many_segments_is_read_with_few_open_files() {
    for durability in [Durability::OnCommit, Durability::Periodic] {
        let rig = Rig {
            segment_bytes_max: 300,
            tail_bytes_max: 0,
            files_max: 6,
            ..Rig::new(1, durability)
        };
        run(rig, move |bench| async move {
            const BATCHES: u32 = 120;
            for number in 0..BATCHES {
                let value = format!("{number:0200}");
                bench.append(0, batch(&[&value])).await.unwrap();
            }
            let clean = || bench.metric("felix_storage_unsynced_bytes") == 0;
            bench.until("the flushes", clean).await;
            let few = || bench.metric("felix_storage_open_files") <= 6 + 2;
            for number in (0..BATCHES).rev().step_by(7).chain(0..BATCHES) {
                let read = bench.read(0, u64::from(number)).await.unwrap();
                let first = records(&read).into_iter().next().unwrap();
                assert_eq!(first.0, u64::from(number));
                assert_eq!(first.1, format!("{number:0200}"));
            }
            for _ in 0..8 {
                bench.append(0, batch(&[&"x".repeat(200)])).await.unwrap();
            }
            bench.until("few files to be open", few).await;
        });
    }
}
