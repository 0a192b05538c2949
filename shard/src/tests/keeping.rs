//! What a core does for its logs beside flushes: checkpoints between rolls, retention, and openings
//! that hold up nobody.

use super::simulated::life;
use super::{Rig, batch, large_batch, run_in};
use crate::disk::Dir;
use crate::log::{Log, OpenReason, Opening};
use crate::runtime;
use crate::runtime::simulated::Simulation;
use felix_core::batch::BatchBuilder;
use felix_core::shards::{Acks, Append, Fetch, FetchPart, ShardState};
use felix_core::{Batch, Durability, Offset, Retention, ShardError, ShardId, Shards, Timestamp};
use std::cell::Cell;
use std::num::NonZeroU64;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const SEGMENT_BYTES: u64 = 64 << 10;

fn of_bytes(segments: u64) -> Retention {
    Retention {
        bytes: NonZeroU64::new(segments * SEGMENT_BYTES),
        age: None,
    }
}

fn log_files(path: &Path, rig: Rig) -> Vec<String> {
    let directory = rig.specs(path).remove(0).directory;
    let names = std::fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".log")).collect()
}

#[test]
fn by_bytes_the_head_of_a_log_goes_as_it_rolls_and_clients_are_told() {
    for durability in [Durability::None, Durability::Periodic, Durability::OnCommit] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().to_owned();
        let rig = Rig {
            segment_bytes_max: SEGMENT_BYTES,
            retention: of_bytes(2),
            ..Rig::new(1, durability)
        };
        run_in(&root, rig, move |bench| {
            let path = path.clone();
            async move {
                for _ in 0..12 {
                    let appended = bench.append(0, large_batch(40 << 10)).await.unwrap();
                    assert!(appended.log_start <= appended.base_offset);
                }
                // 40 KiB a segment: four of them are 128 KiB and more without the one before them.
                let start = || bench.metric("felix_storage_retention_base_offset");
                bench.until("the start", || start() == 8).await;
                let gone = || bench.metric("felix_storage_retention_segments_deleted_total");
                assert_eq!(gone(), 8);
                let reclaimed = || bench.metric("felix_storage_retention_bytes_reclaimed_total");
                bench
                    .until("the space", || reclaimed() >= 8 * (40 << 10))
                    .await;
                bench
                    .until("the files", || log_files(&path, rig).len() == 4)
                    .await;
                let refused = bench.read(0, 7).await.unwrap_err();
                let expected = ShardError::OffsetOutOfRange {
                    log_start: Offset::new(8),
                    visible_end: Offset::new(12),
                };
                assert_eq!(refused, expected);
                assert_eq!(bench.read(0, 8).await.unwrap().log_start, Offset::new(8));
                let appended = bench.append(0, batch(&["next"])).await.unwrap();
                assert_eq!(appended.log_start, Offset::new(8));
            }
        });
        // Smaller after a restart with other settings, without a roll.
        let rig = Rig {
            retention: of_bytes(1),
            ..rig
        };
        run_in(&root, rig, move |bench| async move {
            let start = || bench.metric("felix_storage_retention_base_offset");
            bench.until("the start", || start() == 10).await;
        });
    }
}

/// The recovery point and the log start that the checkpoint on the disk of the simulation states.
pub(super) async fn checkpoint(rig: Rig) -> (u64, u64) {
    let spec = rig.specs(Path::new("/data")).remove(0);
    let dir = Dir::open(&spec.directory).await.unwrap();
    let bytes = dir.aside(|calls| calls.load("checkpoint")).await;
    let bytes = bytes.unwrap().unwrap();
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    (number(8), number(16))
}

pub(super) async fn append(router: &impl Shards, shard: ShardId, bytes: usize) {
    append_batch(router, shard, large_batch(bytes)).await;
}

/// A batch that says it is of a later time than any: that of its append counts.
fn from_the_future(bytes: usize) -> Batch {
    let value = vec![b'x'; bytes];
    let builder = BatchBuilder::new().record(Timestamp(i64::MAX), None, Some(&value));
    Batch::parse(builder.build()).unwrap()
}

async fn append_batch(router: &impl Shards, shard: ShardId, batch: Batch) {
    let append = Append { shard, batch };
    let committed = router.append(vec![append], Acks::All).await;
    committed.await.remove(0).unwrap();
}

#[test]
fn a_shard_that_was_written_and_went_quiet_gets_its_checkpoint_once() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        let rig = Rig::new(1, durability);
        let simulation = Simulation::new(11);
        life(&simulation, rig, move |router, shard| async move {
            append(&router, shard, 100).await;
            append(&router, shard, 100).await;
            runtime::sleep(Duration::from_secs(50)).await;
            assert_eq!(checkpoint(rig).await, (0, 0));
            runtime::sleep(Duration::from_secs(20)).await;
            assert_eq!(checkpoint(rig).await, (2, 0));
        });
    }
}

#[test]
fn time_takes_the_segments_of_a_quiet_shard_full_or_not() {
    let rig = Rig {
        segment_bytes_max: SEGMENT_BYTES,
        retention: Retention {
            bytes: None,
            age: Some(Duration::from_secs(3600)),
        },
        retention_interval: Duration::from_secs(60),
        ..Rig::new(1, Durability::Periodic)
    };
    let simulation = Simulation::new(12);
    life(&simulation, rig, move |router, shard| async move {
        for _ in 0..3 {
            append_batch(&router, shard, from_the_future(40 << 10)).await;
        }
        runtime::sleep(Duration::from_secs(3590)).await;
        assert_eq!(checkpoint(rig).await.1, 0);
        runtime::sleep(Duration::from_secs(80)).await;
        assert_eq!(checkpoint(rig).await.1, 3);
        let fetch = |offset| Fetch {
            first_bytes_max: 1 << 20,
            parts: vec![FetchPart {
                shard,
                offset: Offset::new(offset),
                bytes_max: 1 << 20,
                generation: None,
            }],
            bytes_min: 0,
            bytes_max: 1 << 20,
            deadline: felix_core::Monotonic(Duration::ZERO),
        };
        let below = router.fetch(fetch(2), super::Never).await.remove(0);
        assert!(matches!(below, Err(ShardError::OffsetOutOfRange { .. })));
        let kept = router.fetch(fetch(3), super::Never).await.remove(0);
        assert_eq!(kept.unwrap().log_start, Offset::new(3));
        runtime::sleep(Duration::from_secs(86_400)).await;
        assert_eq!(checkpoint(rig).await.1, 3);
    });
}

#[test]
fn a_shard_that_takes_long_to_recover_holds_up_no_other() {
    let root = tempfile::tempdir().unwrap();
    let rig = Rig {
        shards: 2,
        ..Rig::new(1, Durability::Periodic)
    };
    run_in(&root, rig, |bench| async move {
        for _ in 0..16 {
            bench.append(0, large_batch(7 << 20)).await.unwrap();
        }
        bench.append(1, batch(&["small"])).await.unwrap();
    });
    let rig = Rig {
        verify_on_open: true,
        ..rig
    };
    super::run_opening(&root, rig, |bench| async move {
        let is_open = |bench: &super::Bench, shard| {
            let state = bench.core.owner().table().state(bench.shard(shard));
            matches!(state, Some(ShardState::Open(_)))
        };
        bench.until("the small one", || is_open(&bench, 1)).await;
        assert!(!is_open(&bench, 0));
        assert_eq!(super::records(&bench.read(1, 0).await.unwrap()).len(), 1);
        bench.core.opened().await;
        assert!(is_open(&bench, 0));
    });
}

#[test]
fn reading_a_log_of_many_small_batches_leaves_others_their_turns() {
    const BATCHES: usize = 300;
    let rig = Rig {
        flush_interval: super::FOREVER,
        ..Rig::new(1, Durability::Periodic)
    };
    let simulation = Simulation::new(13);
    life(&simulation, rig, move |router, shard| async move {
        for _ in 0..BATCHES {
            append(&router, shard, 10).await;
        }
    });
    // Nothing was flushed, so all of it is read, in one chunk.
    let turns = Rc::new(Cell::new(0));
    let counted = Rc::clone(&turns);
    simulation.run(async move {
        let others = Rc::clone(&counted);
        let task = runtime::spawn_local(async move {
            loop {
                runtime::breathe().await;
                others.set(others.get() + 1);
            }
        });
        let spec = rig.specs(Path::new("/data")).remove(0);
        let opening = Opening {
            reason: OpenReason::Restart,
            generation_floor: spec.generation_floor,
            is_floor_noted: false,
            now: Timestamp(0),
            verify: false,
            failed: false,
            kept_free_bytes: 0,
        };
        counted.set(0);
        let opened = Log::open(&spec.directory, rig.config().log, opening).await;
        let (log, recovery) = opened.unwrap();
        assert_eq!(log.end(), Offset::new(BATCHES as u64));
        assert_eq!(recovery.scanned_batches, BATCHES as u64);
        drop(task);
    });
    // Which of two ready tasks goes on is drawn: some half of the turns are the others'.
    assert!(turns.get() > BATCHES / 2, "{} turns", turns.get());
}
