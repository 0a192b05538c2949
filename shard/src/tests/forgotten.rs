//! Producers that a shard knows no more: there were too many of them, or retention has let go of all
//! that they wrote (claims 28, 186 and 187). On real files; clients are not told ids yet.

use super::producers::of;
use super::{Bench, Rig, run, run_in};
use felix_core::limits::PRODUCERS_PER_SHARD_MAX;
use felix_core::{Durability, Retention, ShardError};
use std::num::NonZeroU64;

const SEGMENT_BYTES: u64 = 4 << 10;
const BUSY: i64 = 1;

impl Bench {
    /// Sends the record after the first one of a producer that the shard does not know.
    async fn assert_unknown(&self, id: i64) {
        let before = self.metric("felix_producer_unknown_total");
        let refused = self.base(0, of(id, 1, 1)).await;
        let is_told = matches!(refused, Err(ShardError::UnknownProducer { .. }));
        assert!(is_told, "{id}: {refused:?}");
        assert_eq!(self.metric("felix_producer_unknown_total"), before + 1);
    }

    /// Sends the first record of a producer again, which landed there.
    async fn assert_known(&self, id: i64, first: u64) {
        assert_eq!(self.base(0, of(id, 0, 1)).await, Ok(first), "{id}");
    }
}

fn kept() -> Retention {
    Retention {
        bytes: NonZeroU64::new(2 * SEGMENT_BYTES),
        age: None,
    }
}

#[test]
fn producers_whose_records_retention_has_deleted_are_told_so_and_begin_anew_after_a_restart_too() {
    for durability in [Durability::OnCommit, Durability::Periodic, Durability::None] {
        let root = tempfile::tempdir().unwrap();
        let rig = Rig {
            segment_bytes_max: SEGMENT_BYTES,
            retention: kept(),
            ..Rig::new(1, durability)
        };
        run_in(&root, rig, |bench| async move {
            for id in [7, 8, 9] {
                bench.base(0, of(id, 0, 1)).await.unwrap();
            }
            bench.assert_known(7, 0).await;
            // Some tens of segments.
            let number = 2000;
            for number in 0..number {
                let base = bench.base(0, of(BUSY, number, 1)).await;
                assert_eq!(base, Ok(3 + number));
            }
            let start = || bench.metric("felix_storage_retention_base_offset");
            bench.until("the start", || start() >= 3).await;
            bench.assert_unknown(7).await;
            assert_eq!(bench.metric("felix_producer_forgotten_total"), 3);
            assert_eq!(bench.metric("felix_producer_known"), 1);
            // Claim 187: the first record of a producer is never answered so.
            assert_eq!(bench.base(0, of(7, 0, 1)).await, Ok(3 + number));
            assert_eq!(bench.base(0, of(7, 1, 1)).await, Ok(4 + number));
            // Who has records above the start is known as before.
            let again = bench.base(0, of(BUSY, number - 1, 1)).await;
            assert_eq!(again, Ok(2 + number));
        });
        run_in(&root, rig, |bench| async move {
            bench.assert_unknown(8).await;
            bench.assert_unknown(9).await;
            assert_eq!(bench.metric("felix_producer_known"), 2);
            assert!(bench.base(0, of(7, 2, 1)).await.is_ok());
            assert!(bench.base(0, of(9, 0, 1)).await.is_ok());
            assert!(bench.base(0, of(9, 1, 1)).await.is_ok());
        });
    }
}

#[test]
fn a_shard_knows_4096_producers_and_forgets_by_the_last_record_after_a_restart_too() {
    let most = i64::try_from(PRODUCERS_PER_SHARD_MAX).unwrap();
    assert_eq!(most, 4096, "as the page for operators says");
    let root = tempfile::tempdir().unwrap();
    run_in(
        &root,
        Rig::new(1, Durability::Periodic),
        move |bench| async move {
            for id in 0..most {
                bench.base(0, of(id, 0, 1)).await.unwrap();
            }
            assert_eq!(bench.metric("felix_producer_known"), most);
            assert_eq!(bench.metric("felix_producer_forgotten_total"), 0);
            // The oldest writes again, and is not the one that has to go.
            bench.base(0, of(0, 1, 1)).await.unwrap();
            bench.base(0, of(most, 0, 1)).await.unwrap();
            assert_eq!(bench.metric("felix_producer_known"), most);
            assert_eq!(bench.metric("felix_producer_forgotten_total"), 1);
            bench.assert_unknown(1).await;
            bench.assert_known(0, 0).await;
            bench.assert_known(2, 2).await;
        },
    );
    run_in(
        &root,
        Rig::new(1, Durability::Periodic),
        move |bench| async move {
            assert_eq!(bench.metric("felix_producer_known"), most);
            bench.assert_unknown(1).await;
            bench.base(0, of(most + 1, 0, 1)).await.unwrap();
            bench.assert_unknown(2).await;
            bench.assert_known(0, 0).await;
            bench.assert_known(3, 3).await;
        },
    );
}

#[test]
fn over_the_bytes_of_a_core_the_producer_whose_last_record_is_the_oldest_goes() {
    run(Rig::new(1, Durability::Periodic), |bench| async move {
        for id in 0..20 {
            bench.base(0, of(id, 0, 1)).await.unwrap();
        }
        bench.base(0, of(0, 1, 1)).await.unwrap();
        let bytes = bench.core.owner().producers().bytes();
        bench.core.owner().producers().bound(bytes);
        bench.base(0, of(20, 0, 1)).await.unwrap();
        assert_eq!(bench.metric("felix_producer_forgotten_total"), 1);
        assert!(bench.core.owner().producers().bytes() <= bytes);
        bench.assert_unknown(1).await;
        bench.assert_known(0, 0).await;
        bench.assert_known(2, 2).await;
        assert_eq!(bench.metric("felix_producer_duplicates_total"), 2);
    });
}
