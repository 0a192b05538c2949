//! What a fetch and an offset query promise.

use super::{Bench, FOREVER, Never, Rig, Told, batch, batches, large_batch, records, run};
use felix_core::shards::{Acks, Append, Fetch, FetchPart, OffsetAnswer, OffsetQuery, OffsetSpec};
use felix_core::{Durability, Generation, Offset, ShardError, Shards, Timestamp};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn a_fetch_at_the_end_waits_and_is_woken_by_a_commit_on_either_core() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        run(Rig::new(2, durability), |bench| async move {
            if !bench.is_first() {
                return;
            }
            for round in 0..20 {
                for shard in 0..2 {
                    let parts = [bench.part(0, round), bench.part(1, round)];
                    // The other shard is at its end, so only the commit ends the wait.
                    let part = parts[usize::try_from(shard).unwrap()];
                    let fetch = bench.fetch(vec![part], 1, FOREVER);
                    let waiting = spawn_fetch(&bench, fetch).await;
                    let value = format!("{round}");
                    bench.append(shard, batch(&[&value])).await.unwrap();
                    let fetched = waiting.await.remove(0).unwrap();
                    assert_eq!(records(&fetched), [(round, value)]);
                    assert_eq!(fetched.visible_end, Offset::new(round + 1));
                }
            }
            assert_eq!(bench.metric("felix_shard_waiting_fetches"), 0);
        });
    }
}

pub(super) type Waiting = glommio::Task<Vec<Result<felix_core::shards::Fetched, ShardError>>>;

/// A fetch that has begun to wait.
pub(super) async fn spawn_fetch(bench: &Rc<Bench>, fetch: Fetch) -> Waiting {
    let before = bench.metric("felix_shard_waiting_fetches");
    let waiting = glommio::spawn_local(bench.router.fetch(fetch, Never));
    bench
        .until("a waiting fetch", || {
            bench.metric("felix_shard_waiting_fetches") == before + 1
        })
        .await;
    waiting
}

#[test]
fn a_poll_is_ended_by_its_deadline_or_by_whoever_may_and_answers_with_what_is_there() {
    run(Rig::new(2, Durability::Periodic), |bench| async move {
        if !bench.is_first() {
            return;
        }
        bench.append(1, batch(&["x"])).await.unwrap();
        let parts = vec![bench.part(0, 0), bench.part(1, 0)];
        let began = bench.now();
        let wait = Duration::from_millis(30);
        let fetch = bench.fetch(parts.clone(), 1 << 20, wait);
        let at_deadline = bench.router.fetch(fetch, Never).await;
        assert!(bench.now() >= began.after(wait));
        let end = Told::default();
        let fetch = bench.fetch(parts.clone(), 1 << 20, FOREVER);
        let mut polling = Box::pin(bench.router.fetch(fetch, end.clone()));
        assert!((&mut polling).now_or_never().is_none());
        end.tell();
        let told = polling.await;
        for answers in [at_deadline, told] {
            assert_eq!(answers[0].as_ref().unwrap().bytes(), 0);
            assert_eq!(records(answers[1].as_ref().unwrap()), [(0, "x".to_owned())]);
        }
        // Nothing waits where nothing may be waited for.
        let own = vec![bench.part(0, 0)];
        for fetch in [
            bench.fetch(own.clone(), 0, FOREVER),
            bench.fetch(own, 9, Duration::ZERO),
        ] {
            let answers = bench
                .router
                .fetch(fetch, Never)
                .now_or_never()
                .expect("no wait");
            assert_eq!(answers[0].as_ref().unwrap().bytes(), 0);
        }
        assert!(bench.now() < began.after(FOREVER));
    });
}

#[test]
fn bytes_min_is_waited_for_across_cores() {
    run(Rig::new(2, Durability::Periodic), |bench| async move {
        if !bench.is_first() {
            return;
        }
        let parts = vec![bench.part(0, 0), bench.part(1, 0)];
        let waiting = spawn_fetch(&bench, bench.fetch(parts, 3000, FOREVER)).await;
        bench.append(0, large_batch(1000)).await.unwrap();
        bench.append(1, large_batch(1000)).await.unwrap();
        assert_eq!(bench.metric("felix_shard_waiting_fetches"), 1);
        bench.append(0, large_batch(1000)).await.unwrap();
        let bytes: usize = waiting
            .await
            .iter()
            .map(|part| part.as_ref().unwrap().bytes())
            .sum();
        assert!((3000..3600).contains(&bytes), "{bytes}");
    });
}

#[test]
fn byte_limits_cut_at_whole_batches_in_the_order_asked() {
    for tail_bytes_max in [0, 8 << 20] {
        let rig = Rig {
            shards: 4,
            tail_bytes_max,
            ..Rig::new(2, Durability::Periodic)
        };
        run(rig, |bench| async move {
            if bench.is_first() {
                cuts_at_whole_batches(&bench).await;
            }
        });
    }
}

async fn cuts_at_whole_batches(bench: &Rc<Bench>) {
    for shard in 0..4 {
        for _ in 0..5 {
            bench.append(shard, large_batch(1000)).await.unwrap();
        }
    }
    let size = batches(&bench.read(0, 0).await.unwrap())[0].bytes().len();
    let counts = |order: [u32; 4], bytes_max: usize, part_max: usize| {
        let part = |shard| FetchPart {
            bytes_max: part_max,
            ..bench.part(shard, 0)
        };
        let parts = order.map(part).to_vec();
        // bytes_min is out of reach: that a limit left data behind has to end the wait.
        let fetch = Fetch {
            bytes_max,
            ..bench.fetch(parts, usize::MAX, FOREVER)
        };
        let answers = bench.router.fetch(fetch, Never);
        async move {
            let answers = answers.await;
            let count = |answer: &Result<_, _>| batches(answer.as_ref().unwrap()).len();
            answers.iter().map(count).collect::<Vec<_>>()
        }
    };
    let all = usize::MAX;
    assert_eq!(counts([0, 2, 1, 3], all, 2 * size).await, [2, 2, 2, 2]);
    // The first batch is whole although nothing fits, wherever it is found first.
    assert_eq!(counts([0, 1, 2, 3], 1, all).await, [1, 0, 0, 0]);
    assert_eq!(counts([3, 2, 1, 0], 1, all).await, [1, 0, 0, 0]);
    assert_eq!(counts([1, 0, 3, 2], size - 1, 1).await, [1, 0, 0, 0]);
    // Shards 0 and 2 are of one core and spend its half in the order asked.
    let half = counts([2, 0, 1, 3], 12 * size, all).await;
    assert_eq!(half, [5, 1, 5, 1]);
    let empty_first = FetchPart {
        bytes_max: 1,
        ..bench.part(0, 5)
    };
    let then = FetchPart {
        bytes_max: 1,
        ..bench.part(2, 3)
    };
    let fetch = Fetch {
        bytes_max: 1,
        ..bench.fetch(vec![empty_first, then], 1, FOREVER)
    };
    let answers = bench.router.fetch(fetch, Never).await;
    assert_eq!(answers[0].as_ref().unwrap().bytes(), 0);
    assert_eq!(batches(answers[1].as_ref().unwrap()).len(), 1);
}

#[test]
fn what_has_left_memory_is_read_from_the_log_and_is_the_same() {
    let rig = Rig {
        tail_bytes_max: 2000,
        ..Rig::new(1, Durability::Periodic)
    };
    run(rig, |bench| async move {
        let mut expected = Vec::new();
        for number in 0..200_u64 {
            let value = format!("value {number}");
            bench.append(0, batch(&[&value])).await.unwrap();
            expected.push((number, value));
        }
        assert!((1..=2000).contains(&bench.metric("felix_shard_tail_bytes")));
        let tail_reads = bench.metric("felix_shard_tail_reads_total");
        for from in [0, 1, 99] {
            let read = records(&bench.read(0, from).await.unwrap());
            assert_eq!(read, expected[usize::try_from(from).unwrap()..]);
        }
        assert_eq!(bench.metric("felix_shard_tail_reads_total"), tail_reads);
        let kept = bench.metric("felix_shard_tail_bytes");
        assert_eq!(records(&bench.read(0, 199).await.unwrap()), expected[199..]);
        assert_eq!(bench.metric("felix_shard_tail_reads_total"), tail_reads + 1);
        assert_eq!(
            bench.metric("felix_shard_tail_bytes"),
            kept,
            "catching up evicts nothing"
        );
    });
}

#[test]
fn a_client_that_believes_in_another_leader_is_told_the_current_one() {
    run(Rig::new(2, Durability::Periodic), |bench| async move {
        if !bench.is_first() {
            return;
        }
        let current = Generation::FIRST;
        for shard in 0..2 {
            let fetch = |generation| {
                let part = FetchPart {
                    generation,
                    ..bench.part(shard, 0)
                };
                let answers = bench
                    .router
                    .fetch(bench.fetch(vec![part], 1, FOREVER), Never);
                async move { answers.await.remove(0).map(|fetched| fetched.visible_end) }
            };
            let older = fetch(Some(Generation::new(0))).await;
            assert_eq!(older, Err(ShardError::FencedGeneration { current }));
            let newer = fetch(Some(Generation::new(2))).await;
            assert_eq!(newer, Err(ShardError::UnknownGeneration { current }));
            bench.append(shard, batch(&["x"])).await.unwrap();
            assert_eq!(fetch(Some(current)).await, Ok(Offset::new(1)));
            let query = OffsetQuery {
                shard: bench.shard(shard),
                spec: OffsetSpec::Latest,
                generation: Some(Generation::new(2)),
            };
            let answer = bench.router.offsets(vec![query]).await.remove(0);
            assert_eq!(answer, Err(ShardError::UnknownGeneration { current }));
        }
    });
}

#[test]
fn an_offset_up_to_the_log_end_waits_and_one_beyond_is_out_of_range() {
    run(Rig::new(1, Durability::OnCommit), |bench| async move {
        let append = Append {
            shard: bench.shard(0),
            batch: batch(&["a", "b"]),
        };
        let committed = bench
            .router
            .append(vec![append], Acks::All)
            .now_or_never()
            .unwrap();
        for offset in 0..=2 {
            let read = bench.read(0, offset).now_or_never().unwrap().unwrap();
            assert_eq!((read.visible_end, read.bytes()), (Offset::ZERO, 0));
        }
        let beyond = ShardError::OffsetOutOfRange {
            log_start: Offset::ZERO,
            visible_end: Offset::ZERO,
        };
        assert_eq!(bench.read(0, 3).await.unwrap_err(), beyond);
        let waiting = spawn_fetch(&bench, bench.fetch(vec![bench.part(0, 1)], 1, FOREVER)).await;
        committed.await.remove(0).unwrap();
        // An offset inside a batch gets the whole batch.
        let fetched = waiting.await.remove(0).unwrap();
        assert_eq!(
            records(&fetched),
            [(0, "a".to_owned()), (1, "b".to_owned())]
        );
        let unknown = Fetch {
            parts: vec![bench.part(7, 0)],
            ..bench.fetch(vec![], 1, FOREVER)
        };
        let answer = bench.router.fetch(unknown, Never).await.remove(0);
        assert_eq!(answer.unwrap_err(), ShardError::Unknown);
    });
}

#[test]
fn ten_thousand_fetches_wait_for_one_commit_and_all_are_woken() {
    run(Rig::new(2, Durability::Periodic), |bench| async move {
        if !bench.is_first() {
            return;
        }
        let waiting: Vec<_> = (0..10_000)
            .map(|number| {
                let parts = vec![bench.part(number % 2, 0)];
                glommio::spawn_local(bench.router.fetch(bench.fetch(parts, 1, FOREVER), Never))
            })
            .collect();
        let all = || bench.metric("felix_shard_waiting_fetches") == 10_000;
        bench.until("the last of them", all).await;
        bench.append(0, batch(&["x"])).await.unwrap();
        bench.append(1, batch(&["x"])).await.unwrap();
        for answers in join_all(waiting).await {
            assert_eq!(records(answers[0].as_ref().unwrap()), [(0, "x".to_owned())]);
        }
        assert_eq!(bench.metric("felix_shard_waiting_fetches"), 0);
        assert_eq!(bench.metric("felix_shard_watches"), 0);
    });
}

#[test]
fn a_dropped_fetch_leaves_no_watch_behind_on_either_core() {
    run(Rig::new(2, Durability::Periodic), |bench| async move {
        if bench.is_first() {
            let mut waiting = Vec::new();
            for _ in 0..100 {
                let parts = vec![bench.part(0, 0), bench.part(1, 0)];
                let fetch = bench.fetch(parts, 1, FOREVER);
                waiting.push(spawn_fetch(&bench, fetch).await);
            }
            assert_eq!(bench.metric("felix_shard_watches"), 100);
            // The other core answers this after it has seen all watches.
            bench.read(1, 0).await.unwrap();
            for waiting in waiting {
                waiting.cancel().await;
            }
            assert_eq!(bench.metric("felix_shard_watches"), 0);
            assert_eq!(bench.metric("felix_shard_waiting_fetches"), 0);
            bench.append(1, batch(&["done"])).await.unwrap();
        } else {
            // Woken by the last append, which follows everything else on its lane.
            let fetch = bench.fetch(vec![bench.part(1, 0)], 1, FOREVER);
            let fetched = bench.router.fetch(fetch, Never).await.remove(0).unwrap();
            assert_eq!(records(&fetched), [(0, "done".to_owned())]);
            assert_eq!(bench.metric("felix_shard_watches"), 0);
        }
    });
}

#[test]
fn offsets_are_found_by_mark_and_by_timestamp_on_either_core() {
    run(Rig::new(2, Durability::Periodic), |bench| async move {
        if !bench.is_first() {
            return;
        }
        for shard in 0..2 {
            bench.append(shard, batch(&["a", "b"])).await.unwrap();
            bench.append(shard, batch(&["c"])).await.unwrap();
        }
        let specs = [
            OffsetSpec::Latest,
            OffsetSpec::Earliest,
            OffsetSpec::AtOrAfter(Timestamp(5)),
            OffsetSpec::AtOrAfter(Timestamp(5000)),
            OffsetSpec::MaxTimestamp,
        ];
        let query = |shard, spec| OffsetQuery {
            shard: bench.shard(shard),
            spec,
            generation: None,
        };
        let queries = specs
            .iter()
            .flat_map(|spec| [query(1, *spec), query(0, *spec)])
            .collect();
        let answers = bench.router.offsets(queries).await;
        let first = (Offset::ZERO, Some(Timestamp(1000)));
        let expected = [
            Some((Offset::new(3), None)),
            Some((Offset::ZERO, None)),
            Some(first),
            None,
            Some(first),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .flat_map(|found| {
                let answer = OffsetAnswer {
                    found,
                    generation: Generation::FIRST,
                };
                [Ok(answer), Ok(answer)]
            })
            .collect();
        assert_eq!(answers, expected);
    });
}
