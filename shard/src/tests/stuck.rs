//! Files that are stuck under some shards of a core take nothing from the others.

use super::simulated::life_of_core;
use super::{FOREVER, Rig, large_batch, metric};
use crate::Core;
use crate::disk::memory::{Faults, MemoryDisk};
use crate::runtime;
use crate::runtime::simulated::{Simulation, current};
use felix_core::limits::{PREPARATIONS_IN_FLIGHT_MAX, WRITE_BACKS_IN_FLIGHT_MAX};
use felix_core::shards::{Acks, Append, ShardState};
use felix_core::{Durability, Retention, ShardError, ShardId, Shards};
use std::num::NonZeroU64;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// More than a shard is to have written before space is prepared for it.
const WRITTEN_BYTES: usize = 20 << 10;

fn rig(shards: u32) -> Rig {
    Rig {
        shards,
        segment_bytes_max: 8 << 20,
        // Only what is asked for is flushed.
        flush_interval: FOREVER,
        ..Rig::new(1, Durability::Periodic)
    }
}

fn shards(rig: Rig) -> Vec<ShardId> {
    rig.stream().shard_ids().collect()
}

fn disk() -> Rc<MemoryDisk> {
    Rc::clone(current().expect("the test runs in a simulation").disk())
}

/// The files of the first shards are stuck from now on.
fn hold(rig: Rig, count: usize) {
    for spec in rig.specs(Path::new("/data")).iter().take(count) {
        disk().held.hold(&spec.directory);
    }
}

async fn append(core: &Core, shard: ShardId, bytes: usize) -> Result<(), ShardError> {
    let append = Append {
        shard,
        batch: large_batch(bytes),
    };
    let committed = core.router().append(vec![append], Acks::All).await;
    committed.await.remove(0).map(drop)
}

fn prepared(core: &Core) -> i64 {
    metric(core, "felix_storage_prepared_bytes")
}

/// As many shards at work on space as may be, all of them stuck.
async fn take_all_places(core: &Core, rig: Rig) -> usize {
    let stuck = 2 * PREPARATIONS_IN_FLIGHT_MAX;
    hold(rig, stuck);
    for shard in &shards(rig)[..stuck] {
        append(core, *shard, WRITTEN_BYTES).await.unwrap();
    }
    runtime::sleep(Duration::from_secs(1)).await;
    stuck
}

#[test]
fn space_is_prepared_for_others_while_that_of_a_few_is_stuck() {
    let rig = rig(8);
    life_of_core(&Simulation::new(1), rig, &[rig], move |core| async move {
        hold(rig, PREPARATIONS_IN_FLIGHT_MAX);
        let all = shards(rig);
        for shard in &all[..PREPARATIONS_IN_FLIGHT_MAX] {
            append(&core, *shard, WRITTEN_BYTES).await.unwrap();
        }
        runtime::sleep(Duration::from_secs(1)).await;
        assert_eq!(prepared(&core), 0);
        append(&core, all[7], WRITTEN_BYTES).await.unwrap();
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(prepared(&core) > 0);
        // Those that were set aside go on where they were.
        disk().held.let_go();
        let before = prepared(&core);
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(prepared(&core) >= 3 * before);
    });
}

#[test]
fn a_shard_that_waits_in_line_for_space_is_opened_again_meanwhile() {
    let rig = Rig {
        flush_interval: Duration::from_millis(50),
        ..rig(8)
    };
    life_of_core(&Simulation::new(2), rig, &[rig], move |core| async move {
        take_all_places(&core, rig).await;
        let waits = shards(rig)[7];
        append(&core, waits, WRITTEN_BYTES).await.unwrap();
        disk().set_faults(Faults {
            write: 10_000,
            ..Faults::default()
        });
        append(&core, waits, 100).await.unwrap_err();
        disk().set_faults(Faults::default());
        runtime::sleep(Duration::from_secs(10)).await;
        let state = core.router().state(waits);
        assert!(matches!(state, Some(ShardState::Open(_))), "{state:?}");
    });
}

#[test]
fn a_shard_that_waits_in_line_for_space_has_its_segment_sealed_for_its_age() {
    let rig = Rig {
        segment_age: Duration::from_secs(60),
        ..rig(8)
    };
    life_of_core(&Simulation::new(3), rig, &[rig], move |core| async move {
        take_all_places(&core, rig).await;
        append(&core, shards(rig)[7], WRITTEN_BYTES).await.unwrap();
        runtime::sleep(Duration::from_secs(70)).await;
        assert_eq!(metric(&core, "felix_storage_segment_roll_total"), 1);
    });
}

#[test]
fn others_are_sent_ahead_while_the_write_back_of_a_few_is_stuck() {
    let rig = rig(8);
    life_of_core(&Simulation::new(4), rig, &[rig], move |core| async move {
        hold(rig, WRITE_BACKS_IN_FLIGHT_MAX);
        let all = shards(rig);
        for shard in &all[..WRITE_BACKS_IN_FLIGHT_MAX] {
            append(&core, *shard, 3 << 20).await.unwrap();
        }
        runtime::sleep(Duration::from_secs(1)).await;
        assert_eq!(disk().sent_bytes(), 0);
        append(&core, all[7], 3 << 20).await.unwrap();
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(disk().sent_bytes() >= 3 << 20);
    });
}

#[test]
fn files_of_others_are_removed_while_one_that_is_to_go_is_stuck() {
    let rig = Rig {
        segment_bytes_max: 64 << 10,
        flush_interval: Duration::from_millis(5),
        retention: Retention {
            bytes: NonZeroU64::new(1),
            age: None,
        },
        ..rig(2)
    };
    life_of_core(&Simulation::new(6), rig, &[rig], move |core| async move {
        let reclaimed = || metric(&core, "felix_storage_retention_bytes_reclaimed_total");
        let gone = || metric(&core, "felix_storage_retention_segments_deleted_total");
        let all = shards(rig);
        append(&core, all[0], 40 << 10).await.unwrap();
        append(&core, all[0], 40 << 10).await.unwrap();
        while gone() == 0 {
            runtime::breathe().await;
        }
        hold(rig, 1);
        runtime::sleep(Duration::from_secs(1)).await;
        assert_eq!(reclaimed(), 0);
        append(&core, all[1], 40 << 10).await.unwrap();
        append(&core, all[1], 40 << 10).await.unwrap();
        runtime::sleep(Duration::from_secs(20)).await;
        assert!(reclaimed() >= 40 << 10);
    });
}
