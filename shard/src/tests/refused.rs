//! A shard whose disk refuses something before it has begun is not failed by that, and goes on by itself.

use super::simulated::life_of_core;
use super::{Rig, large_batch, metric};
use crate::Core;
use crate::disk::memory::{Faults, MemoryDisk};
use crate::flusher::PATIENCE;
use crate::runtime;
use crate::runtime::simulated::{Simulation, current};
use felix_core::limits::LATE_FLUSHES_MAX;
use felix_core::shards::{Acks, Append, Appended};
use felix_core::{Durability, ShardError, ShardId, Shards};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

const SEGMENT_BYTES: u64 = 64 << 10;

const REFUSALS: [Faults; 2] = {
    let none = Faults::NONE;
    [
        Faults {
            names: 10_000,
            ..none
        },
        Faults {
            descriptors: 10_000,
            ..none
        },
    ]
};

fn rig(durability: Durability) -> Rig {
    Rig {
        segment_bytes_max: SEGMENT_BYTES,
        ..Rig::new(1, durability)
    }
}

fn disk() -> Rc<MemoryDisk> {
    Rc::clone(current().expect("the test runs in a simulation").disk())
}

fn append(
    core: &Core,
    rig: Rig,
    bytes: usize,
) -> impl Future<Output = Result<Appended, ShardError>> + use<> {
    let append = Append {
        shard: shard(rig),
        batch: large_batch(bytes),
    };
    let handed = core.router().append(vec![append], Acks::All);
    async move { handed.await.await.remove(0) }
}

fn shard(rig: Rig) -> ShardId {
    rig.stream().shard_ids().next().expect("it has one")
}

/// Appends until the next segment's file is made, and the last batch before the roll.
async fn fill(core: &Core, rig: Rig) {
    append(core, rig, 50 << 10).await.unwrap();
    runtime::sleep(Duration::from_secs(1)).await;
}

#[test]
fn a_roll_whose_name_or_whose_sync_is_refused_commits_once_it_is_not_and_nothing_fails() {
    for durability in [Durability::OnCommit, Durability::Periodic, Durability::None] {
        for faults in REFUSALS {
            let rig = rig(durability);
            life_of_core(&Simulation::new(1), rig, &[rig], move |core| async move {
                fill(&core, rig).await;
                let mut rolls = Box::pin(append(&core, rig, 50 << 10));
                // It is written, and then its flush is refused.
                let early = (&mut rolls).now_or_never();
                disk().set_faults(faults);
                runtime::sleep(Duration::from_secs(5)).await;
                let unsynced = || metric(&core, "felix_storage_unsynced_bytes");
                assert!(unsynced() > 0);
                let is_committed = early.or_else(|| (&mut rolls).now_or_never());
                let waits = durability == Durability::OnCommit;
                assert_eq!(is_committed.is_none(), waits);
                disk().set_faults(Faults::default());
                if waits {
                    rolls.await.unwrap();
                }
                runtime::sleep(Duration::from_secs(2)).await;
                assert_eq!(unsynced(), 0);
                append(&core, rig, 100).await.unwrap();
                assert_eq!(metric(&core, "felix_shard_failures_total"), 0);
                assert_eq!(metric(&core, "felix_storage_sync_failures_total"), 0);
            });
        }
    }
}

#[test]
fn refused_flushes_of_any_number_of_shards_hold_up_no_other() {
    let count = LATE_FLUSHES_MAX + 100;
    let rig = Rig {
        shards: u32::try_from(count + 1).unwrap(),
        ..rig(Durability::OnCommit)
    };
    life_of_core(&Simulation::new(5), rig, &[rig], move |core| async move {
        let shards: Vec<_> = rig.stream().shard_ids().collect();
        let append = |shard, bytes| {
            let batch = large_batch(bytes);
            let handed = core
                .router()
                .append(vec![Append { shard, batch }], Acks::All);
            async move { handed.await.await.remove(0) }
        };
        let (other, rolling) = shards.split_last().unwrap();
        for bytes in [50 << 10, 100] {
            for shard in rolling {
                append(*shard, bytes).await.unwrap();
            }
        }
        append(*other, 100).await.unwrap();
        runtime::sleep(Duration::from_secs(1)).await;
        let waiting: Vec<_> = rolling
            .iter()
            .map(|shard| append(*shard, 50 << 10))
            .map(runtime::spawn_local)
            .collect();
        disk().set_faults(REFUSALS[0]);
        let mut committed = 0;
        for _ in 0..500 {
            let pause = pin!(runtime::sleep(PATIENCE / 2));
            match select(pin!(append(*other, 100)), pause).await {
                Either::Left((Ok(_), _)) => committed += 1,
                // Space is missing, after all.
                Either::Left((Err(ShardError::DiskFull { .. }), pause)) => pause.await,
                Either::Left((Err(error), _)) => panic!("{error}"),
                Either::Right(_) => panic!("its flush waits for those that are refused"),
            }
        }
        assert!(committed > 20, "{committed}");
        disk().set_faults(Faults::default());
        for append in waiting {
            append.join().await.unwrap();
        }
        assert_eq!(metric(&core, "felix_storage_late_syncs_total"), 0);
        assert_eq!(metric(&core, "felix_shard_failures_total"), 0);
    });
}

#[test]
fn the_last_flush_of_a_shard_that_failed_is_asked_for_again_when_it_is_refused() {
    let rig = rig(Durability::Periodic);
    life_of_core(&Simulation::new(7), rig, &[rig], move |core| async move {
        append(&core, rig, 100).await.unwrap();
        let specs = rig.specs(Path::new("/data"));
        disk().held.starve(&specs[0].directory);
        disk().set_faults(Faults {
            write: 10_000,
            ..Faults::NONE
        });
        append(&core, rig, 100).await.unwrap_err();
        disk().set_faults(Faults::NONE);
        runtime::sleep(Duration::from_secs(10)).await;
        let unsynced = || metric(&core, "felix_storage_unsynced_bytes");
        assert!(unsynced() > 0, "it still waits");
        assert_eq!(metric(&core, "felix_storage_sync_failures_total"), 0);
        assert_eq!(metric(&core, "felix_shard_failed"), 1);
        disk().held.let_go();
        runtime::sleep(Duration::from_secs(60)).await;
        assert_eq!(unsynced(), 0);
        assert_eq!(metric(&core, "felix_storage_sync_failures_total"), 0);
        assert_eq!(metric(&core, "felix_shard_failed"), 0);
        let appended = append(&core, rig, 100).await.unwrap();
        assert_eq!(
            appended.base_offset.get(),
            1,
            "what was acknowledged is there"
        );
    });
}

#[test]
fn rounds_go_on_every_interval_while_a_flush_is_refused_and_its_shard_written_to() {
    const INTERVALS: i64 = 40;
    let rig = Rig {
        shards: 2,
        flush_interval: Duration::from_millis(50),
        ..rig(Durability::Periodic)
    };
    life_of_core(&Simulation::new(6), rig, &[rig], move |core| async move {
        let shards: Vec<_> = rig.stream().shard_ids().collect();
        let append = |shard| {
            let batch = large_batch(100);
            let handed = core
                .router()
                .append(vec![Append { shard, batch }], Acks::All);
            async move { handed.await.await.remove(0) }
        };
        let specs = rig.specs(Path::new("/data"));
        let starved = specs.iter().find(|spec| spec.id == shards[0]).unwrap();
        disk().held.starve(&starved.directory);
        let flushes = || metric(&core, "felix_storage_sync_total");
        let before = flushes();
        for _ in 0..10 * INTERVALS {
            runtime::sleep(rig.flush_interval / 10).await;
            for shard in &shards {
                append(*shard).await.unwrap();
            }
        }
        let flushes = flushes() - before;
        assert!(
            (INTERVALS / 2..INTERVALS * 2).contains(&flushes),
            "{flushes}"
        );
        disk().held.let_go();
        runtime::sleep(Duration::from_secs(2)).await;
        assert_eq!(metric(&core, "felix_storage_unsynced_bytes"), 0);
        assert_eq!(metric(&core, "felix_shard_failures_total"), 0);
    });
}

#[test]
fn appends_are_refused_while_the_disk_has_no_space_for_a_name() {
    let rig = rig(Durability::Periodic);
    life_of_core(&Simulation::new(2), rig, &[rig], move |core| async move {
        fill(&core, rig).await;
        disk().set_faults(REFUSALS[0]);
        append(&core, rig, 50 << 10).await.unwrap();
        let mut refused = 0;
        for _ in 0..100 {
            runtime::sleep(Duration::from_millis(50)).await;
            match append(&core, rig, 100).await {
                Err(ShardError::DiskFull { .. }) => refused += 1,
                appended => drop(appended.unwrap()),
            }
        }
        assert!(refused > 50, "{refused}");
        disk().set_faults(Faults::default());
        runtime::sleep(Duration::from_secs(2)).await;
        append(&core, rig, 100).await.unwrap();
    });
}

#[test]
fn an_append_that_finds_no_descriptor_is_told_which_limit_to_raise() {
    let rig = rig(Durability::OnCommit);
    life_of_core(&Simulation::new(3), rig, &[rig], move |core| async move {
        disk().set_faults(REFUSALS[1]);
        let refused = append(&core, rig, 100).await.unwrap_err();
        let ShardError::Storage(reason) = &refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("NOFILE"), "{reason}");
        disk().set_faults(Faults::default());
        append(&core, rig, 100).await.unwrap();
        assert_eq!(metric(&core, "felix_shard_failures_total"), 0);
    });
}

#[test]
fn a_core_closes_though_a_flush_is_refused_and_says_so_to_whoever_waits() {
    let rig = rig(Durability::OnCommit);
    for faults in REFUSALS {
        life_of_core(&Simulation::new(4), rig, &[rig], move |core| async move {
            fill(&core, rig).await;
            let rolls = append(&core, rig, 50 << 10);
            let rolls = runtime::spawn_local(rolls);
            while metric(&core, "felix_storage_segment_roll_total") == 0 {
                runtime::breathe().await;
            }
            disk().set_faults(faults);
            runtime::sleep(Duration::from_secs(3)).await;
            core.close().await;
            assert!(matches!(rolls.join().await, Err(ShardError::Storage(_))));
        });
    }
}
