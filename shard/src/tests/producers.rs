//! What an idempotent producer is promised.

use super::simulated::life;
use super::{Bench, Rig, batches, records, run, run_in};
use crate::runtime::simulated::Simulation;
use crate::shard::Failure;
use bytes::Bytes;
use felix_core::batch::{BatchBuilder, Codec, Place};
use felix_core::shards::{Acks, Append, Appended};
use felix_core::{Batch, Durability, Generation, Offset, ShardError, Shards, Timestamp};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::rc::Rc;

const ID: i64 = 1_000_007;

const POLICIES: [Durability; 3] = [Durability::OnCommit, Durability::Periodic, Durability::None];

/// The records of one producer from one sequence on, in epoch 0; each value is its number.
pub(super) fn of(id: i64, first: u64, records: u64) -> Batch {
    in_epoch(0, id, first, records, Codec::None)
}

fn in_epoch(epoch: i16, id: i64, first: u64, records: u64, codec: Codec) -> Batch {
    let sequence = i32::try_from(first % (1 << 31)).unwrap();
    let builder = BatchBuilder::new()
        .codec(codec)
        .producer(id, epoch, sequence);
    let numbers = first..first + records;
    let builder = numbers.fold(builder, |builder, number| {
        builder.record(Timestamp(1000), None, Some(number.to_string().as_bytes()))
    });
    Batch::parse(builder.build()).unwrap()
}

/// What another log has of a batch.
fn placed(batch: Batch, base: u64, generation: Generation) -> Bytes {
    let place = Place {
        base_offset: Offset::new(base),
        generation,
        append_time: None,
    };
    batch.place(place).bytes().clone()
}

impl Bench {
    /// Hands a batch to a shard of this core, which takes it at once.
    fn hand(
        &self,
        shard: u32,
        batch: Batch,
    ) -> impl Future<Output = Vec<Result<Appended, ShardError>>> + use<> + 'static {
        let shard = self.shard(shard);
        let handed = self.router.append(vec![Append { shard, batch }], Acks::All);
        handed.now_or_never().expect("it is placed at once")
    }

    pub(super) async fn base(&self, shard: u32, batch: Batch) -> Result<u64, ShardError> {
        let appended = self.append(shard, batch).await?;
        Ok(appended.base_offset.get())
    }

    /// The numbers in a shard of one producer, and all offsets.
    async fn numbers(&self, shard: u32) -> Vec<(u64, u64)> {
        let read = records(&self.read(shard, 0).await.unwrap());
        let numbers = read.into_iter();
        numbers
            .map(|(offset, number)| (offset, number.parse().unwrap()))
            .collect()
    }
}

fn each_once(count: u64) -> Vec<(u64, u64)> {
    (0..count).map(|number| (number, number)).collect()
}

#[test]
fn a_batch_that_is_sent_again_is_answered_with_its_first_offset_on_the_own_core_and_across_cores() {
    for durability in POLICIES {
        run(Rig::new(2, durability), |bench| async move {
            if !bench.is_first() {
                return;
            }
            for shard in 0..2 {
                for (first, records) in [
                    (0, 40),
                    (40, 5),
                    (40, 5),
                    (45, 5),
                    (40, 5),
                    (0, 40),
                    (42, 3),
                ] {
                    let base = bench.base(shard, of(ID, first, records)).await;
                    assert_eq!(base, Ok(first), "sequences {first} and {records} more");
                }
                assert_eq!(bench.numbers(shard).await, each_once(50));
            }
            let repeated = bench.metric("felix_producer_duplicates_total");
            assert_eq!((repeated, bench.metric("felix_producer_known")), (4, 1));
        });
    }
}

#[test]
fn a_batch_that_is_sent_again_before_its_commit_waits_with_the_first_one() {
    run(Rig::new(1, Durability::OnCommit), |bench| async move {
        bench.append(0, of(ID, 0, 40)).await.unwrap();
        let first = bench.hand(0, of(ID, 40, 5));
        let other = bench.hand(0, of(ID + 1, 0, 1));
        let mut again = Box::pin(bench.hand(0, of(ID, 40, 5)));
        // What is committed already is answered at once.
        let older = bench.hand(0, of(ID, 0, 40));
        assert_eq!(
            older.now_or_never().unwrap()[0]
                .as_ref()
                .unwrap()
                .base_offset,
            Offset::ZERO
        );
        assert!(again.as_mut().now_or_never().is_none());
        let answers = join_all([first.boxed_local(), other.boxed_local(), again])
            .await
            .concat();
        let bases: Vec<_> = answers
            .into_iter()
            .map(|answer| answer.unwrap().base_offset.get())
            .collect();
        assert_eq!(bases, [40, 45, 40]);
        assert_eq!(bench.numbers(0).await.len(), 46);
    });
}

#[test]
fn a_batch_that_is_sent_again_fails_with_the_first_one() {
    run(Rig::new(1, Durability::OnCommit), |bench| async move {
        bench.append(0, of(ID, 0, 40)).await.unwrap();
        let first = bench.hand(0, of(ID, 40, 5));
        let again = bench.hand(0, of(ID, 40, 5));
        let owner = bench.core.owner();
        let shard = owner.shard(bench.shard(0)).unwrap();
        let effects = shard.fail(Failure {
            reason: "its flush".into(),
            may_pass: false,
            leaves_doubt: false,
        });
        owner.apply(&shard, effects);
        for answer in [first.await, again.await].concat() {
            assert_eq!(answer, Err(ShardError::Storage("its flush".into())));
        }
    });
}

#[test]
fn a_batch_of_which_the_first_records_are_there_is_completed() {
    // Claim 178.
    for codec in [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ] {
        run(Rig::new(2, Durability::OnCommit), move |bench| async move {
            if !bench.is_first() {
                return;
            }
            bench.append(0, of(ID, 0, 40)).await.unwrap();
            let generation = bench.core.owner().shard(bench.shard(0)).unwrap();
            let generation = generation.marks(None).unwrap().generation;
            let prefix = placed(of(ID, 40, 3), 40, generation);
            let end = bench.core.apply(bench.shard(0), prefix).unwrap();
            assert_eq!(end, Offset::new(43));
            for _ in 0..2 {
                let base = bench.base(0, in_epoch(0, ID, 40, 5, codec)).await;
                assert_eq!(base, Ok(40));
            }
            assert_eq!(bench.base(0, of(ID, 45, 5)).await, Ok(45));
            assert_eq!(bench.numbers(0).await, each_once(50));
            let fetched = bench.read(0, 43).await.unwrap();
            assert_eq!(batches(&fetched)[0].header().codec(), Ok(codec));
            assert_eq!(bench.metric("felix_producer_completed_batches_total"), 1);
        });
    }
}

#[test]
fn what_comes_while_a_batch_is_completed_waits_and_follows() {
    run(Rig::new(1, Durability::Periodic), |bench| async move {
        bench.append(0, of(ID, 0, 2)).await.unwrap();
        bench.heavy.hold();
        let completed = bench.router.append(
            vec![Append {
                shard: bench.shard(0),
                batch: of(ID, 1, 4),
            }],
            Acks::All,
        );
        let mut completed = Box::pin(completed);
        assert!(completed.as_mut().now_or_never().is_none());
        let behind = [of(ID, 5, 2), of(ID + 1, 0, 1), of(ID, 7, 1)];
        let shard = bench.shard(0);
        let behind = behind.map(|batch| Append { shard, batch });
        let mut behind = Box::pin(bench.router.append(behind.into(), Acks::All));
        assert!(behind.as_mut().now_or_never().is_none());
        assert_eq!(bench.metric("felix_shard_parked_appends"), 3);
        bench.heavy.release();
        let answers = [completed.await.await, behind.await.await].concat();
        let bases: Vec<_> = answers
            .into_iter()
            .map(|answer| answer.unwrap().base_offset.get())
            .collect();
        assert_eq!(bases, [1, 5, 7, 8]);
        let numbers: Vec<_> = bench
            .numbers(0)
            .await
            .iter()
            .map(|(_, number)| *number)
            .collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 0, 7]);
    });
}

#[test]
fn a_batch_that_is_being_completed_at_the_end_is_refused_and_the_log_closes_cleanly() {
    run(Rig::new(1, Durability::OnCommit), |bench| async move {
        bench.append(0, of(ID, 0, 2)).await.unwrap();
        bench.heavy.hold();
        let shard = bench.shard(0);
        let batch = of(ID, 1, 4);
        let completed = bench
            .router
            .append(vec![Append { shard, batch }], Acks::All);
        let mut completed = Box::pin(completed);
        assert!(completed.as_mut().now_or_never().is_none());
        // Released once the core takes nothing more.
        let (owner, heavy) = (Rc::clone(bench.core.owner()), bench.heavy.clone());
        let (tasks, closing) = (Rc::clone(owner.tasks()), Rc::clone(&owner));
        tasks.spawn("releasing", async move {
            while !closing.is_closing() {
                crate::event::step_aside().await;
            }
            heavy.release();
            assert_eq!(completed.await.await, [Err(ShardError::ShuttingDown)]);
        });
    });
}

#[test]
fn what_is_refused_is_not_written_and_says_why() {
    run(Rig::new(1, Durability::Periodic), |bench| async move {
        let log_start = Offset::ZERO;
        assert_eq!(
            bench.base(0, of(ID, 3, 1)).await,
            Err(ShardError::UnknownProducer { log_start })
        );
        for number in 0..70 {
            bench.append(0, of(ID, number, 1)).await.unwrap();
        }
        let gap = ShardError::OutOfOrderSequence {
            owed: 70,
            found: 71,
        };
        assert_eq!(bench.base(0, of(ID, 71, 1)).await, Err(gap));
        assert_eq!(
            bench.base(0, of(ID, 5, 1)).await,
            Err(ShardError::DuplicateSequence)
        );
        assert_eq!(bench.base(0, of(ID, 6, 1)).await, Ok(6));
        let begun = in_epoch(2, ID, 0, 1, Codec::None);
        assert_eq!(bench.base(0, begun).await, Ok(70));
        let old = ShardError::OldProducerEpoch {
            current: 2,
            found: 0,
        };
        assert_eq!(bench.base(0, of(ID, 70, 1)).await, Err(old));
        assert_eq!(bench.numbers(0).await.len(), 71);
        for (metric, count) in [
            ("felix_producer_unknown_total", 1),
            ("felix_producer_out_of_order_total", 1),
            ("felix_producer_duplicates_total", 2),
        ] {
            assert_eq!(bench.metric(metric), count, "{metric}");
        }
    });
}

/// A shard that another log's batch has brought near the greatest sequence: the next is five below.
async fn near_the_wrap(bench: &Bench) -> u64 {
    let owed = (1 << 31) - 5;
    let generation = bench.core.owner().shard(bench.shard(0)).unwrap();
    let generation = generation.marks(None).unwrap().generation;
    let before = placed(of(ID, owed - 5, 5), 0, generation);
    bench.core.apply(bench.shard(0), before).unwrap();
    owed
}

#[test]
fn sequences_wrap_and_a_batch_may_straddle_that() {
    // Claim 192.
    for durability in POLICIES {
        run(Rig::new(1, durability), |bench| async move {
            let owed = near_the_wrap(&bench).await;
            assert_eq!(bench.base(0, of(ID, owed, 3)).await, Ok(5));
            assert_eq!(bench.base(0, of(ID, owed + 3, 4)).await, Ok(8));
            assert_eq!(bench.base(0, of(ID, owed + 7, 3)).await, Ok(12));
            let found = ShardError::OutOfOrderSequence { owed: 5, found: 6 };
            assert_eq!(bench.base(0, of(ID, owed + 11, 1)).await, Err(found));
            let numbers = bench.numbers(0).await;
            let expected: Vec<_> = (0..15).map(|offset| (offset, owed - 5 + offset)).collect();
            assert_eq!(numbers, expected);
        });
    }
}

#[test]
fn what_is_sent_again_from_before_the_wrap_is_answered_after_it() {
    // Claim 192.
    run(Rig::new(1, Durability::OnCommit), |bench| async move {
        let owed = near_the_wrap(&bench).await;
        for (first, records) in [(owed, 3), (owed + 3, 4), (owed + 7, 3)] {
            bench.append(0, of(ID, first, records)).await.unwrap();
        }
        for (first, records, base) in [
            (owed - 5, 5, 0),
            (owed, 3, 5),
            (owed + 3, 4, 8),
            (owed + 7, 3, 12),
        ] {
            assert_eq!(bench.base(0, of(ID, first, records)).await, Ok(base));
        }
        assert_eq!(bench.base(0, of(ID, owed + 3, 9)).await, Ok(8));
        assert_eq!(bench.numbers(0).await.len(), 17);
    });
}

#[test]
fn producers_are_known_after_a_clean_restart() {
    for durability in POLICIES {
        let root = tempfile::tempdir().unwrap();
        for restart in 0..3 {
            run_in(&root, Rig::new(2, durability), move |bench| async move {
                if !bench.is_first() {
                    return;
                }
                for shard in 0..2 {
                    for number in 0..=restart {
                        let base = bench.base(shard, of(ID, number * 3, 3)).await;
                        assert_eq!(base, Ok(number * 3));
                    }
                    assert_eq!(bench.numbers(shard).await, each_once((restart + 1) * 3));
                }
            });
        }
    }
}

#[test]
fn what_was_acknowledged_is_recognised_after_a_kill_and_what_was_durable_after_a_power_loss() {
    for (durability, power_fails) in [
        (Durability::OnCommit, true),
        (Durability::OnCommit, false),
        (Durability::Periodic, false),
    ] {
        let rig = Rig {
            segment_bytes_max: 1000,
            ..Rig::new(1, durability)
        };
        for seed in 0..20 {
            let simulation = Simulation::new(seed);
            for round in 0..4_u64 {
                life(&simulation, rig, move |router, shard| async move {
                    for number in 0..(round + 1) * 6 {
                        let batch = of(ID, number * 2, 2);
                        let appended = router.append(vec![Append { shard, batch }], Acks::All);
                        let answer = appended.await.await.remove(0);
                        let base = answer.map(|appended| appended.base_offset.get());
                        assert_eq!(base, Ok(number * 2), "{durability:?}, seed {seed}");
                    }
                });
                if power_fails {
                    simulation.disk().lose_power();
                }
            }
        }
    }
}

#[test]
fn over_the_memory_of_a_core_the_producers_that_have_written_nothing_for_longest_are_forgotten() {
    let rig = Rig {
        shards: 2,
        ..Rig::new(1, Durability::Periodic)
    };
    run(rig, |bench| async move {
        for id in 0..20 {
            bench.append(0, of(id, 0, 1)).await.unwrap();
        }
        let bytes = || usize::try_from(bench.metric("felix_producer_bytes")).unwrap();
        let room = bytes() * 3 / 2;
        bench.core.owner().producers().bound(room);
        for id in 0..20 {
            bench.append(1, of(id, 0, 1)).await.unwrap();
            assert!(bytes() <= room);
        }
        let forgotten = bench.metric("felix_producer_forgotten_total");
        assert_eq!((forgotten, bench.metric("felix_producer_known")), (10, 30));
        // Each of the two has forgotten some, and none that wrote lately.
        for shard in 0..2 {
            let unknown = bench.base(shard, of(0, 1, 1)).await;
            assert!(matches!(unknown, Err(ShardError::UnknownProducer { .. })));
            assert_eq!(bench.base(shard, of(19, 1, 1)).await, Ok(20));
        }
    });
}
