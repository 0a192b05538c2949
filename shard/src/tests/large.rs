//! Large batches are written beside the core: nobody but their own shard waits for them.

use super::simulated::life_of_core;
use super::virtual_core::{ms, now, set_faults, shards};
use super::{Rig, large_batch, metric};
use crate::disk::memory::{Faults, Held};
use crate::runtime::simulated::{Simulation, current};
use crate::runtime::{self, Task};
use crate::{Core, Router};
use felix_core::limits::LARGE_WRITES_IN_FLIGHT_MAX;
use felix_core::shards::{Acks, Append, ShardState};
use felix_core::{Durability, Monotonic, Offset, ShardError, ShardId, Shards};
use std::path::Path;
use std::time::Duration;

const LARGE: usize = 4000;
const SMALL: usize = 100;

fn rig(shards: u32, durability: Durability) -> Rig {
    Rig {
        shards,
        segment_bytes_max: 64 << 10,
        write_on_core_bytes_max: LARGE / 2,
        ..Rig::new(1, durability)
    }
}

fn held<T>(ask: impl FnOnce(&Held) -> T) -> T {
    ask(&current().expect("it is simulated").disk().held)
}

/// The files of the first shards are stuck from now on.
fn hold(rig: Rig, count: usize) {
    for spec in rig.specs(Path::new("/data")).iter().take(count) {
        held(|held| held.hold(&spec.directory));
    }
}

/// A write beside the core takes so long.
fn slow_write(pause: Duration) -> Faults {
    Faults {
        slow_write: pause,
        ..Faults::default()
    }
}

/// As many shards as there are places for, and as may do without one: all of them stuck.
const STUCK: usize = 2 * LARGE_WRITES_IN_FLIGHT_MAX;

/// Large batches of shards whose files are stuck: whoever writes another waits in line.
async fn take_all_places(rig: Rig, router: &Router) -> Vec<Task<Result<Offset, ShardError>>> {
    hold(rig, STUCK);
    let stuck = shards(rig).into_iter().take(STUCK);
    let stuck = stuck.map(|shard| begin(router, shard, LARGE)).collect();
    // So long that those that are late have given up their places.
    runtime::sleep(Duration::from_secs(1)).await;
    stuck
}

async fn append(router: &Router, shard: ShardId, bytes: usize) -> Result<Offset, ShardError> {
    let append = Append {
        shard,
        batch: large_batch(bytes),
    };
    let committed = router.append(vec![append], Acks::All).await;
    Ok(committed.await.remove(0)?.base_offset)
}

/// The same for which nobody waits.
fn begin(router: &Router, shard: ShardId, bytes: usize) -> Task<Result<Offset, ShardError>> {
    let router = router.clone();
    runtime::spawn_local(async move { append(&router, shard, bytes).await })
}

fn is_open(core: &Core, shard: ShardId) -> bool {
    matches!(core.router().state(shard), Some(ShardState::Open(_)))
}

#[test]
fn only_its_own_shard_waits_for_a_large_batch_and_keeps_the_order() {
    for durability in [Durability::OnCommit, Durability::Periodic] {
        let rig = rig(2, durability);
        life_of_core(&Simulation::new(1), rig, &[rig], move |core| async move {
            let router = core.router();
            let [shard, other] = shards(rig)[..] else {
                unreachable!("there are two");
            };
            append(&router, shard, SMALL).await.unwrap();
            hold(rig, 1);
            let large = begin(&router, shard, LARGE);
            runtime::sleep(ms(10)).await;
            let mut behind = Vec::new();
            for bytes in [SMALL, LARGE, SMALL] {
                behind.push(begin(&router, shard, bytes));
                // Tasks begin in any order.
                runtime::sleep(ms(10)).await;
            }
            assert_eq!(metric(&core, "felix_shard_parked_appends"), 3);
            for (offset, bytes) in (0..).zip([SMALL, LARGE, SMALL]) {
                let appended = append(&router, other, bytes).await;
                assert_eq!(appended, Ok(Offset::new(offset)));
            }
            assert_eq!(held(Held::hung), [""; 0]);
            held(Held::let_go);
            assert_eq!(large.join().await, Ok(Offset::new(1)));
            for (offset, behind) in (2..).zip(behind) {
                assert_eq!(behind.join().await, Ok(Offset::new(offset)));
            }
            assert_eq!(metric(&core, "felix_storage_writes_aside_total"), 3);
        });
    }
}

#[test]
fn large_batches_of_others_are_written_while_the_files_of_many_are_stuck() {
    let stuck = 2 * LARGE_WRITES_IN_FLIGHT_MAX - 1;
    let rig = rig(u32::try_from(stuck).unwrap() + 1, Durability::Periodic);
    life_of_core(&Simulation::new(2), rig, &[rig], move |core| async move {
        let router = core.router();
        let all = shards(rig);
        for shard in &all {
            append(&router, *shard, SMALL).await.unwrap();
        }
        hold(rig, stuck);
        let waiting: Vec<_> = all[..stuck]
            .iter()
            .map(|shard| begin(&router, *shard, LARGE))
            .collect();
        runtime::sleep(ms(10)).await;
        append(&router, all[stuck], LARGE).await.unwrap();
        held(Held::let_go);
        for waiting in waiting {
            waiting.join().await.unwrap();
        }
    });
}

#[test]
fn a_shard_that_fails_meanwhile_is_opened_again_once_nothing_writes_to_its_file() {
    let rig = rig(1, Durability::OnCommit);
    life_of_core(&Simulation::new(3), rig, &[rig], move |core| async move {
        let router = core.router();
        let shard = shards(rig)[0];
        set_faults(Faults {
            flush: 10_000,
            stall: 10_000,
            slow: ms(50),
            ..slow_write(Duration::from_secs(20))
        });
        let small = begin(&router, shard, SMALL);
        runtime::sleep(ms(1)).await;
        let large = begin(&router, shard, LARGE);
        assert!(matches!(small.join().await, Err(ShardError::Storage(_))));
        set_faults(Faults::default());
        runtime::sleep(Duration::from_secs(15)).await;
        assert!(!is_open(&core, shard), "the large batch is being written");
        assert!(matches!(large.join().await, Err(ShardError::Storage(_))));
        runtime::sleep(Duration::from_secs(5)).await;
        assert!(is_open(&core, shard));
        append(&router, shard, LARGE).await.unwrap();
    });
}

#[test]
fn a_core_that_closes_meanwhile_refuses_the_batch_and_leaves_nothing_of_it() {
    for durability in [Durability::OnCommit, Durability::Periodic] {
        let rig = rig(1, durability);
        let simulation = Simulation::new(4);
        life_of_core(&simulation, rig, &[rig], move |core| async move {
            let (router, shard) = (core.router(), shards(rig)[0]);
            append(&router, shard, SMALL).await.unwrap();
            set_faults(slow_write(ms(100)));
            let large = begin(&router, shard, LARGE);
            runtime::sleep(ms(10)).await;
            let behind = begin(&router, shard, SMALL);
            runtime::sleep(ms(10)).await;
            assert_eq!(core.close().await.len(), 0);
            assert_eq!(large.join().await, Err(ShardError::ShuttingDown));
            assert_eq!(behind.join().await, Err(ShardError::ShuttingDown));
        });
        life_of_core(&simulation, rig, &[rig], move |core| async move {
            let (router, shard) = (core.router(), shards(rig)[0]);
            assert_eq!(append(&router, shard, SMALL).await, Ok(Offset::new(1)));
            assert_eq!(
                metric(&core, "felix_storage_recovery_truncated_bytes_total"),
                0
            );
        });
    }
}

#[test]
fn a_disk_that_is_full_halfway_takes_the_next_batch_that_fits() {
    let rig = rig(1, Durability::OnCommit);
    life_of_core(&Simulation::new(5), rig, &[rig], move |core| async move {
        let (router, shard) = (core.router(), shards(rig)[0]);
        append(&router, shard, SMALL).await.unwrap();
        let used = current().expect("it is simulated").disk().bytes();
        set_faults(Faults {
            capacity: Some(used + 3 * LARGE / 4),
            ..Faults::default()
        });
        let refused = append(&router, shard, LARGE).await;
        assert!(
            matches!(refused, Err(ShardError::DiskFull { .. })),
            "{refused:?}"
        );
        assert_eq!(append(&router, shard, SMALL).await, Ok(Offset::new(1)));
    });
}

#[test]
fn a_segment_is_sealed_for_its_age_once_the_batch_is_in_it() {
    let rig = Rig {
        segment_age: Duration::from_secs(1),
        ..rig(1, Durability::OnCommit)
    };
    life_of_core(&Simulation::new(6), rig, &[rig], move |core| async move {
        let (router, shard) = (core.router(), shards(rig)[0]);
        let rolls = || metric(&core, "felix_storage_segment_roll_total");
        append(&router, shard, SMALL).await.unwrap();
        set_faults(slow_write(Duration::from_secs(5)));
        let large = begin(&router, shard, LARGE);
        runtime::sleep(Duration::from_secs(4)).await;
        assert_eq!(rolls(), 0);
        assert_eq!(large.join().await, Ok(Offset::new(1)));
        runtime::sleep(Duration::from_secs(3)).await;
        assert_eq!(rolls(), 1);
    });
}

#[test]
fn a_batch_that_waits_for_a_place_is_refused_at_its_deadline() {
    let rig = rig(u32::try_from(STUCK).unwrap() + 1, Durability::Periodic);
    life_of_core(&Simulation::new(7), rig, &[rig], move |core| async move {
        let (router, last) = (core.router(), shards(rig)[STUCK]);
        let stuck = take_all_places(rig, &router).await;
        let large = Append {
            shard: last,
            batch: large_batch(LARGE),
        };
        let deadline = Monotonic(now() + ms(300));
        let committed = router.append_until(vec![large], Acks::All, Some(deadline));
        let refused = committed.await.await.remove(0);
        assert_eq!(refused, Err(ShardError::NoRoomInTime));
        assert!((deadline.0..deadline.0 + ms(1)).contains(&now()));
        assert_eq!(append(&router, last, SMALL).await, Ok(Offset::ZERO));
        held(Held::let_go);
        for stuck in stuck {
            assert_eq!(stuck.join().await, Ok(Offset::ZERO));
        }
    });
}

#[test]
fn a_batch_that_waits_for_a_place_is_refused_when_the_core_closes() {
    let rig = rig(u32::try_from(STUCK).unwrap() + 1, Durability::Periodic);
    life_of_core(&Simulation::new(8), rig, &[rig], move |core| async move {
        let router = core.router();
        let stuck = take_all_places(rig, &router).await;
        let waits = begin(&router, shards(rig)[STUCK], LARGE);
        runtime::sleep(ms(10)).await;
        let closing = runtime::spawn_local(core.close());
        assert_eq!(waits.join().await, Err(ShardError::ShuttingDown));
        held(Held::let_go);
        for stuck in stuck {
            assert_eq!(stuck.join().await, Err(ShardError::ShuttingDown));
        }
        assert_eq!(closing.join().await.len(), 0);
    });
}

#[test]
fn a_batch_that_waits_for_a_place_is_not_written_to_a_log_that_has_failed_meanwhile() {
    let rig = rig(u32::try_from(STUCK).unwrap() + 1, Durability::OnCommit);
    life_of_core(&Simulation::new(9), rig, &[rig], move |core| async move {
        let (router, last) = (core.router(), shards(rig)[STUCK]);
        let stuck = take_all_places(rig, &router).await;
        set_faults(Faults {
            flush: 10_000,
            stall: 10_000,
            slow: ms(50),
            ..Faults::default()
        });
        let small = begin(&router, last, SMALL);
        runtime::sleep(ms(1)).await;
        let waits = begin(&router, last, LARGE);
        assert!(matches!(small.join().await, Err(ShardError::Storage(_))));
        set_faults(Faults::default());
        runtime::sleep(Duration::from_secs(5)).await;
        assert!(is_open(&core, last), "nothing was being written to it");
        let behind = begin(&router, last, LARGE);
        runtime::sleep(ms(10)).await;
        held(Held::let_go);
        assert_eq!(waits.join().await, Err(ShardError::NotLeader));
        assert!(behind.join().await.is_ok());
        for stuck in stuck {
            stuck.join().await.unwrap();
        }
        assert_eq!(metric(&core, "felix_storage_writes_aside_total"), 5);
    });
}

#[test]
fn a_write_that_fails_fails_its_shard_which_is_opened_again() {
    let rig = rig(1, Durability::OnCommit);
    life_of_core(&Simulation::new(10), rig, &[rig], move |core| async move {
        let (router, shard) = (core.router(), shards(rig)[0]);
        append(&router, shard, SMALL).await.unwrap();
        set_faults(Faults {
            write: 10_000,
            ..Faults::default()
        });
        let failed = append(&router, shard, LARGE).await;
        assert!(matches!(failed, Err(ShardError::Storage(_))), "{failed:?}");
        assert!(!is_open(&core, shard));
        set_faults(Faults::default());
        runtime::sleep(Duration::from_secs(5)).await;
        assert_eq!(append(&router, shard, LARGE).await, Ok(Offset::new(1)));
    });
}
