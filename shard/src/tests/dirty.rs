//! What is written and not flushed is bounded, and appends that wait for room get it in time or are
//! told.

use super::simulated::life_of_core;
use super::virtual_core::{ms, now, set_faults, shards, slow};
use super::{FOREVER, Rig, batch, large_batch, metric, run};
use crate::disk::memory::Faults;
use crate::runtime;
use crate::runtime::simulated::Simulation;
use crate::{Core, DirtyBounds};
use felix_core::shards::{Acks, Append, Appended};
use felix_core::{Durability, Monotonic, Offset, ShardError, ShardId, Shards};
use futures_util::future::join_all;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// A batch of about a kilobyte.
const BATCH_BYTES: usize = 1000;

fn rig(durability: Durability, shards: u32) -> Rig {
    Rig {
        shards,
        // No round begins because of the time.
        flush_interval: FOREVER,
        dirty: DirtyBounds {
            soft_bytes: 10_000,
            hard_bytes: 20_000,
        },
        ..Rig::new(1, durability)
    }
}

/// Hands a batch over. `None`: it waits for room.
fn hand_over(
    core: &Core,
    shard: ShardId,
    deadline: Option<Duration>,
) -> impl Future<Output = Result<Appended, ShardError>> + use<> {
    let batch = large_batch(BATCH_BYTES);
    let append = Append { shard, batch };
    let deadline = deadline.map(Monotonic);
    let handed = core
        .router()
        .append_until(vec![append], Acks::All, deadline);
    async move { handed.await.await.remove(0) }
}

#[test]
fn a_round_begins_at_once_where_more_than_the_soft_bound_is_dirty() {
    for durability in [Durability::Periodic, Durability::None] {
        let rig = rig(durability, 2);
        life_of_core(&Simulation::new(1), rig, &[rig], move |core| async move {
            let shards = shards(rig);
            for shard in shards.iter().cycle().take(8) {
                hand_over(&core, *shard, None).await.unwrap();
            }
            runtime::sleep(ms(500)).await;
            let dirty = metric(&core, "felix_storage_dirty_bytes");
            assert!((8_000..10_000).contains(&dirty), "{dirty}");
            assert_eq!(metric(&core, "felix_core_dirty_bytes"), dirty);
            assert_eq!(metric(&core, "felix_storage_unsynced_bytes"), dirty);
            assert_eq!(metric(&core, "felix_storage_sync_rounds_total"), 0);
            for shard in shards.iter().cycle().take(4) {
                hand_over(&core, *shard, None).await.unwrap();
            }
            runtime::sleep(ms(5)).await;
            assert_eq!(metric(&core, "felix_storage_sync_rounds_total"), 1);
            let dirty = metric(&core, "felix_storage_dirty_bytes");
            assert_eq!(metric(&core, "felix_storage_unsynced_bytes"), dirty);
            assert!(dirty < 4_000, "what came before the round: {dirty}");
        });
    }
}

#[test]
fn at_the_hard_bound_appends_wait_for_a_flush_in_their_order() {
    for durability in [Durability::Periodic, Durability::None] {
        let rig = rig(durability, 5);
        life_of_core(&Simulation::new(2), rig, &[rig], move |core| async move {
            // Less than others wait for.
            set_faults(slow(ms(50)));
            let shards = shards(rig);
            let appends: Vec<_> = shards
                .iter()
                .cycle()
                .take(150)
                .map(|shard| hand_over(&core, *shard, None))
                .collect();
            let watched = runtime::spawn_local(join_all(appends));
            let mut most = 0;
            for _ in 0..100 {
                runtime::sleep(ms(1)).await;
                most = most.max(metric(&core, "felix_storage_dirty_bytes"));
            }
            assert!((20_000..22_000).contains(&most), "{most}");
            assert!(metric(&core, "felix_shard_parked_appends") > 50);
            let mut ends = vec![Offset::ZERO; shards.len()];
            for (place, result) in watched.join().await.into_iter().enumerate() {
                let end = &mut ends[place % shards.len()];
                assert_eq!(result.unwrap().base_offset, *end);
                *end = end.after(1);
            }
            assert_eq!(metric(&core, "felix_shard_parked_appends"), 0);
        });
    }
}

#[test]
fn an_append_without_room_is_refused_at_its_deadline_and_takes_no_offset() {
    let rig = rig(Durability::Periodic, 1);
    life_of_core(&Simulation::new(3), rig, &[rig], move |core| async move {
        set_faults(slow(ms(2_000)));
        let shard = shards(rig)[0];
        // Half of the bound is this shard's.
        for _ in 0..10 {
            hand_over(&core, shard, None).await.unwrap();
        }
        let begun = now();
        let first = runtime::spawn_local(hand_over(&core, shard, Some(begun + ms(700))));
        let second = runtime::spawn_local(hand_over(&core, shard, Some(begun + ms(300))));
        let third = runtime::spawn_local(hand_over(&core, shard, None));
        assert_eq!(second.join().await, Err(ShardError::NoRoomInTime));
        assert!(
            (ms(300)..ms(310)).contains(&(now() - begun)),
            "the second's deadline"
        );
        assert_eq!(first.join().await, Err(ShardError::NoRoomInTime));
        assert!(
            (ms(700)..ms(710)).contains(&(now() - begun)),
            "the first's deadline"
        );
        assert_eq!(metric(&core, "felix_shard_expired_appends_total"), 2);
        let placed = third.join().await.unwrap();
        assert_eq!(placed.base_offset, Offset::new(10));
        assert!(now() - begun >= ms(1_900), "the flush made the room");
    });
}

#[test]
fn a_file_that_is_stuck_leaves_half_of_its_device_to_others() {
    let rig = rig(Durability::Periodic, 2);
    life_of_core(&Simulation::new(4), rig, &[rig], move |core| async move {
        let shards = shards(rig);
        set_faults(slow(ms(60_000)));
        for _ in 0..10 {
            hand_over(&core, shards[0], None).await.unwrap();
        }
        // Its flush is under way, and sees no end.
        runtime::sleep(ms(1)).await;
        assert_eq!(metric(&core, "felix_storage_sync_total"), 1);
        set_faults(Faults::default());
        let waits = hand_over(&core, shards[0], None);
        let waits = runtime::spawn_local(waits);
        for _ in 0..100 {
            let begun = now();
            hand_over(&core, shards[1], None).await.unwrap();
            // The round that waits for the stuck one ends after a while.
            assert!(now() - begun < ms(120));
        }
        assert_eq!(metric(&core, "felix_shard_parked_appends"), 1);
        assert_eq!(metric(&core, "felix_storage_late_syncs"), 1);
        waits.join().await.unwrap();
    });
}

#[test]
fn a_shard_that_has_its_half_and_that_no_round_takes_is_flushed_all_the_same() {
    let rig = Rig {
        dirty: DirtyBounds {
            soft_bytes: 19_000,
            hard_bytes: 20_000,
        },
        ..rig(Durability::None, 1)
    };
    life_of_core(&Simulation::new(8), rig, &[rig], move |core| async move {
        let shard = shards(rig)[0];
        for _ in 0..40 {
            hand_over(&core, shard, None).await.unwrap();
        }
        assert!(
            now() < ms(1_000),
            "nobody asked for a flush until {:?}",
            now()
        );
    });
}

#[test]
fn an_append_that_waited_for_its_generation_gets_room_on_a_device_that_is_full() {
    let rig = Rig {
        noted_floor: Some(5),
        ..rig(Durability::Periodic, 3)
    };
    // The first one makes the table.
    let simulation = Simulation::new(9);
    life_of_core(&simulation, rig, &[rig], |_| async {});
    let rig = Rig {
        noted_floor: Some(6),
        ..rig
    };
    life_of_core(&simulation, rig, &[rig], move |core| async move {
        let (begun, shards) = (now(), shards(rig));
        for shard in &shards[..2] {
            hand_over(&core, *shard, None).await.unwrap();
        }
        // The generation is noted while the others fill the device.
        let first = runtime::spawn_local(hand_over(&core, shards[2], None));
        set_faults(slow(ms(20)));
        let others = shards[..2].iter().cycle().take(400);
        let others: Vec<_> = others.map(|shard| hand_over(&core, *shard, None)).collect();
        let others = runtime::spawn_local(join_all(others));
        first.join().await.unwrap();
        for result in others.join().await {
            result.unwrap();
        }
        assert_eq!(metric(&core, "felix_shard_parked_appends"), 0);
        assert!(
            now() - begun < ms(5_000),
            "it waited for {:?}",
            now() - begun
        );
    });
}

#[test]
fn an_append_that_waits_for_its_generation_is_not_refused_for_want_of_room() {
    for durability in [Durability::Periodic, Durability::None] {
        let rig = Rig {
            noted_floor: Some(5),
            ..rig(durability, 1)
        };
        let simulation = Simulation::new(10);
        // The first one makes the table.
        life_of_core(&simulation, rig, &[rig], |_| async {});
        let rig = Rig {
            noted_floor: Some(6),
            ..rig
        };
        life_of_core(&simulation, rig, &[rig], move |core| async move {
            set_faults(slow(ms(20)));
            let shard = shards(rig)[0];
            let waits = runtime::spawn_local(hand_over(&core, shard, Some(now())));
            let other = runtime::spawn_local(hand_over(&core, shard, Some(now() + ms(1))));
            runtime::sleep(ms(5)).await;
            assert_eq!(metric(&core, "felix_shard_parked_appends"), 2);
            waits.join().await.unwrap();
            other.join().await.unwrap();
        });
    }
}

#[test]
fn shards_that_fail_leave_their_room_to_appends_that_wait() {
    let rig = rig(Durability::Periodic, 3);
    life_of_core(&Simulation::new(5), rig, &[rig], move |core| async move {
        let shards = shards(rig);
        set_faults(slow(ms(50)));
        // Together they are over the bound, and neither has more than its half.
        for place in [0; 10].into_iter().chain([1; 9]) {
            hand_over(&core, shards[place], None).await.unwrap();
        }
        let waits = runtime::spawn_local(hand_over(&core, shards[2], None));
        runtime::sleep(ms(1)).await;
        assert_eq!(metric(&core, "felix_shard_parked_appends"), 1);
        // Shards that fail leave their room to others.
        set_faults(Faults {
            flush: 10_000,
            ..Faults::default()
        });
        waits.join().await.unwrap();
        assert!(now() < ms(5_000));
    });
}

#[test]
fn appends_that_wait_for_room_are_refused_when_the_core_closes() {
    let rig = rig(Durability::Periodic, 1);
    life_of_core(&Simulation::new(6), rig, &[rig], move |core| async move {
        set_faults(slow(ms(5_000)));
        let shard = shards(rig)[0];
        for _ in 0..10 {
            hand_over(&core, shard, None).await.unwrap();
        }
        let deadline = now() + FOREVER;
        let waits = runtime::spawn_local(hand_over(&core, shard, Some(deadline)));
        runtime::sleep(ms(1)).await;
        let unclean = core.close().await;
        assert!(unclean.is_empty(), "{unclean:?}");
        assert_eq!(waits.join().await, Err(ShardError::ShuttingDown));
        assert!(now() < deadline, "nothing waits for the deadline");
    });
}

#[test]
fn the_kernel_is_asked_to_write_ahead_of_flushes_that_nobody_waits_for() {
    const BATCHES: u64 = 300;
    for durability in [Durability::Periodic, Durability::None, Durability::OnCommit] {
        let rig = Rig {
            flush_interval: FOREVER,
            ..Rig::new(1, durability)
        };
        let simulation = Simulation::new(7);
        let disk = Rc::clone(simulation.disk());
        let told = Rc::clone(&disk);
        life_of_core(&simulation, rig, &[rig], move |core| async move {
            for _ in 0..BATCHES {
                let append = Append {
                    shard: shards(rig)[0],
                    batch: large_batch(10_000),
                };
                let handed = core.router().append(vec![append], Acks::All).await;
                handed.await.remove(0).unwrap();
                runtime::sleep(Duration::from_micros(100)).await;
            }
            let asked = metric(&core, "felix_storage_write_backs_total");
            if durability == Durability::OnCommit {
                assert_eq!((asked, told.sent_bytes()), (0, 0), "it is flushed at once");
            } else {
                assert_eq!(
                    asked, 21,
                    "after each 14 batches, which are 128 KiB and more"
                );
                assert!((21 << 17..BATCHES * 10_000).contains(&told.sent_bytes()));
                let unsynced = metric(&core, "felix_storage_unsynced_bytes");
                assert!(unsynced > 3_000_000, "none of it counts as durable");
            }
        });
    }
}

#[test]
fn a_real_disk_is_written_no_more_than_the_bound_ahead_of_its_flushes() {
    let rig = Rig {
        shards: 4,
        ..rig(Durability::Periodic, 4)
    };
    let rig = Rig {
        dirty: DirtyBounds {
            soft_bytes: 2 * 64_000,
            hard_bytes: 2 * 256_000,
        },
        cores: 2,
        ..rig
    };
    run(rig, |bench| async move {
        // The share of a core, and one batch more.
        let most = 256_000 + 20_000;
        for round in 0..40 {
            let appends = (0..32_u32).map(|place| Append {
                shard: bench.shard(place % 4),
                batch: large_batch(16_000),
            });
            let committed = bench.router.append(appends.collect(), Acks::All).await;
            let dirty = bench.metric("felix_core_dirty_bytes");
            assert!(dirty < most, "round {round}: {dirty}");
            for result in committed.await {
                result.unwrap();
            }
        }
        assert!(bench.metric("felix_storage_sync_rounds_total") > 10);
        bench.append(0, batch(&["x"])).await.unwrap();
    });
}

#[test]
fn what_rounds_leave_out_counts_until_it_is_too_much() {
    let dirty = DirtyBounds {
        soft_bytes: 10_000,
        hard_bytes: 100_000,
    };
    let periodic = Rig {
        flush_interval: ms(50),
        dirty,
        ..rig(Durability::Periodic, 1)
    };
    let none = Rig {
        stream: "orders",
        ..rig(Durability::None, 1)
    };
    let streams = [periodic, none];
    life_of_core(
        &Simulation::new(21),
        periodic,
        &streams,
        move |core| async move {
            let (flushed, left_out) = (shards(periodic)[0], shards(none)[0]);
            let dirty = || metric(&core, "felix_storage_dirty_bytes");
            let mut most = 0;
            for _ in 0..60 {
                hand_over(&core, left_out, None).await.unwrap();
                most = most.max(dirty());
                // With a round after each.
                hand_over(&core, flushed, None).await.unwrap();
                runtime::sleep(ms(100)).await;
            }
            let most_allowed = periodic.dirty.soft_bytes + 2 * BATCH_BYTES as u64;
            assert!(u64::try_from(most).unwrap() < most_allowed, "{most}");
        },
    );
}
