//! Which generation an offset is answered with.

use super::{Bench, Rig, batch, run_in};
use felix_core::shards::{OffsetQuery, OffsetSpec};
use felix_core::{Durability, Generation, Offset, ShardError, Shards};
use futures_util::FutureExt;

#[test]
fn the_earliest_offset_is_answered_with_the_generation_of_the_record_there() {
    let root = tempfile::tempdir().unwrap();
    let rig = Rig::new(1, Durability::Periodic);
    // What an opening finds: the end so far, and the generation of the first record.
    for (end, first) in [(0, 1), (0, 2), (1, 2), (2, 2)] {
        run_in(&root, rig, move |bench| async move {
            let query = |spec| OffsetQuery {
                shard: bench.shard(0),
                spec,
                generation: None,
            };
            let queries = vec![query(OffsetSpec::Earliest), query(OffsetSpec::Latest)];
            let answers = bench.router.offsets(queries).await;
            let [Ok(earliest), Ok(latest)] = &answers[..] else {
                panic!("{answers:?}")
            };
            assert_eq!(earliest.found, Some((Offset::ZERO, None)));
            assert_eq!(earliest.generation, Generation::new(first));
            assert_eq!(latest.found, Some((Offset::new(end), None)));
            assert!(latest.generation >= earliest.generation);
            if latest.generation >= Generation::new(2) {
                bench.append(0, batch(&["a"])).await.unwrap();
            }
        });
    }
}

impl Bench {
    /// Where a generation of a shard ends: that one, or the one before it that has records.
    async fn end_of(
        &self,
        shard: u32,
        asked: u32,
        believed: Option<u32>,
    ) -> Result<Option<(u32, u64)>, ShardError> {
        let query = OffsetQuery {
            shard: self.shard(shard),
            spec: OffsetSpec::EndOf(Generation::new(asked)),
            generation: believed.map(Generation::new),
        };
        let answer = self.router.offsets(vec![query]).await.remove(0)?;
        let generation = answer.generation.get();
        Ok(answer.found.map(|(end, _)| (generation, end.get())))
    }
}

#[test]
fn a_generation_ends_where_the_next_one_that_has_records_begins_on_the_own_core_and_across_cores() {
    let root = tempfile::tempdir().unwrap();
    let rig = Rig::new(2, Durability::Periodic);
    // Generations 1 to 4, and the records of each.
    for (opened, records) in [(1_u32, 2), (2, 0), (3, 1), (4, 0)] {
        run_in(&root, rig, move |bench| async move {
            if !bench.is_first() {
                return;
            }
            for shard in 0..2 {
                for _ in 0..records {
                    bench.append(shard, batch(&["a"])).await.unwrap();
                }
                if opened < 4 {
                    continue;
                }
                for (asked, found) in [
                    (1, Some((1, 2))),
                    // It held none.
                    (2, Some((1, 2))),
                    (3, Some((3, 3))),
                    (4, Some((4, 3))),
                    (5, None),
                ] {
                    assert_eq!(bench.end_of(shard, asked, Some(4)).await, Ok(found));
                    assert_eq!(bench.end_of(shard, asked, None).await, Ok(found));
                }
                let current = Generation::new(4);
                let older = bench.end_of(shard, 1, Some(3)).await;
                assert_eq!(older, Err(ShardError::FencedGeneration { current }));
                let newer = bench.end_of(shard, 1, Some(5)).await;
                assert_eq!(newer, Err(ShardError::UnknownGeneration { current }));
            }
        });
    }
}

#[test]
fn no_generation_ends_above_what_readers_see() {
    let rig = Rig::new(1, Durability::OnCommit);
    super::run(rig, |bench| async move {
        bench.append(0, batch(&["a"])).await.unwrap();
        // Written, and not on the device.
        let append = felix_core::shards::Append {
            shard: bench.shard(0),
            batch: batch(&["b"]),
        };
        let handed = bench
            .router
            .append(vec![append], felix_core::shards::Acks::All);
        let committed = handed.now_or_never().expect("it is placed at once");
        let before = bench.end_of(0, 1, None).now_or_never();
        assert_eq!(before, Some(Ok(Some((1, 1)))));
        committed.await.remove(0).unwrap();
        assert_eq!(bench.end_of(0, 1, None).await, Ok(Some((1, 2))));
    });
}
