//! Openings that write nothing, because their generation is noted elsewhere: the table has it before
//! the first batch does.

use super::keeping::append;
use super::simulated::{life, life_of_core};
use super::{Rig, batch};
use crate::disk::Dir;
use crate::disk::memory::Faults;
use crate::runtime;
use crate::runtime::simulated::Simulation;
use felix_core::limits::{GENERATIONS_IN_FLIGHT_MAX, GENERATIONS_LATE_MAX};
use felix_core::shards::{Acks, Append, ShardState};
use felix_core::{Durability, ShardError, ShardId, Shards};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const EVERY_POLICY: [Durability; 3] =
    [Durability::None, Durability::Periodic, Durability::OnCommit];

fn noted(durability: Durability, floor: u32) -> Rig {
    Rig {
        noted_floor: Some(floor),
        ..Rig::new(1, durability)
    }
}

/// The newest generation that the table on the disk of the simulation has.
async fn newest(rig: Rig) -> u32 {
    let spec = rig.specs(Path::new("/data")).remove(0);
    let dir = Dir::open(&spec.directory).await.unwrap();
    let bytes = dir.aside(|calls| calls.load("generations")).await;
    let bytes = bytes.unwrap().unwrap();
    let at = bytes.len() - 16;
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn generation(router: &impl Shards, shard: ShardId) -> u32 {
    match router.state(shard) {
        Some(ShardState::Open(generation)) => generation.get(),
        state => panic!("it is {state:?}"),
    }
}

async fn try_append(router: &impl Shards, shard: ShardId) -> Result<(), ShardError> {
    let append = Append {
        shard,
        batch: batch(&["x"]),
    };
    let committed = router.append(vec![append], Acks::All).await;
    committed.await.remove(0).map(drop)
}

#[test]
fn the_table_has_the_generation_once_there_is_a_batch_and_not_before() {
    for durability in EVERY_POLICY {
        let simulation = Simulation::new(31);
        // The first one makes the table.
        for (floor, before) in [(5, 6), (6, 6), (9, 6)] {
            let rig = noted(durability, floor);
            life(&simulation, rig, move |router, shard| async move {
                assert_eq!(generation(&router, shard), floor + 1);
                assert_eq!(newest(rig).await, before);
                if floor == 9 {
                    // All of these wait for it, and are placed in their order.
                    let appends = (0..5).map(|_| append(&router, shard, 100));
                    futures_util::future::join_all(appends).await;
                    assert_eq!(newest(rig).await, 10);
                }
            });
            simulation
                .disk()
                .lose_power_by_chance(&mut fastrand::Rng::with_seed(1));
        }
        let rig = noted(durability, 10);
        life(&simulation, rig, move |router, shard| async move {
            assert_eq!(generation(&router, shard), 11);
            try_append(&router, shard).await.unwrap();
            assert_eq!(newest(rig).await, 11);
        });
    }
}

#[test]
fn a_floor_below_what_the_log_knows_is_not_relied_on() {
    let simulation = Simulation::new(32);
    for (floor, opened) in [(5, 6), (2, 7), (7, 8)] {
        let rig = noted(Durability::OnCommit, floor);
        life(&simulation, rig, move |router, shard| async move {
            assert_eq!(generation(&router, shard), opened);
            append(&router, shard, 100).await;
            assert_eq!(newest(rig).await, opened);
        });
    }
}

#[test]
fn where_there_is_no_space_for_it_appends_are_refused_until_there_is() {
    let simulation = Simulation::new(34);
    life(&simulation, noted(Durability::Periodic, 5), |_, _| async {});
    let rig = noted(Durability::Periodic, 6);
    let disk = Rc::clone(simulation.disk());
    life(&simulation, rig, move |router, shard| async move {
        disk.set_faults(Faults {
            capacity: Some(0),
            ..Faults::default()
        });
        let refused = try_append(&router, shard).await.unwrap_err();
        assert!(
            matches!(refused, ShardError::DiskFull { .. }),
            "{refused:?}"
        );
        disk.set_faults(Faults::default());
        let mut tries = 0;
        while try_append(&router, shard).await.is_err() {
            tries += 1;
            assert!(tries < 100, "it is taken again");
            runtime::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(generation(&router, shard), 7);
    });
}

#[test]
fn few_generations_are_noted_at_once_and_a_device_that_is_stuck_takes_few_threads_for_them() {
    let rig = |floor| Rig {
        shards: 100,
        ..noted(Durability::OnCommit, floor)
    };
    let simulation = Simulation::new(35);
    life(&simulation, rig(5), |_, _| async {});
    let disk = Rc::clone(simulation.disk());
    let rig = rig(6);
    life_of_core(&simulation, rig, &[rig], move |core| async move {
        let specs = rig.specs(Path::new("/data"));
        let (free, stuck) = specs.split_last().unwrap();
        for spec in stuck {
            disk.held.hold(&spec.directory);
        }
        let appends = stuck.iter().map(|spec| {
            let (router, id) = (core.router(), spec.id);
            runtime::spawn_local(async move { try_append(&router, id).await })
        });
        let appends: Vec<_> = appends.collect();
        runtime::sleep(Duration::from_millis(50)).await;
        assert_eq!(disk.held.waiting(), GENERATIONS_IN_FLIGHT_MAX);
        runtime::sleep(Duration::from_secs(10)).await;
        let late = GENERATIONS_IN_FLIGHT_MAX + GENERATIONS_LATE_MAX;
        assert_eq!(disk.held.waiting(), late);
        disk.held.let_go();
        for append in appends {
            append.join().await.unwrap();
        }
        try_append(&core.router(), free.id).await.unwrap();
    });
}
