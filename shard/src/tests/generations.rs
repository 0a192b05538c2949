//! Which generation an offset is answered with.

use super::{Rig, batch, run_in};
use felix_core::shards::{OffsetQuery, OffsetSpec};
use felix_core::{Durability, Generation, Offset, Shards};

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
