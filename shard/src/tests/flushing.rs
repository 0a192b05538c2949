//! Rounds of flushes: how long appends wait for theirs, and who waits for whom.

use super::simulated::life_of_core;
use super::virtual_core::{ms, now, set_faults, shards, slow};
use super::{Rig, large_batch, metric};
use crate::Core;
use crate::runtime;
use crate::runtime::simulated::Simulation;
use felix_core::shards::{Acks, Append};
use felix_core::{Durability, Monotonic, ShardId, Shards};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(50);

fn rig(durability: Durability, shards: u32) -> Rig {
    Rig {
        shards,
        flush_interval: INTERVAL,
        ..Rig::new(1, durability)
    }
}

async fn append(core: &Core, shard: ShardId) {
    append_bytes(core, shard, 1).await;
}

async fn append_bytes(core: &Core, shard: ShardId, bytes: usize) {
    let append = Append {
        shard,
        batch: large_batch(bytes),
    };
    let committed = core.router().append(vec![append], Acks::All).await;
    committed.await.remove(0).unwrap();
}

/// How many intervals were reached, and their sum.
fn intervals(core: &Core) -> (u64, Duration) {
    let mut found = None;
    core.metrics()
        .distributions(Monotonic(now()), &mut |distribution| {
            if distribution.name == "felix_storage_sync_interval_seconds" {
                found = Some(distribution.values);
            }
        });
    let values = found.expect("there is such a metric");
    (values.count(), Duration::from_micros(values.sum()))
}

fn overdue(core: &Core) -> i64 {
    metric(core, "felix_storage_overdue_syncs_total")
}

#[test]
fn the_interval_reached_is_told_of_each_round() {
    let rig = rig(Durability::Periodic, 3);
    life_of_core(&Simulation::new(1), rig, &[rig], move |core| async move {
        set_faults(slow(ms(20)));
        let shards = shards(rig);
        append(&core, shards[0]).await;
        runtime::sleep(ms(40)).await;
        append(&core, shards[1]).await;
        runtime::sleep(ms(40)).await;
        let (count, sum) = intervals(&core);
        assert_eq!(count, 1, "one round, for both");
        assert!((ms(70)..ms(75)).contains(&sum), "the older one's: {sum:?}");
        // During a flush: the next round waits for as long as is left of the interval.
        append(&core, shards[0]).await;
        runtime::sleep(ms(55)).await;
        append(&core, shards[2]).await;
        runtime::sleep(ms(80)).await;
        let (count, sum) = intervals(&core);
        assert_eq!(count, 3);
        assert!((ms(210)..ms(220)).contains(&sum), "{sum:?}");
        let last = metric(&core, "felix_storage_sync_interval_us");
        assert!((70_000..75_000).contains(&last), "{last}");
        assert_eq!(overdue(&core), 0);
    });
}

#[test]
fn an_append_during_the_flush_of_its_own_shard_waits_for_no_more_than_the_interval_and_a_flush() {
    let rig = rig(Durability::Periodic, 1);
    life_of_core(&Simulation::new(1), rig, &[rig], move |core| async move {
        set_faults(slow(ms(20)));
        let shard = shards(rig)[0];
        append(&core, shard).await;
        runtime::sleep(ms(55)).await;
        append(&core, shard).await;
        runtime::sleep(ms(80)).await;
        let (count, sum) = intervals(&core);
        assert_eq!(count, 2);
        assert!((ms(140)..ms(150)).contains(&sum), "{sum:?}");
    });
}

#[test]
fn an_append_during_a_late_flush_of_its_own_shard_waits_for_no_more_than_that_flush_and_another() {
    let rig = rig(Durability::Periodic, 2);
    life_of_core(&Simulation::new(1), rig, &[rig], move |core| async move {
        set_faults(slow(ms(120)));
        let shards = shards(rig);
        append(&core, shards[0]).await;
        // It is flushed from 50 to 170 ms, and from 150 on nobody waits for that.
        runtime::sleep(ms(60)).await;
        append(&core, shards[0]).await;
        runtime::sleep(ms(100)).await;
        // Another shard's append has a round planned for 200.
        append(&core, shards[1]).await;
        runtime::sleep(ms(300)).await;
        let (count, sum) = intervals(&core);
        assert_eq!(count, 3);
        // 170, from 60 to 170 and 120 more, from 160 to 170 and 120 more.
        assert!((ms(500)..ms(580)).contains(&sum), "{sum:?}");
    });
}

#[test]
fn what_is_written_to_shards_that_wait_in_line_for_their_flush_begins_no_round_sooner() {
    const INTERVAL: Duration = Duration::from_millis(200);
    // A device takes fewer at a time.
    let rig = Rig {
        flush_interval: INTERVAL,
        ..rig(Durability::Periodic, 150)
    };
    life_of_core(&Simulation::new(1), rig, &[rig], move |core| async move {
        set_faults(slow(ms(10)));
        let shards = shards(rig);
        let rounds = || metric(&core, "felix_storage_sync_rounds_total");
        let before = rounds();
        let until = now() + 10 * INTERVAL;
        while now() < until {
            for shard in &shards {
                append(&core, *shard).await;
            }
            runtime::sleep(ms(10)).await;
        }
        let rounds = rounds() - before;
        assert!((8..=11).contains(&rounds), "{rounds}");
    });
}

#[test]
fn space_lasts_while_a_device_takes_half_a_second_for_each_step_of_it() {
    let rig = rig(Durability::Periodic, 1);
    life_of_core(&Simulation::new(3), rig, &[rig], move |core| async move {
        set_faults(slow(ms(500)));
        let shard = shards(rig)[0];
        // 5 MB a second, of which the first steps know nothing.
        let unprepared = || metric(&core, "felix_storage_unprepared_appends_total");
        let mut at_first = 0;
        for number in 0..3_000 {
            if number == 1_000 {
                at_first = unprepared();
            }
            append_bytes(&core, shard, 16 << 10).await;
            runtime::sleep(ms(3)).await;
        }
        assert!(at_first > 0);
        assert_eq!(unprepared(), at_first);
    });
}

#[test]
fn an_append_that_waits_for_more_than_twice_the_interval_is_told_though_its_flush_has_not_ended() {
    let rig = rig(Durability::Periodic, 3);
    life_of_core(&Simulation::new(2), rig, &[rig], move |core| async move {
        set_faults(slow(ms(10_000)));
        let shards = shards(rig);
        append(&core, shards[0]).await;
        append(&core, shards[1]).await;
        runtime::sleep(ms(95)).await;
        assert_eq!(overdue(&core), 0);
        runtime::sleep(ms(10)).await;
        assert_eq!(overdue(&core), 2, "both");
        assert_eq!(intervals(&core).0, 0, "no flush has ended");
        // Something that waits behind the flush that is stuck is told as well, once.
        append(&core, shards[0]).await;
        runtime::sleep(ms(5_000)).await;
        assert_eq!(overdue(&core), 3);
        set_faults(slow(ms(1)));
        runtime::sleep(ms(6_000)).await;
        assert_eq!(overdue(&core), 3);
        assert_eq!(metric(&core, "felix_storage_unsynced_bytes"), 0);
        let (count, sum) = intervals(&core);
        assert_eq!(count, 3, "each of the late ones by itself");
        assert!(sum > ms(29_000), "{sum:?}");
        // Once the device is well, so is this.
        for _ in 0..50 {
            append(&core, shards[2]).await;
            runtime::sleep(ms(10)).await;
        }
        assert_eq!(overdue(&core), 3);
    });
}

#[test]
fn a_flush_that_ends_a_little_too_late_is_told_once() {
    let rig = rig(Durability::Periodic, 1);
    life_of_core(&Simulation::new(3), rig, &[rig], move |core| async move {
        set_faults(slow(ms(70)));
        append(&core, shards(rig)[0]).await;
        runtime::sleep(ms(500)).await;
        assert_eq!(overdue(&core), 1);
        assert_eq!(metric(&core, "felix_storage_late_syncs_total"), 0);
    });
}

#[test]
fn a_thousand_dirty_shards_are_durable_within_twice_the_interval() {
    let rig = rig(Durability::Periodic, 1000);
    life_of_core(&Simulation::new(4), rig, &[rig], move |core| async move {
        let begun = now();
        for shard in shards(rig) {
            append(&core, shard).await;
        }
        let appended = now();
        while metric(&core, "felix_storage_unsynced_bytes") > 0 {
            runtime::sleep(ms(1)).await;
        }
        assert!(now() - appended < 2 * INTERVAL, "{:?}", now() - appended);
        let rounds = metric(&core, "felix_storage_sync_rounds_total");
        assert!(rounds <= 2, "{rounds} rounds in {:?}", now() - begun);
        assert_eq!(metric(&core, "felix_storage_sync_total"), 1000);
        assert_eq!(overdue(&core), 0);
    });
}

#[test]
fn an_append_that_waits_for_its_flush_does_not_wait_for_a_round_that_nobody_waits_for() {
    let periodic = rig(Durability::Periodic, 400);
    let on_commit = Rig {
        stream: "orders",
        ..rig(Durability::OnCommit, 1)
    };
    let streams = [periodic, on_commit];
    life_of_core(
        &Simulation::new(5),
        periodic,
        &streams,
        move |core| async move {
            set_faults(slow(ms(40)));
            for shard in shards(periodic) {
                append(&core, shard).await;
            }
            let rounds = || metric(&core, "felix_storage_sync_rounds_total");
            while rounds() == 0 {
                runtime::sleep(ms(1)).await;
            }
            let awaited = shards(on_commit)[0];
            for _ in 0..5 {
                let begun = now();
                append(&core, awaited).await;
                assert!(now() - begun < ms(60), "{:?}", now() - begun);
            }
            assert!(
                metric(&core, "felix_storage_dirty_bytes") > 0,
                "the round goes on"
            );
            assert_eq!(rounds(), 1 + 5);
        },
    );
}
