//! What a fetch that waits for many bytes costs while it waits, and when its wait ends.

use super::fetches::spawn_fetch;
use super::{Bench, FOREVER, Rig, batches, large_batch, run};
use felix_core::Durability;
use felix_core::shards::{Fetch, FetchPart};
use std::rc::Rc;

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
