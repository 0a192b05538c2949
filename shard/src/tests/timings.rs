//! How long things take, as the histograms of a core have it.

use super::{Bench, FOREVER, Never, Rig, batch, run};
use felix_core::histogram::Snapshot;
use felix_core::shards::{Acks, Append};
use felix_core::{Durability, Shards};
use std::time::Duration;

/// A distribution of this core.
pub(super) fn taken(bench: &Bench, name: &str) -> Snapshot {
    let mut found = None;
    let metrics = bench.core.metrics();
    metrics.distributions(bench.now(), &mut |distribution| {
        if distribution.name == name {
            found = Some(distribution.values);
        }
    });
    found.unwrap_or_else(|| panic!("there is no distribution {name}"))
}

#[test]
fn a_commit_is_timed_where_the_shard_is_and_a_hop_where_it_ends() {
    for durability in [Durability::OnCommit, Durability::Periodic, Durability::None] {
        run(Rig::new(2, durability), move |bench| async move {
            if bench.is_first() {
                let begun = bench.now();
                for shard in [0, 0, 0, 1] {
                    bench.append(shard, batch(&["a"])).await.unwrap();
                }
                let commits = taken(&bench, "felix_shard_commit_us");
                let whole = bench.now().until(begun).as_micros();
                assert!(u128::from(commits.sum()) <= whole);
                assert_eq!(commits.count(), 3);
                assert_eq!(taken(&bench, "felix_shard_hop_us").count(), 0);
                if durability == Durability::OnCommit {
                    let syncs = taken(&bench, "felix_storage_sync_duration_seconds");
                    assert_eq!(syncs.count(), 3);
                    // A commit waits for its flush.
                    assert!(commits.sum() >= syncs.sum());
                }
            } else {
                let hops = || taken(&bench, "felix_shard_hop_us").count();
                bench.until("the other core's append", || hops() == 1).await;
                let commits = || taken(&bench, "felix_shard_commit_us").count();
                bench.until("its commit", || commits() == 1).await;
            }
        });
    }
}

#[test]
fn a_fetch_is_timed_without_its_wait_and_one_that_ends_empty_not_at_all() {
    const WAIT: Duration = Duration::from_millis(100);
    run(Rig::new(1, Durability::Periodic), |bench| async move {
        let fetches = || taken(&bench, "felix_shard_fetch_us");
        let empty = bench.fetch(vec![bench.part(0, 0)], 1, Duration::from_millis(1));
        bench.router.fetch(empty, Never).await.remove(0).unwrap();
        assert_eq!(fetches().count(), 0);

        let waiting = bench.fetch(vec![bench.part(0, 0)], 1, FOREVER);
        let waiting = glommio::spawn_local(bench.router.fetch(waiting, Never));
        glommio::timer::sleep(WAIT).await;
        bench.append(0, batch(&["a"])).await.unwrap();
        assert!(waiting.await.remove(0).unwrap().bytes() > 0);
        assert_eq!(fetches().count(), 1);
        assert!(fetches().sum() < 50_000, "{}", fetches().sum());

        bench.read(0, 0).await.unwrap();
        assert_eq!(fetches().count(), 2);
    });
}

#[test]
fn how_many_records_a_batch_had_and_how_many_batches_shared_a_flush_is_told() {
    for durability in [Durability::OnCommit, Durability::Periodic] {
        run(Rig::new(1, durability), move |bench| async move {
            let append = |values: &[&str]| Append {
                shard: bench.shard(0),
                batch: batch(values),
            };
            // One message: all three are written before anything is flushed.
            let appends = vec![append(&["a"]), append(&["b", "c"]), append(&["d"])];
            let committed = bench.router.append(appends, Acks::All).await;
            assert!(committed.await.iter().all(Result::is_ok));
            let shared = || taken(&bench, "felix_storage_sync_batch_appends");
            bench.until("the flush", || shared().count() == 1).await;
            assert_eq!(shared().sum(), 3);
            let records = taken(&bench, "felix_storage_append_batch_records");
            assert_eq!((records.count(), records.sum()), (3, 4));
            assert_eq!(records.quantile(1.0), Some(2));
            let writes = taken(&bench, "felix_storage_append_duration_seconds");
            assert_eq!(writes.count(), 3);
        });
    }
}

#[test]
fn what_is_read_is_counted_and_reading_it_from_files_is_timed() {
    for tail_bytes_max in [0, 8 << 20] {
        let rig = Rig {
            tail_bytes_max,
            ..Rig::new(1, Durability::Periodic)
        };
        run(rig, move |bench| async move {
            let mut bytes = 0;
            for values in [&["a", "b", "c"][..], &["d"], &["e", "f"]] {
                bench.append(0, batch(values)).await.unwrap();
            }
            // A batch comes whole, wherever in it a reader begins.
            for (offset, records) in [(0, 6), (1, 6), (3, 3), (4, 2), (6, 0)] {
                let before = bench.metric("felix_storage_read_records_total");
                let timed = taken(&bench, "felix_storage_read_duration_seconds").count();
                bytes += bench.read(0, offset).await.unwrap().bytes();
                let after = bench.metric("felix_storage_read_records_total");
                assert_eq!(after - before, records, "from {offset}");
                let is_timed = records > 0 && tail_bytes_max == 0;
                let reads = taken(&bench, "felix_storage_read_duration_seconds");
                assert_eq!(reads.count() - timed, u64::from(is_timed));
            }
            let counted = bench.metric("felix_storage_read_bytes_total");
            assert_eq!(usize::try_from(counted).unwrap(), bytes);
        });
    }
}
