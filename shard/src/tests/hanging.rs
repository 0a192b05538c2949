//! Devices that hang after they have failed, while logs on them are opened again: no core hangs with
//! them, others are opened, and a core ends.

use super::simulated::life_of_core;
use super::virtual_core::{ms, now, set_faults, shards};
use super::{Rig, large_batch, metric};
use crate::Core;
use crate::disk::memory::{Faults, Held, MemoryDisk};
use crate::runtime;
use crate::runtime::simulated::{Simulation, current};
use felix_core::limits::SHARDS_OPENING_MAX;
use felix_core::shards::{Acks, Append, ShardState};
use felix_core::{Durability, ShardError, ShardId, Shards, placement};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

fn rig(shards: u32) -> Rig {
    Rig {
        shards,
        segment_bytes_max: 64 << 10,
        ..Rig::new(1, Durability::OnCommit)
    }
}

fn disk() -> Rc<MemoryDisk> {
    Rc::clone(current().expect("the test runs in a simulation").disk())
}

/// The files of the first shards are stuck from now on.
fn hold(rig: Rig, count: usize) {
    for spec in rig.specs(Path::new("/data")).iter().take(count) {
        held(|held| held.hold(&spec.directory));
    }
}

fn held<T>(ask: impl FnOnce(&Held) -> T) -> T {
    ask(&disk().held)
}

/// Appends a batch that a segment takes one of.
async fn append(core: &Core, shard: ShardId) -> Result<(), ShardError> {
    append_bytes(core, shard, 40 << 10).await
}

async fn append_bytes(core: &Core, shard: ShardId, bytes: usize) -> Result<(), ShardError> {
    let append = Append {
        shard,
        batch: large_batch(bytes),
    };
    let committed = core.router().append(vec![append], Acks::All).await;
    committed.await.remove(0).map(drop)
}

/// Fails these shards, and returns once their disk is well again and nothing is at work on it.
async fn fail(core: &Core, shards: &[ShardId]) {
    set_faults(Faults {
        write: 10_000,
        ..Faults::default()
    });
    for shard in shards {
        append(core, *shard).await.unwrap_err();
    }
    set_faults(Faults::default());
    runtime::sleep(ms(100)).await;
}

fn is_open(core: &Core, shard: ShardId) -> bool {
    matches!(core.router().state(shard), Some(ShardState::Open(_)))
}

#[test]
fn a_device_that_hangs_at_once_after_its_error_hangs_no_core() {
    let rig = rig(2);
    life_of_core(&Simulation::new(1), rig, &[rig], move |core| async move {
        let [shard, other] = shards(rig)[..] else {
            unreachable!("there are two");
        };
        append(&core, shard).await.unwrap();
        hold(rig, 1);
        set_faults(Faults {
            write: 10_000,
            ..Faults::default()
        });
        // Without a roll, which is the core's own.
        append_bytes(&core, shard, 100).await.unwrap_err();
        set_faults(Faults::default());
        runtime::sleep(Duration::from_secs(300)).await;
        assert_eq!(held(Held::hung), [""; 0]);
        append(&core, other).await.unwrap();
        held(Held::let_go);
        runtime::sleep(Duration::from_secs(70)).await;
        assert!(is_open(&core, shard));
        append(&core, shard).await.unwrap();
    });
}

#[test]
fn a_device_that_hangs_at_any_moment_of_an_opening_hangs_no_core() {
    let rig = rig(1);
    let openings = Rc::new(Cell::new(0));
    for seed in 0..60 {
        let opened = Rc::clone(&openings);
        life_of_core(
            &Simulation::new(seed),
            rig,
            &[rig],
            move |core| async move {
                let shard = shards(rig)[0];
                for _ in 0..3 {
                    append(&core, shard).await.unwrap();
                }
                fail(&core, &[shard]).await;
                for _ in 0..100_000 {
                    hold(rig, 1);
                    runtime::sleep(Duration::from_micros(20)).await;
                    held(Held::let_go);
                    runtime::sleep(Duration::from_micros(50)).await;
                    if is_open(&core, shard) {
                        opened.set(opened.get() + 1);
                        break;
                    }
                }
                assert_eq!(held(Held::hung), [""; 0], "seed {seed}");
            },
        );
    }
    assert_eq!(openings.get(), 60);
}

#[test]
fn others_are_opened_again_while_the_devices_of_many_hang() {
    let stuck = 2 * SHARDS_OPENING_MAX + 1;
    let rig = rig(u32::try_from(stuck).unwrap() + 1);
    life_of_core(&Simulation::new(2), rig, &[rig], move |core| async move {
        let all = shards(rig);
        for shard in &all {
            append(&core, *shard).await.unwrap();
        }
        fail(&core, &all[..stuck]).await;
        hold(rig, stuck);
        // All of them hang by then.
        runtime::sleep(Duration::from_secs(60)).await;
        fail(&core, &all[stuck..]).await;
        runtime::sleep(Duration::from_secs(60)).await;
        assert!(is_open(&core, all[stuck]));
        held(Held::let_go);
        runtime::sleep(Duration::from_secs(180)).await;
        for shard in all {
            assert!(is_open(&core, shard));
        }
    });
}

#[test]
fn a_core_ends_though_the_device_under_an_opening_hangs() {
    let rig = rig(2);
    life_of_core(&Simulation::new(3), rig, &[rig], move |core| async move {
        let all = shards(rig);
        for shard in &all {
            append(&core, *shard).await.unwrap();
        }
        fail(&core, &all[..1]).await;
        hold(rig, 1);
        runtime::sleep(Duration::from_secs(5)).await;
        let begun = now();
        assert_eq!(core.close().await.len(), 0);
        let took = now() - begun;
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn a_round_waits_for_many_stuck_flushes_no_longer_than_for_a_few() {
    // A core has four places for flushes on the device.
    let rig = Rig {
        cores: 16,
        shards: 16 * 30,
        ..Rig::new(1, Durability::OnCommit)
    };
    life_of_core(&Simulation::new(4), rig, &[rig], move |core| async move {
        let core = Rc::new(core);
        let is_own = |shard: &ShardId| placement::owner(*shard, rig.cores) == core.id();
        let own: Vec<_> = shards(rig).into_iter().filter(is_own).collect();
        let (stuck, well) = (&own[..20], own[20]);
        for shard in &own {
            append_bytes(&core, *shard, 100).await.unwrap();
        }
        for spec in rig.specs(Path::new("/data")) {
            if stuck.contains(&spec.id) {
                held(|held| held.hold(&spec.directory));
            }
        }
        for shard in stuck {
            let (core, shard) = (Rc::clone(&core), *shard);
            runtime::spawn_local(async move {
                append_bytes(&core, shard, 100).await.unwrap();
            })
            .detach();
        }
        runtime::sleep(ms(1)).await;
        let begun = now();
        append_bytes(&core, well, 100).await.unwrap();
        let took = now() - begun;
        // The round under way, and its own.
        assert!(took < ms(350), "{took:?}");
        held(Held::let_go);
        runtime::sleep(ms(100)).await;
        assert_eq!(metric(&core, "felix_storage_late_syncs"), 0);
    });
}

#[test]
fn upkeep_that_takes_long_is_no_late_flush() {
    let rig = rig(1);
    life_of_core(&Simulation::new(5), rig, &[rig], move |core| async move {
        let shard = shards(rig)[0];
        append(&core, shard).await.unwrap();
        hold(rig, 1);
        // A checkpoint follows within a minute.
        runtime::sleep(Duration::from_secs(70)).await;
        assert!(held(Held::waiting) > 0, "it is being written");
        assert_eq!(metric(&core, "felix_storage_late_syncs_total"), 0);
        assert_eq!(metric(&core, "felix_storage_late_syncs"), 0);
        held(Held::let_go);
        runtime::sleep(Duration::from_secs(1)).await;
        assert_eq!(held(Held::waiting), 0);
    });
}
