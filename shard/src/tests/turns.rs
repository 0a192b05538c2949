//! Work of any size is done in turns with other tasks, and each message's in the order asked.

use super::timings::taken;
use super::{Bench, Never, Rig, batch, run};
use crate::event::step_aside;
use felix_core::limits::REQUEST_ELEMENTS_MAX;
use felix_core::shards::{Acks, Append, Appended, OffsetQuery, OffsetSpec};
use felix_core::{Durability, Offset, ShardError, Shards};
use futures_util::FutureExt;
use futures_util::future::{join, join_all};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::time::Duration;

const MANY: u32 = 2000;

/// Appends of one batch each to the shard, in one message.
fn appends(bench: &Bench, shard: u32, count: u32) -> Vec<Append> {
    let append = |_| Append {
        shard: bench.shard(shard),
        batch: batch(&["x"]),
    };
    (0..count).map(append).collect()
}

#[test]
fn a_message_of_many_batches_is_placed_in_turns_and_in_its_order() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        run(Rig::new(2, durability), |bench| async move {
            if !bench.is_first() {
                return;
            }
            for shard in 0..2 {
                let router = &bench.router;
                let mut long = Box::pin(router.append(appends(&bench, shard, MANY), Acks::All));
                assert!((&mut long).now_or_never().is_none(), "it takes turns");
                let long = long.await.await;
                for (number, appended) in (0_u64..).zip(&long) {
                    let base = appended.as_ref().unwrap().base_offset;
                    assert_eq!(base, Offset::new(number));
                }
            }
        });
    }
}

/// Large messages that wait when a small one comes.
const LARGE: u64 = 16;
/// Batches of a few bytes that fit one slice of placing, and one message's turn in it.
const BATCHES_OF_A_SLICE: u64 = 16;
const BATCHES_OF_A_TURN: u64 = 4;

#[test]
fn a_small_message_is_placed_within_a_round_of_the_large_ones_that_came_before() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        run(Rig::new(1, durability), |bench| async move {
            // Each has its turn at once, and the first one, which finds nobody, a slice besides.
            let before_max = BATCHES_OF_A_SLICE + LARGE * BATCHES_OF_A_TURN;
            a_small_one_among_large_ones(&bench, 0, before_max, || ()).await;
        });
    }
}

#[test]
fn a_small_message_from_another_core_is_placed_within_a_round_too() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        let held = Arc::new(Barrier::new(2));
        run(Rig::new(2, durability), move |bench| {
            let held = Arc::clone(&held);
            async move {
                held.wait();
                if bench.is_first() {
                    // The owner takes one message after another out of the lane, and may place a
                    // slice after each.
                    let before_max = (LARGE + 1) * BATCHES_OF_A_SLICE + LARGE * BATCHES_OF_A_TURN;
                    a_small_one_among_large_ones(&bench, 1, before_max, || {
                        held.wait();
                    })
                    .await;
                } else {
                    // It does nothing until all messages are in its lane.
                    held.wait();
                }
            }
        });
    }
}

/// Sends large messages and a small one, all for the shard, and only then calls `sent`. At most
/// `before_max` batches may have been placed before the small one.
async fn a_small_one_among_large_ones(
    bench: &Bench,
    shard: u32,
    before_max: u64,
    sent: impl FnOnce(),
) {
    let router = &bench.router;
    let ask = |count| Box::pin(router.append(appends(bench, shard, count), Acks::All));
    let mut large: Vec<_> = (0..LARGE).map(|_| ask(MANY)).collect();
    for asked in &mut large {
        assert!(asked.now_or_never().is_none(), "it takes turns");
    }
    let mut small = ask(1);
    let at_once = (&mut small).now_or_never();
    let is_own = bench.core.id().0 == u16::try_from(shard).unwrap();
    assert_eq!(at_once.is_some(), is_own);
    sent();
    let mut committed = join_all(large).await;
    committed.push(match at_once {
        Some(small) => small,
        None => small.await,
    });
    let results = join_all(committed).await;
    let bases: Vec<Vec<u64>> = results.iter().map(|message| bases(message)).collect();
    for of_message in &bases {
        assert!(of_message.is_sorted(), "a message keeps its order");
    }
    let before = bases.last().expect("the small one")[0];
    assert!(before <= before_max, "{before} were placed before");
    let mut all = bases.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..LARGE * u64::from(MANY) + 1));
}

fn bases(results: &[Result<Appended, ShardError>]) -> Vec<u64> {
    let base = |result: &Result<Appended, _>| result.as_ref().unwrap().base_offset.get();
    results.iter().map(base).collect()
}

#[test]
fn one_flush_of_many_appends_tells_their_callers_in_turns() {
    run(Rig::new(1, Durability::OnCommit), |bench| async move {
        let count = u64::from(MANY);
        let told = || taken(&bench, "felix_shard_commit_us").count();
        let committed = appends(&bench, 0, MANY).into_iter().map(|append| {
            let admitted = bench.router.append(vec![append], Acks::All);
            admitted.now_or_never().expect("there is room")
        });
        let committed: Vec<_> = committed.collect();
        let most_at_once = Cell::new(0);
        let ticks = async {
            let mut before = 0;
            while before < count {
                let now = told();
                most_at_once.set(most_at_once.get().max(now - before));
                if now > 0 {
                    // What one flush made durable is committed, told or not.
                    assert_eq!(bench.metric("felix_storage_sync_appends_total"), 2000);
                }
                before = now;
                step_aside().await;
            }
        };
        let (results, ()) = join(join_all(committed), ticks).await;
        for (number, result) in (0_u64..).zip(results) {
            let base = result[0].as_ref().unwrap().base_offset;
            assert_eq!(base, Offset::new(number));
        }
        assert!(most_at_once.get() < 1000, "{}", most_at_once.get());
    });
}

#[test]
fn a_request_for_as_many_parts_as_one_may_name_is_answered_in_turns() {
    run(Rig::new(2, Durability::Periodic), |bench| async move {
        if bench.is_first() {
            for shard in 0..2 {
                asks_for_many(&bench, shard).await;
            }
        }
    });
}

async fn asks_for_many(bench: &Rc<Bench>, shard: u32) {
    bench.append(shard, batch(&["x"])).await.unwrap();
    let fetch = bench.fetch(
        vec![bench.part(shard, 0); REQUEST_ELEMENTS_MAX],
        1,
        Duration::ZERO,
    );
    let mut fetched = Box::pin(bench.router.fetch(fetch, Never));
    assert!((&mut fetched).now_or_never().is_none());
    let fetched = fetched.await;
    assert_eq!(fetched.len(), REQUEST_ELEMENTS_MAX);
    assert!(
        fetched
            .iter()
            .all(|part| part.as_ref().unwrap().bytes() > 0)
    );
    let query = OffsetQuery {
        shard: bench.shard(shard),
        spec: OffsetSpec::Latest,
        generation: None,
    };
    let queries = vec![query; REQUEST_ELEMENTS_MAX];
    let mut found = Box::pin(bench.router.offsets(queries));
    assert!((&mut found).now_or_never().is_none());
    let end = Some((Offset::new(1), None));
    let found = found.await;
    assert_eq!(found.len(), REQUEST_ELEMENTS_MAX);
    assert!(
        found
            .iter()
            .all(|answer| answer.as_ref().unwrap().found == end)
    );
}
