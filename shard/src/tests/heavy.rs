//! Searches that are too much work for a core are done beside it, and hold nobody up.

use super::{Bench, Rig, batch, large_batch, run};
use felix_core::batch::{BatchBuilder, Codec};
use felix_core::limits::{
    BATCH_BYTES_ON_CORE_MAX, COLD_READS_IN_FLIGHT_PER_SHARD_MAX, HEAVY_SEARCH_JOBS_PER_CORE_MAX,
};
use felix_core::shards::{OffsetAnswer, OffsetQuery, OffsetSpec};
use felix_core::{Batch, Durability, Offset, ShardError, Shards, Timestamp};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::future::Future;

/// More than there are permits to wait for the device.
const ASKED: usize = 2 * COLD_READS_IN_FLIGHT_PER_SHARD_MAX;

fn rig(cores: u16) -> Rig {
    Rig {
        // Everything is read from the log.
        tail_bytes_max: 0,
        ..Rig::new(cores, Durability::Periodic)
    }
}

/// Few bytes that become many.
fn bomb() -> Batch {
    let value = vec![0; 2 * BATCH_BYTES_ON_CORE_MAX];
    let builder = BatchBuilder::new().codec(Codec::Gzip);
    let bytes = builder
        .record(Timestamp(1000), None, Some(b"early"))
        .record(Timestamp(2000), None, Some(&value))
        .build();
    assert!(bytes.len() < 4096);
    Batch::parse(bytes).unwrap()
}

fn search(
    bench: &Bench,
    shard: u32,
    timestamp: i64,
) -> impl Future<Output = Result<OffsetAnswer, ShardError>> {
    let query = OffsetQuery {
        shard: bench.shard(shard),
        spec: OffsetSpec::AtOrAfter(Timestamp(timestamp)),
        generation: None,
    };
    let router = bench.router.clone();
    async move { router.offsets(vec![query]).await.remove(0) }
}

fn found(offset: u64, timestamp: i64) -> Option<(Offset, Option<Timestamp>)> {
    Some((Offset::new(offset), Some(Timestamp(timestamp))))
}

#[test]
fn readers_and_writers_of_a_shard_go_on_while_heavy_searches_wait() {
    run(rig(1), |bench| async move {
        bench.append(0, bomb()).await.unwrap();
        // Something that no core reads in one go.
        for _ in 0..2 {
            bench.append(0, large_batch(400 << 10)).await.unwrap();
        }
        bench.heavy.hold();
        let mut searches: Vec<_> = (0..ASKED)
            .map(|_| Box::pin(search(&bench, 0, 1500)))
            .collect();
        for search in &mut searches {
            assert!(search.now_or_never().is_none());
        }
        let given = || bench.heavy.given.get();
        bench.until("the first job", || given() == 1).await;
        // What is not heavy needs the same permits.
        let cold = bench.metric("felix_shard_cold_reads_total");
        assert!(bench.read(0, 2).await.unwrap().bytes() > 800 << 10);
        assert_eq!(bench.metric("felix_shard_cold_reads_total"), cold + 1);
        bench.append(0, batch(&["light"])).await.unwrap();
        assert_eq!(
            given(),
            1,
            "one at a time: {HEAVY_SEARCH_JOBS_PER_CORE_MAX}"
        );
        bench.heavy.release();
        for answer in join_all(searches).await {
            assert_eq!(answer.unwrap().found, found(1, 2000));
        }
        assert_eq!(given(), ASKED as u64);
    });
}

#[test]
fn a_heavy_search_that_nobody_waits_for_any_more_never_runs() {
    run(rig(2), |bench| async move {
        if !bench.is_first() {
            return;
        }
        bench.append(0, bomb()).await.unwrap();
        bench.heavy.hold();
        let mut searches: Vec<_> = (0..ASKED).map(|_| Box::pin(search(&bench, 0, 0))).collect();
        for search in &mut searches {
            assert!(search.now_or_never().is_none());
        }
        let given = || bench.heavy.given.get();
        bench.until("the first job", || given() == 1).await;
        let last = searches.pop().unwrap();
        drop(searches);
        bench.heavy.release();
        assert_eq!(last.await.unwrap().found, found(0, 1000));
        assert_eq!(given(), 2, "the one under way, and the one that is wanted");
        let abandoned = || bench.metric("felix_shard_abandoned_requests_total");
        let all = i64::try_from(ASKED).unwrap() - 2;
        bench.until("the others", || abandoned() >= all).await;
    });
}

#[test]
fn a_search_of_little_work_stays_on_the_core() {
    run(rig(1), |bench| async move {
        bench.heavy.hold();
        for value in ["a", "b"] {
            bench.append(0, batch(&[value])).await.unwrap();
        }
        assert_eq!(search(&bench, 0, 1000).await.unwrap().found, found(0, 1000));
        assert_eq!(search(&bench, 0, 1001).await.unwrap().found, None);
        assert_eq!(bench.heavy.given.get(), 0);
    });
}
