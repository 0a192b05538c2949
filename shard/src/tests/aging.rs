//! Segments that are sealed for their age: retention by age reaches a shard that nobody writes to
//! any more, and those that are idle cost nothing.

use super::Rig;
use super::keeping::{append, checkpoint};
use super::simulated::life;
use crate::runtime;
use crate::runtime::simulated::{self, Simulation};
use felix_core::{Durability, Retention, ShardId};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn of_age(age: Duration) -> Retention {
    Retention {
        bytes: None,
        age: Some(age),
    }
}

const EVERY_POLICY: [Durability; 3] =
    [Durability::None, Durability::Periodic, Durability::OnCommit];

#[test]
fn time_takes_the_last_records_of_a_quiet_shard() {
    for durability in EVERY_POLICY {
        let rig = Rig {
            retention: of_age(HOUR),
            ..Rig::new(1, durability)
        };
        let simulation = Simulation::new(21);
        life(&simulation, rig, move |router, shard| async move {
            append(&router, shard, 100).await;
            append(&router, shard, 100).await;
            runtime::sleep(HOUR - Duration::from_secs(5)).await;
            assert_eq!(checkpoint(rig).await.1, 0);
            runtime::sleep(Duration::from_secs(200)).await;
            assert_eq!(checkpoint(rig).await, (2, 2));
            // What follows has its own time.
            append(&router, shard, 100).await;
            runtime::sleep(HOUR - Duration::from_secs(60)).await;
            assert_eq!(checkpoint(rig).await.1, 2);
            runtime::sleep(Duration::from_secs(300)).await;
            assert_eq!(checkpoint(rig).await, (3, 3));
        });
    }
}

#[test]
fn a_restart_does_not_give_them_more_time() {
    // With `none` nothing says so before the roll, and the time of the opening counts.
    for durability in [Durability::Periodic, Durability::OnCommit] {
        let rig = Rig {
            retention: of_age(10 * HOUR),
            ..Rig::new(1, durability)
        };
        let simulation = Simulation::new(22);
        for (hours, start) in [(4, 0), (4, 0), (3, 1)] {
            life(&simulation, rig, move |router, shard| async move {
                if hours == 4 && checkpoint(rig).await.0 == 0 {
                    append(&router, shard, 100).await;
                }
                runtime::sleep(HOUR * hours).await;
                assert_eq!(checkpoint(rig).await.1, start, "{durability:?}");
            });
        }
    }
}

#[test]
fn idle_shards_wake_their_core_once_when_they_are_due_and_never_again() {
    const DAY: Duration = Duration::from_secs(86_400);
    let rig = Rig {
        shards: 40,
        segment_age: 7 * DAY,
        ..Rig::new(1, Durability::Periodic)
    };
    let simulation = Simulation::new(23);
    life(&simulation, rig, move |router, first| async move {
        for index in 0..rig.shards {
            let shard = ShardId { index, ..first };
            append(&router, shard, 100).await;
        }
        // Until the checkpoints are written.
        runtime::sleep(HOUR).await;
        let turns = || simulated::current().unwrap().turns();
        let before = turns();
        runtime::sleep(6 * DAY).await;
        assert!(turns() - before < 10, "{} turns", turns() - before);
        runtime::sleep(2 * DAY).await;
        let at_the_roll = turns();
        assert!(at_the_roll - before > 40, "each was sealed");
        runtime::sleep(100 * DAY).await;
        assert!(turns() - at_the_roll < 10, "and stays empty");
    });
}
