//! What an append promises.

use super::{Bench, Rig, batch, large_batch, records, run};
use crate::event::step_aside;
use felix_core::limits::SHARD_UNCOMMITTED_BYTES_MAX;
use felix_core::shards::{Acks, Append};
use felix_core::{Durability, Offset, ShardError, Shards};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::rc::Rc;

#[test]
fn pipelined_appends_keep_their_order_on_the_own_core_and_across_cores() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        run(Rig::new(2, durability), |bench| async move {
            if bench.is_first() {
                for shard in 0..2 {
                    keeps_order(&bench, shard).await;
                }
                assert!(bench.metric("felix_shard_hops_total") > 0);
            }
        });
    }
}

async fn keeps_order(bench: &Rc<Bench>, shard: u32) {
    let mut committed = Vec::new();
    for number in 0..300 {
        let batch = batch(&[&format!("{number}a"), &format!("{number}b")]);
        let append = Append {
            shard: bench.shard(shard),
            batch,
        };
        committed.push(bench.router.append(vec![append], Acks::All).await);
    }
    let results = join_all(committed).await;
    for (number, mut result) in (0_u64..).zip(results) {
        let appended = result.remove(0).unwrap();
        assert_eq!(
            appended.base_offset,
            Offset::new(number * 2),
            "shard {shard}"
        );
    }
    let expected: Vec<(u64, String)> = (0_u64..300)
        .flat_map(|number| {
            [
                (number * 2, format!("{number}a")),
                (number * 2 + 1, format!("{number}b")),
            ]
        })
        .collect();
    assert_eq!(records(&bench.read(shard, 0).await.unwrap()), expected);
}

#[test]
fn one_request_for_many_shards_is_answered_in_the_order_asked() {
    run(
        Rig {
            shards: 6,
            ..Rig::new(2, Durability::OnCommit)
        },
        |bench| async move {
            if !bench.is_first() {
                return;
            }
            let asked = [5, 0, 3, 9, 2];
            let appends = asked.map(|index| Append {
                shard: bench.shard(index),
                batch: batch(&["x"]),
            });
            let results = bench.router.append(appends.into(), Acks::All).await.await;
            assert_eq!(results.len(), 5);
            for (index, result) in asked.into_iter().zip(results) {
                match result {
                    Ok(appended) => assert_eq!(appended.base_offset, Offset::ZERO),
                    Err(error) => assert_eq!((index, error), (9, ShardError::Unknown)),
                }
            }
            // Three messages to one peer would be three hops: there is one message per owner.
            assert_eq!(bench.metric("felix_shard_hops_total"), 1);
        },
    );
}

#[test]
fn an_on_commit_append_is_answered_and_shown_after_its_flush_and_not_before() {
    run(Rig::new(1, Durability::OnCommit), |bench| async move {
        let mut committed = Vec::new();
        for _ in 0..10 {
            let append = Append {
                shard: bench.shard(0),
                batch: batch(&["x"]),
            };
            let admitted = bench.router.append(vec![append], Acks::All);
            committed.push(Box::pin(admitted.now_or_never().expect("there is room")));
        }
        for committed in &mut committed {
            assert!(
                committed.now_or_never().is_none(),
                "nothing has been flushed"
            );
        }
        assert!(bench.metric("felix_storage_unsynced_bytes") > 0);
        let before = bench
            .read(0, 0)
            .now_or_never()
            .expect("nothing to wait for")
            .unwrap();
        assert_eq!((before.visible_end, before.bytes()), (Offset::ZERO, 0));
        join_all(committed).await;
        assert_eq!(bench.metric("felix_storage_unsynced_bytes"), 0);
        assert_eq!(bench.read(0, 0).await.unwrap().visible_end, Offset::new(10));
        // What was written together shares a flush.
        assert_eq!(bench.metric("felix_storage_sync_total"), 1);
        assert_eq!(bench.metric("felix_storage_sync_appends_total"), 10);
    });
}

#[test]
fn an_append_that_comes_during_a_flush_waits_for_the_next_one() {
    run(Rig::new(1, Durability::OnCommit), |bench| async move {
        let append = || {
            let append = Append {
                shard: bench.shard(0),
                batch: batch(&["x"]),
            };
            let admitted = bench.router.append(vec![append], Acks::All);
            Box::pin(admitted.now_or_never().expect("there is room"))
        };
        // A flush that ends before the second append comes proves nothing: then again.
        for _ in 0..100 {
            let flushes = bench.metric("felix_storage_sync_total");
            let mut first = append();
            while bench.metric("felix_storage_sync_total") == flushes {
                step_aside().await;
            }
            if (&mut first).now_or_never().is_some() {
                continue;
            }
            let mut second = append();
            let first = first.await.remove(0).unwrap();
            assert!(
                (&mut second).now_or_never().is_none(),
                "its flush has not ended"
            );
            let visible_end = bench
                .read(0, 0)
                .now_or_never()
                .unwrap()
                .unwrap()
                .visible_end;
            assert_eq!(visible_end, first.base_offset.after(1));
            second.await.remove(0).unwrap();
            assert_eq!(bench.metric("felix_storage_sync_total"), flushes + 2);
            return;
        }
        panic!("no append came during a flush");
    });
}

#[test]
fn dirty_shards_of_a_core_share_a_round() {
    run(
        Rig {
            shards: 40,
            ..Rig::new(1, Durability::OnCommit)
        },
        |bench| async move {
            let appends: Vec<Append> = (0..40)
                .map(|index| Append {
                    shard: bench.shard(index),
                    batch: batch(&["x"]),
                })
                .collect();
            let results = bench.router.append(appends, Acks::All).await.await;
            assert!(results.iter().all(Result::is_ok));
            assert_eq!(bench.metric("felix_storage_sync_rounds_total"), 1);
            assert_eq!(bench.metric("felix_storage_sync_total"), 40);
        },
    );
}

#[test]
fn a_periodic_append_is_answered_at_once_and_flushed_within_the_interval() {
    run(Rig::new(1, Durability::Periodic), |bench| async move {
        let append = Append {
            shard: bench.shard(0),
            batch: batch(&["x"]),
        };
        let committed = bench
            .router
            .append(vec![append], Acks::All)
            .now_or_never()
            .unwrap();
        let results = committed.now_or_never().expect("written is committed");
        assert!(results[0].is_ok());
        assert!(bench.metric("felix_storage_unsynced_bytes") > 0);
        bench
            .until("a flush", || {
                bench.metric("felix_storage_unsynced_bytes") == 0
            })
            .await;
        assert_eq!(bench.metric("felix_storage_sync_rounds_total"), 1);
        // Nothing is dirty, so nothing ticks.
        glommio::timer::sleep(bench.rig.flush_interval * 5).await;
        assert_eq!(bench.metric("felix_storage_sync_rounds_total"), 1);
    });
}

#[test]
fn a_shard_of_policy_none_is_never_flushed_while_open() {
    run(Rig::new(1, Durability::None), |bench| async move {
        bench.append(0, batch(&["x"])).await.unwrap();
        glommio::timer::sleep(bench.rig.flush_interval * 5).await;
        assert_eq!(bench.metric("felix_storage_sync_rounds_total"), 0);
        assert!(bench.metric("felix_storage_unsynced_bytes") > 0);
    });
}

#[test]
fn appends_over_the_bound_of_a_shard_park_in_order_and_stop_nobody_else() {
    run(
        Rig {
            shards: 2,
            ..Rig::new(1, Durability::OnCommit)
        },
        |bench| async move {
            let bytes = 6 << 20;
            let fitting = SHARD_UNCOMMITTED_BYTES_MAX / (bytes + 100);
            let mut admissions: Vec<_> = (0..fitting + 4)
                .map(|_| {
                    let append = Append {
                        shard: bench.shard(0),
                        batch: large_batch(bytes),
                    };
                    Box::pin(bench.router.append(vec![append], Acks::All))
                })
                .collect();
            let mut committed = Vec::new();
            for (number, mut admission) in admissions.drain(..).enumerate() {
                match (&mut admission).now_or_never() {
                    Some(commit) => {
                        assert!(number < fitting, "append {number} has no room");
                        committed.push(commit.boxed_local());
                    }
                    None => {
                        assert!(number >= fitting, "append {number} has room");
                        committed.push(async move { admission.await.await }.boxed_local());
                    }
                }
            }
            assert_eq!(bench.metric("felix_shard_parked_appends"), 4);
            // A small one would have room and still may not overtake; another shard has its own bound.
            let small = Append {
                shard: bench.shard(0),
                batch: batch(&["small"]),
            };
            let mut overtaking = Box::pin(bench.router.append(vec![small], Acks::All));
            assert!((&mut overtaking).now_or_never().is_none());
            let other = Append {
                shard: bench.shard(1),
                batch: batch(&["other"]),
            };
            let other = bench.router.append(vec![other], Acks::All);
            assert!(other.now_or_never().expect("it has room").await[0].is_ok());
            for (number, mut results) in (0_u64..).zip(join_all(committed).await) {
                assert_eq!(results.remove(0).unwrap().base_offset, Offset::new(number));
            }
            let last = overtaking.await.await.remove(0).unwrap();
            assert_eq!(
                last.base_offset,
                Offset::new(u64::try_from(fitting).unwrap() + 4)
            );
            assert_eq!(bench.metric("felix_shard_parked_appends"), 0);
        },
    );
}

#[test]
fn a_batch_larger_than_a_segment_is_refused_and_the_shard_goes_on() {
    let rig = Rig {
        segment_bytes_max: 4096,
        ..Rig::new(1, Durability::Periodic)
    };
    run(rig, |bench| async move {
        let refused = bench.append(0, large_batch(5000)).await;
        assert_eq!(refused, Err(ShardError::BatchTooLarge { bytes_max: 4096 }));
        assert!(bench.append(0, batch(&["x"])).await.is_ok());
    });
}
