//! What readers of a story ask, and what they have to be answered.

use super::story::Story;
use crate::Router;
use crate::tests::{Never, batches};
use felix_core::limits::FETCH_BYTES_MAX;
use felix_core::shards::{Fetch, FetchPart, Fetched, OffsetQuery, OffsetSpec};
use felix_core::{Monotonic, Offset, PlacedBatch, ShardError, Shards, Timestamp};
use std::time::Duration;

/// Of a batch that no reader gets.
const HIDDEN_BYTES_MAX: u64 = 200;

impl Story {
    /// Reads the whole of a shard that has just been opened.
    pub(super) async fn check(&self, router: &Router, index: usize, is_well: bool) {
        let Some(generation) = self.generation(router, index) else {
            let reason = self.read(router, index, Offset::ZERO).await;
            assert!(
                !is_well,
                "shard {index}, on a disk that is well: {reason:?}"
            );
            return;
        };
        let mut all: Vec<PlacedBatch> = Vec::new();
        let mut bounds = None;
        let mut at = self.models[index].borrow().span().0;
        loop {
            match self.read(router, index, at).await {
                Ok(fetched) => {
                    let (start, end) = (fetched.log_start, fetched.visible_end);
                    let is_kept = |known: (Offset, Offset)| {
                        // Behind the last batch there may be some that no reader gets. Where nothing
                        // else is left the log begins behind them.
                        let model = self.models[index].borrow();
                        let is_end = known.1 == end || (start == end && model.hides(known.1, end));
                        is_end && (known.0 == start || self.rig.retention.is_bounded())
                    };
                    assert!(bounds.is_none_or(is_kept), "{bounds:?}, and {start}..{end}");
                    bounds = Some((start, end));
                    all.extend(batches(&fetched));
                    at = all.last().map_or(start, PlacedBatch::next_offset);
                    if at >= end {
                        break;
                    }
                    assert!(
                        fetched.bytes() > 0,
                        "nothing at {at}: {start}..{end}, {:?}",
                        fetched.left_out
                    );
                }
                Err(ShardError::OffsetOutOfRange {
                    log_start,
                    visible_end,
                }) => {
                    let may_be = all.is_empty() || self.rig.retention.is_bounded();
                    assert!(may_be && log_start > at, "{at}: {log_start}..{visible_end}");
                    // What was read before has gone since.
                    all.clear();
                    at = log_start;
                }
                Err(error) => {
                    assert!(!is_well, "{error}, though the disk is well");
                    return;
                }
            }
        }
        let bounds = bounds.expect("an answer had them");
        all.retain(|batch| batch.base_offset() >= bounds.0);
        self.say(|| format!("shard {index}: {bounds:?} in {generation:?}"));
        self.models[index]
            .borrow_mut()
            .reopened(bounds, generation, &all, self.wall());
        for _ in 0..4 {
            self.query(router, index, &all, is_well).await;
        }
        self.query_greatest(router, index, &all, is_well).await;
    }

    /// The greatest time is found where a reader of everything finds it: the first record of the first batch
    /// that has it.
    async fn query_greatest(
        &self,
        router: &Router,
        index: usize,
        all: &[PlacedBatch],
        is_well: bool,
    ) {
        let greatest = all.iter().map(PlacedBatch::max_timestamp).max();
        let batch = all
            .iter()
            .find(|batch| Some(batch.max_timestamp()) == greatest);
        let record = batch.and_then(|batch| {
            let mut records = batch.records().expect("it was read before").into_iter();
            records.find(|record| Some(record.timestamp) == greatest)
        });
        let expected = record.map(|record| (record.offset, Some(record.timestamp)));
        let spec = OffsetSpec::MaxTimestamp;
        self.ask(router, index, spec, (all, expected), is_well)
            .await;
    }

    /// A time is found where a reader of everything finds it.
    async fn query(&self, router: &Router, index: usize, all: &[PlacedBatch], is_well: bool) {
        let mut records = all
            .iter()
            .flat_map(|batch| batch.records().expect("it was read before"));
        let since = self.simulation.draw(|random| match random.u8(..4) {
            0 => random.i64(-10_000..0),
            _ => random.i64(-5..400),
        });
        let wanted = Timestamp(self.wall().0 - since);
        let expected = records
            .find(|record| record.timestamp >= wanted)
            .map(|record| (record.offset, Some(record.timestamp)));
        let spec = OffsetSpec::AtOrAfter(wanted);
        self.ask(router, index, spec, (all, expected), is_well)
            .await;
    }

    async fn ask(
        &self,
        router: &Router,
        index: usize,
        spec: OffsetSpec,
        (all, expected): (&[PlacedBatch], Option<(Offset, Option<Timestamp>)>),
        is_well: bool,
    ) {
        let query = OffsetQuery {
            shard: self.shards[index],
            spec,
            generation: None,
        };
        match router.offsets(vec![query]).await.remove(0) {
            // Retention may have taken it since.
            Ok(answer) if answer.found != expected && self.rig.retention.is_bounded() => {
                let start = all.first().map(PlacedBatch::base_offset);
                assert_ne!(self.earliest(router, index).await, start, "{answer:?}");
            }
            Ok(answer) => assert_eq!(answer.found, expected, "{spec:?}"),
            Err(error) => assert!(!is_well, "{error}, though the disk is well"),
        }
    }

    /// Where retention by bytes alone has moved the log start since it was `before`, as many are left as are to
    /// be kept. In a life in which nothing is lost.
    pub(super) async fn check_kept(&self, router: &Router, index: usize, before: Option<Offset>) {
        let Some(kept) = self
            .rig
            .retention
            .bytes
            .filter(|_| self.rig.retention.age.is_none())
        else {
            return;
        };
        let start = self.earliest(router, index).await;
        if start == before {
            return;
        }
        let (mut at, mut left) = (start.expect("its disk is well"), 0);
        loop {
            match self.read(router, index, at).await {
                Ok(fetched) if fetched.bytes() > 0 => {
                    left += fetched.bytes() as u64;
                    at = batches(&fetched).last().expect("it has some").next_offset();
                }
                Ok(_) => break,
                Err(ShardError::OffsetOutOfRange { log_start, .. }) if log_start > at => {
                    (at, left) = (log_start, 0);
                }
                Err(error) => panic!("{error}, though the disk is well"),
            }
        }
        // What no reader gets is of openings by another leader.
        let hidden = self.models[index].borrow().promotions() * HIDDEN_BYTES_MAX;
        assert!(
            left + hidden >= kept.get(),
            "{left} bytes are left of {kept}"
        );
    }

    pub(super) async fn earliest(&self, router: &Router, index: usize) -> Option<Offset> {
        let query = OffsetQuery {
            shard: self.shards[index],
            spec: OffsetSpec::Earliest,
            generation: None,
        };
        let answer = router.offsets(vec![query]).await.remove(0);
        answer.ok()?.found.map(|(offset, _)| offset)
    }

    pub(super) async fn read(
        &self,
        router: &Router,
        index: usize,
        offset: Offset,
    ) -> Result<Fetched, ShardError> {
        let wait = self.simulation.draw(|random| random.u64(..3));
        let bytes_max = self.simulation.draw(|random| random.usize(1..4000));
        let part = FetchPart {
            shard: self.shards[index],
            offset,
            bytes_max,
            generation: None,
        };
        let now = Monotonic(self.simulation.now());
        let fetch = Fetch {
            first_bytes_max: FETCH_BYTES_MAX,
            parts: vec![part],
            bytes_min: usize::from(wait > 0),
            bytes_max,
            deadline: now.after(Duration::from_millis(wait)),
        };
        router.fetch(fetch, Never).await.remove(0)
    }
}
