//! What nobody waits for any more is not worked on.

use super::{Bench, FOREVER, Never, Rig, batch, large_batch, run};
use felix_core::limits::{COLD_READS_IN_FLIGHT_MAX, LANE_CREDITS};
use felix_core::shards::{OffsetQuery, OffsetSpec};
use felix_core::{Durability, Shards, Timestamp};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::rc::Rc;
use std::time::Duration;

/// Fewer than the credits of a lane, so that all are on their way at once.
const ASKED: u32 = 100;

/// Everything is read from the log.
fn rig(cores: u16) -> Rig {
    Rig {
        tail_bytes_max: 0,
        ..Rig::new(cores, Durability::Periodic)
    }
}

/// Something that no core reads in one go, as the last shard's offsets 0 and 1.
async fn fill(bench: &Bench, shard: u32) {
    for _ in 0..2 {
        bench.append(shard, large_batch(400 << 10)).await.unwrap();
    }
}

/// Asks for as many reads and searches, and gives each up.
fn ask_and_leave(bench: &Bench, shard: u32) {
    let mut fetches = Vec::new();
    let mut searches = Vec::new();
    for _ in 0..ASKED {
        let fetch = bench.fetch(vec![bench.part(shard, 0)], 1, Duration::ZERO);
        let mut fetch = Box::pin(bench.router.fetch(fetch, Never));
        assert!((&mut fetch).now_or_never().is_none());
        fetches.push(fetch);
        let query = OffsetQuery {
            shard: bench.shard(shard),
            spec: OffsetSpec::AtOrAfter(Timestamp(5000)),
            generation: None,
        };
        let mut search = Box::pin(bench.router.offsets(vec![query]));
        assert!((&mut search).now_or_never().is_none());
        searches.push(search);
    }
}

/// All permits for reads that wait.
async fn take_permits(bench: &Bench) {
    for _ in 0..COLD_READS_IN_FLIGHT_MAX {
        bench.core.owner().cold_reads().acquire().await;
    }
}

async fn nothing_is_read(bench: &Bench) {
    let read = bench.metric("felix_storage_read_bytes_total");
    for _ in 0..COLD_READS_IN_FLIGHT_MAX {
        bench.core.owner().cold_reads().release();
    }
    let abandoned = || bench.metric("felix_shard_abandoned_requests_total");
    let all = i64::from(2 * ASKED);
    bench.until("the last of them", || abandoned() == all).await;
    // Others may have read small batches meanwhile.
    let read = bench.metric("felix_storage_read_bytes_total") - read;
    assert!(read < 400 << 10, "{read}");
}

#[test]
fn reads_and_searches_that_wait_for_the_device_end_with_whoever_asked() {
    run(rig(1), |bench| async move {
        fill(&bench, 0).await;
        take_permits(&bench).await;
        ask_and_leave(&bench, 0);
        nothing_is_read(&bench).await;
        assert!(bench.read(0, 0).await.unwrap().bytes() > 800 << 10);
    });
}

#[test]
fn another_core_is_told_and_its_lane_is_as_before() {
    run(rig(2), |bench| async move {
        if bench.is_first() {
            fill(&bench, 1).await;
            // Whoever waits at offset 2 has all permits by now, and is told that all is asked.
            bench
                .until("the permits", || bench.metric("felix_shard_watches") == 1)
                .await;
            ask_and_leave(&bench, 1);
            bench.append(1, batch(&["asked"])).await.unwrap();
            // Every credit came back, and only once.
            goes_on(&bench).await;
        } else {
            bench
                .until("the batches", || {
                    bench.metric("felix_storage_append_batches_total") == 2
                })
                .await;
            take_permits(&bench).await;
            // Watches a shard of the other core, too, which says that the permits are taken.
            let parts = vec![bench.part(0, 0), bench.part(1, 2)];
            let asked = bench.router.fetch(bench.fetch(parts, 1, FOREVER), Never);
            assert!(asked.await[1].as_ref().unwrap().bytes() > 0);
            nothing_is_read(&bench).await;
        }
    });
}

async fn goes_on(bench: &Rc<Bench>) {
    let waits = bench.metric("felix_shard_credit_waits_total");
    let reads = (0..LANE_CREDITS).map(|_| bench.read(1, 2));
    for read in join_all(reads).await {
        assert!(read.unwrap().bytes() > 0);
    }
    assert_eq!(bench.metric("felix_shard_credit_waits_total"), waits);
}
