//! What a fetch that waits for many bytes costs while it waits, and when its wait ends.

use super::fetches::spawn_fetch;
use super::{Bench, FOREVER, Never, Rig, batches, large_batch, run};
use felix_core::limits::WATCHED_SHARDS_PER_CORE_MAX;
use felix_core::shards::{Fetch, FetchPart, Fetched};
use felix_core::{Durability, Shards};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn a_fetch_reads_again_when_enough_is_there_and_not_at_every_commit() {
    const WAITING: usize = 40;
    const BYTES_MIN: usize = 300_000;
    for durability in [Durability::Periodic, Durability::OnCommit] {
        run(Rig::new(1, durability), |bench| async move {
            let mut waiting = Vec::new();
            for _ in 0..WAITING {
                let fetch = bench.fetch(vec![bench.part(0, 0)], BYTES_MIN, FOREVER);
                waiting.push(spawn_fetch(&bench, fetch).await);
            }
            let mut appended = 0;
            while appended < BYTES_MIN {
                assert_eq!(bench.metric("felix_shard_watches"), 40, "at {appended}");
                bench.append(0, large_batch(1000)).await.unwrap();
                appended =
                    usize::try_from(bench.metric("felix_storage_append_bytes_total")).unwrap();
            }
            for waiting in waiting {
                let bytes = waiting.await.remove(0).unwrap().bytes();
                assert_eq!(
                    bytes, appended,
                    "the answer has all of it, and nothing later"
                );
            }
            let reads = bench.metric("felix_shard_tail_reads_total");
            assert_eq!(reads, 40, "one look each");
        });
    }
}

#[test]
fn a_fetch_of_many_shards_on_two_cores_ends_its_wait_with_the_byte_it_misses() {
    let rig = Rig {
        shards: 700,
        ..Rig::new(2, Durability::Periodic)
    };
    run(rig, |bench| async move {
        if !bench.is_first() {
            return;
        }
        bench.append(0, large_batch(1000)).await.unwrap();
        let size = bench.read(0, 0).await.unwrap().bytes();
        let parts = || (0..700).map(|shard| bench.part(shard, 0)).collect();
        let needed = 60;
        let fetch = bench.fetch(parts(), size * needed, FOREVER);
        let waiting = spawn_fetch(&bench, fetch).await;
        let hops = bench.metric("felix_shard_hops_total");
        for number in 1..needed {
            assert_eq!(bench.metric("felix_shard_waiting_fetches"), 1);
            let shard = u32::try_from(number * 37 % 700).unwrap();
            bench.append(shard, large_batch(1000)).await.unwrap();
        }
        let answers = waiting.await;
        let bytes: usize = answers
            .iter()
            .map(|part| part.as_ref().unwrap().bytes())
            .sum();
        assert_eq!(bytes, size * needed);
        let looked = bench.metric("felix_shard_hops_total") - hops;
        assert!(looked < 100, "{looked} hops for 59 appends and the reads");
        assert_eq!(bench.metric("felix_shard_watches"), 0);
    });
}

#[test]
fn a_limit_that_leaves_data_behind_ends_a_wait_however_much_is_missing() {
    run(Rig::new(2, Durability::Periodic), |bench| async move {
        if bench.is_first() {
            a_limit_ends_a_wait(&bench).await;
        }
    });
}

async fn a_limit_ends_a_wait(bench: &Rc<Bench>) {
    bench.append(0, large_batch(1000)).await.unwrap();
    let size = bench.read(0, 0).await.unwrap().bytes();
    // The limit of a part.
    let part = FetchPart {
        bytes_max: 3 * size,
        ..bench.part(0, 1)
    };
    let fetch = bench.fetch(vec![part, bench.part(1, 0)], 16 << 20, FOREVER);
    let waiting = spawn_fetch(bench, fetch).await;
    for _ in 0..3 {
        bench.append(0, large_batch(1000)).await.unwrap();
    }
    assert_eq!(bench.metric("felix_shard_waiting_fetches"), 1);
    bench.append(0, large_batch(1000)).await.unwrap();
    let answers = waiting.await;
    assert_eq!(batches(answers[0].as_ref().unwrap()).len(), 3);
    // The share of an owner: half of the fetch.
    let fetch = Fetch {
        bytes_max: 8 * size,
        ..bench.fetch(vec![bench.part(0, 5), bench.part(1, 0)], 8 * size, FOREVER)
    };
    let began = bench.now();
    let waiting = spawn_fetch(bench, fetch).await;
    for _ in 0..5 {
        bench.append(1, large_batch(1000)).await.unwrap();
    }
    let answers = waiting.await;
    assert_eq!(batches(answers[1].as_ref().unwrap()).len(), 4);
    assert!(bench.now() < began.after(FOREVER));
}

#[test]
fn where_a_core_watches_as_much_as_it_may_a_large_poll_looks_of_itself_and_a_small_one_is_woken() {
    let rig = Rig {
        shards: 20,
        ..Rig::new(2, Durability::Periodic)
    };
    run(rig, |bench| async move {
        if !bench.is_first() {
            return;
        }
        let sleepers = bench.router.owner().sleepers();
        let room = sleepers.room(WATCHED_SHARDS_PER_CORE_MAX);
        let all = || -> Vec<FetchPart> { (0..20).map(|shard| bench.part(shard, 0)).collect() };
        let wait = Duration::from_millis(600);
        let begun = bench.now();
        let large = spawn_fetch(&bench, bench.fetch(all(), 1, wait)).await;
        let small = spawn_fetch(&bench, bench.fetch(vec![bench.part(3, 0)], 1, FOREVER)).await;
        assert_eq!(bench.metric("felix_shard_unwatched_polls_total"), 1);
        bench.append(3, large_batch(1000)).await.unwrap();
        assert_eq!(
            small.await.remove(0).unwrap().bytes(),
            batch_bytes(&bench, 3).await
        );
        // Half way, and not before.
        let bytes: usize = large.await.iter().flatten().map(Fetched::bytes).sum();
        assert_eq!(bytes, batch_bytes(&bench, 3).await);
        let took = bench.now().until(begun);
        assert!((wait / 2..wait).contains(&took), "{took:?}");

        // One that nothing comes for looks at its end, and answers for each part.
        let after = |shard| bench.part(shard, u64::from(shard == 3));
        let none = bench.fetch((0..20).map(after).collect(), 1, wait);
        let answers = spawn_fetch(&bench, none).await.await;
        assert!(
            answers
                .iter()
                .all(|answer| answer.as_ref().is_ok_and(|part| part.bytes() == 0))
        );
        assert_eq!(answers.len(), 20);

        // With room again it is woken.
        drop(room);
        let woken = spawn_fetch(
            &bench,
            bench.fetch((0..20).map(after).collect(), 1, FOREVER),
        )
        .await;
        bench.append(7, large_batch(1000)).await.unwrap();
        assert!(woken.await.iter().flatten().any(|part| part.bytes() > 0));
        assert_eq!(bench.metric("felix_shard_unwatched_polls_total"), 2);
        assert!(
            sleepers.room(WATCHED_SHARDS_PER_CORE_MAX).is_some(),
            "all is given back"
        );
    });
}

async fn batch_bytes(bench: &Rc<Bench>, shard: u32) -> usize {
    bench.read(shard, 0).await.unwrap().bytes()
}

#[test]
fn a_first_batch_that_is_too_large_is_left_out_with_its_size_and_all_that_would_come_after_it() {
    for tail_bytes_max in [1 << 20, 0] {
        let rig = Rig {
            tail_bytes_max,
            shards: 4,
            ..Rig::new(2, Durability::Periodic)
        };
        run(rig, |bench| async move {
            if bench.is_first() {
                leaves_out(&bench).await;
            }
        });
    }
}

async fn leaves_out(bench: &Rc<Bench>) {
    for (shard, records) in [(0, 10), (1, 10), (2, 1000), (3, 1000)] {
        bench.append(shard, large_batch(records)).await.unwrap();
    }
    let small = batch_bytes(bench, 0).await;
    let large = batch_bytes(bench, 2).await;
    assert!(small < large);
    let ask = |order: [u32; 4], first_bytes_max: usize| {
        let parts = order.map(|shard| bench.part(shard, 0)).to_vec();
        let fetch = Fetch {
            bytes_max: 1,
            first_bytes_max,
            ..bench.fetch(parts, 1, FOREVER)
        };
        let answers = bench.router.fetch(fetch, Never);
        async move {
            let seen = |answer: Result<Fetched, _>| {
                let fetched = answer.unwrap();
                let left_out = fetched.left_out.as_ref();
                let left_out = left_out.map(|left| (left.part.shard.index, left.bytes));
                (fetched.bytes(), left_out)
            };
            answers.await.into_iter().map(seen).collect::<Vec<_>>()
        }
    };
    let (none, first) = ((0, None), (small, None));
    // The one before it comes, whichever core owns which.
    for order in [[0, 2, 1, 3], [0, 3, 1, 2], [1, 2, 0, 3]] {
        assert_eq!(ask(order, small).await, [first, none, none, none]);
    }
    for order in [[2, 0, 1, 3], [3, 0, 1, 2], [2, 3, 1, 0]] {
        let left = (0, Some((order[0], large)));
        assert_eq!(ask(order, large - 1).await, [left, none, none, none]);
        let whole = (large, None);
        assert_eq!(ask(order, large).await, [whole, none, none, none]);
    }
}
