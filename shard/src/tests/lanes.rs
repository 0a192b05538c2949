//! What lanes and tables promise.

use super::{FOREVER, Never, Rig, batch, run, run_in};
use felix_core::limits::LANE_CREDITS;
use felix_core::shards::{Acks, Append, ShardState};
use felix_core::{Durability, Generation, Offset, ShardError, Shards};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::time::Duration;

#[test]
fn a_full_lane_stops_who_wants_to_cross_it_and_nobody_else() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        run(Rig::new(2, durability), |bench| async move {
            if !bench.is_first() {
                return;
            }
            // Replies are taken by a task of this core, which cannot run before the first await:
            // until then every request holds its credit.
            let append = |shard| {
                let append = Append {
                    shard: bench.shard(shard),
                    batch: batch(&["x"]),
                };
                Box::pin(bench.router.append(vec![append], Acks::All))
            };
            let over = 10;
            let mut crossing = Vec::new();
            for _ in 0..LANE_CREDITS + over {
                let mut append = append(1);
                assert!((&mut append).now_or_never().is_none());
                crossing.push(append);
            }
            let waits = bench.metric("felix_shard_credit_waits_total");
            assert_eq!(waits, i64::try_from(over).unwrap());
            assert!(
                append(0).now_or_never().is_some(),
                "the own shard needs no lane"
            );
            // A connection that gives up gives up its place, too.
            drop(crossing.pop());
            let results = join_all(
                crossing
                    .into_iter()
                    .map(|append| async { append.await.await }),
            );
            for (number, mut result) in (0_u64..).zip(results.await) {
                assert_eq!(result.remove(0).unwrap().base_offset, Offset::new(number));
            }
        });
    }
}

#[test]
fn many_connections_on_every_core_cross_all_lanes_at_once() {
    run(
        Rig {
            shards: 7,
            ..Rig::new(3, Durability::OnCommit)
        },
        |bench| async move {
            let connections = (0..96_u32).map(|connection| {
                let bench = &bench;
                async move {
                    for round in 0..20 {
                        let shard = (connection + round) % 6;
                        let append = Append {
                            shard: bench.shard(shard),
                            batch: batch(&["x"]),
                        };
                        let committed = bench.router.append(vec![append], Acks::All).await;
                        let base = committed.await.remove(0).unwrap().base_offset;
                        let read = bench.read(shard, base.get()).await.unwrap();
                        assert!(read.visible_end > base, "a writer reads what it wrote");
                        assert!(read.bytes() > 0);
                    }
                }
            });
            join_all(connections).await;
            // Shard 6 belongs to core 0 and counts the cores that are done.
            bench.append(6, batch(&["done"])).await.unwrap();
            if bench.is_first() {
                let mut done = Offset::ZERO;
                while done < Offset::new(3) {
                    let fetch = bench.fetch(vec![bench.part(6, done.get())], 1, FOREVER);
                    let fetched = bench.router.fetch(fetch, Never).await.remove(0).unwrap();
                    assert!(fetched.bytes() > 0, "nothing came for {FOREVER:?}");
                    done = fetched.visible_end;
                }
                // 3 * 96 * 20 batches, evenly over 6 shards.
                for shard in 0..6 {
                    let end = bench.read(shard, 960).await.unwrap().visible_end;
                    assert_eq!(end, Offset::new(960));
                }
            }
        },
    );
}

#[test]
fn the_state_of_every_shard_reaches_every_core() {
    run(
        Rig {
            shards: 9,
            ..Rig::new(3, Durability::Periodic)
        },
        |bench| async move {
            for index in 0..9 {
                let state = bench.router.state(bench.shard(index));
                assert_eq!(state, Some(ShardState::Open(Generation::FIRST)));
            }
            assert_eq!(bench.router.state(bench.shard(9)), None);
            assert_eq!(bench.metric("felix_shard_open"), 3);
        },
    );
}

#[test]
fn a_shard_that_cannot_be_opened_is_failed_everywhere_and_the_others_are_served() {
    let root = tempfile::tempdir().unwrap();
    let rig = Rig {
        shards: 4,
        ..Rig::new(2, Durability::Periodic)
    };
    let broken = &rig.specs(root.path())[1].directory;
    std::fs::create_dir_all(broken.parent().unwrap()).unwrap();
    std::fs::write(broken, "a file where the directory should be").unwrap();
    run_in(&root, rig, |bench| async move {
        for index in 0..4 {
            let state = bench.router.state(bench.shard(index)).unwrap();
            assert_eq!(state == ShardState::Failed, index == 1, "shard {index}");
            let appended = bench.append(index, batch(&["x"])).await;
            match appended {
                Ok(_) => assert_ne!(index, 1),
                Err(ShardError::Storage(reason)) => {
                    assert_eq!(index, 1);
                    assert!(reason.contains("default.clicks-1"), "{reason}");
                }
                Err(error) => panic!("shard {index}: {error}"),
            }
        }
        assert!(matches!(
            bench.read(1, 0).await,
            Err(ShardError::Storage(_))
        ));
    });
}

#[test]
fn a_failed_write_poisons_its_shard_on_every_core_and_no_other() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_owned();
    let rig = Rig {
        shards: 4,
        segment_bytes_max: 300,
        ..Rig::new(2, Durability::OnCommit)
    };
    run_in(&root, rig, move |bench| {
        let directory = rig.specs(&path)[1].directory.clone();
        async move {
            let state = || bench.router.state(bench.shard(1));
            if !bench.is_first() {
                bench
                    .until("the news", || state() == Some(ShardState::Failed))
                    .await;
                return;
            }
            bench.append(1, batch(&["kept"])).await.unwrap();
            std::fs::remove_dir_all(&directory).unwrap();
            let waiting = bench.fetch(vec![bench.part(1, 1)], 1 << 20, FOREVER);
            let waiting = glommio::spawn_local(bench.router.fetch(waiting, Never));
            let mut appends = Vec::new();
            for _ in 0..10 {
                let append = Append {
                    shard: bench.shard(1),
                    batch: batch(&[&"x".repeat(100)]),
                };
                appends.push(bench.router.append(vec![append], Acks::All).await);
            }
            let results: Vec<_> = join_all(appends).await.into_iter().flatten().collect();
            assert!(
                matches!(results.last(), Some(Err(ShardError::Storage(_)))),
                "{results:?}"
            );
            assert!(matches!(waiting.await[0], Err(ShardError::Storage(_))));
            assert!(matches!(
                bench.read(1, 0).await,
                Err(ShardError::Storage(_))
            ));
            bench
                .until("the news", || state() == Some(ShardState::Failed))
                .await;
            bench
                .append(3, batch(&["another of that core"]))
                .await
                .unwrap();
            assert_eq!(bench.router.state(bench.shard(3)).map(|_| ()), Some(()));
        }
    });
}

#[test]
fn an_idle_core_sleeps() {
    run(Rig::new(2, Durability::Periodic), |bench| async move {
        bench.append(0, batch(&["x"])).await.unwrap();
        bench
            .until("a flush", || {
                bench.metric("felix_storage_unsynced_bytes") == 0
            })
            .await;
        // What the append left to do, such as a look at the free space, may be done meanwhile; what
        // ticks is done in every window.
        let mut fewest = u64::MAX;
        for _ in 0..10 {
            // Asking for the numbers begins them anew.
            let _: glommio::ExecutorStats = glommio::executor().executor_stats();
            glommio::timer::sleep(Duration::from_millis(200)).await;
            let ran = glommio::executor().executor_stats().tasks_executed();
            fewest = fewest.min(ran);
            if fewest <= 2 {
                break;
            }
        }
        assert!(fewest <= 2, "{fewest} tasks ran while nothing happened");
    });
}
