//! The recent batches of the shards of one core, in memory. Lives on the owner core.
//!
//! Only appends put batches in, so a reader that catches up from the disk evicts nothing. What is
//! counted is the memory that they take: beside a batch of some ten bytes, that of its allocations
//! and of its place here is most of it.

use crate::chunks::Chunks;
use crate::pieces::Taken;
use bytes::Bytes;
use felix_core::{Offset, PlacedBatch, ShardId};
use std::collections::HashMap;

/// Batches found in one go, however small they are: more would hold the core for longer than a task
/// may.
const FOUND_MAX: usize = 4096;

/// Up to this size a batch is copied out of the request that it came with, which may be as large
/// again. It takes less time than the allocation, and a larger batch has little beside it.
const COPIED_BYTES_MAX: usize = 1 << 10;

/// What allocations cost beside the bytes of a batch: the allocator's own before and behind, and
/// the count of who shares them.
const ALLOCATION_BYTES: usize = 80;

/// What a batch costs beside its bytes.
const BATCH_BYTES: usize = size_of::<Kept>() + ALLOCATION_BYTES;

/// What its place in the order costs.
const ORDER_BYTES: usize = size_of::<(ShardId, Offset)>();

/// What a shard costs beside its batches: its entry, and chunks that are not full.
const SHARD_BYTES: usize = 1 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes_max: usize,
    bytes: usize,
    /// Per shard: a run of batches without a gap, up to the last one appended.
    shards: HashMap<ShardId, Chunks<Kept>>,
    /// All batches of the core, oldest first. An entry whose batch is no longer there is skipped.
    order: Chunks<(ShardId, Offset)>,
}

/// A batch in memory.
#[derive(Debug)]
struct Kept {
    /// None for a control batch, which no reader is given: its offsets are stepped over.
    bytes: Bytes,
    base: Offset,
    next: Offset,
}

impl Kept {
    fn new(batch: &PlacedBatch) -> Self {
        let bytes = batch.bytes();
        Self {
            bytes: if batch.is_control() {
                Bytes::new()
            } else if bytes.len() <= COPIED_BYTES_MAX {
                Bytes::copy_from_slice(bytes)
            } else {
                bytes.clone()
            },
            base: batch.base_offset(),
            next: batch.next_offset(),
        }
    }

    fn cost(&self) -> usize {
        self.bytes.len() + BATCH_BYTES
    }
}

impl Tail {
    /// Keeps as many batches as take at most `bytes_max` bytes of memory.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            shards: HashMap::new(),
            order: Chunks::default(),
        }
    }

    /// Keeps the batch that was just appended to `shard`.
    pub(crate) fn push(&mut self, shard: ShardId, batch: &PlacedBatch) {
        let kept = Kept::new(batch);
        self.bytes += kept.cost() + ORDER_BYTES;
        self.order.push_back((shard, kept.base));
        let batches = self.shards.entry(shard).or_insert_with(|| {
            self.bytes += SHARD_BYTES;
            Chunks::default()
        });
        batches.push_back(kept);
        while self.bytes > self.bytes_max {
            self.evict_oldest();
        }
    }

    fn evict_oldest(&mut self) {
        let (shard, base) = self
            .order
            .pop_front()
            .expect("bytes are of batches in order");
        self.bytes -= ORDER_BYTES;
        let Some(batches) = self.shards.get_mut(&shard) else {
            return;
        };
        if batches.front().is_none_or(|batch| batch.base != base) {
            return;
        }
        let batch = batches.pop_front().expect("there is a front");
        self.bytes -= batch.cost();
        if batches.is_empty() {
            self.shards.remove(&shard);
            self.bytes -= SHARD_BYTES;
        }
    }

    /// Forgets a shard. Its places in the order are given up one by one, as their turns come.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        if let Some(batches) = self.shards.remove(&shard) {
            self.bytes -= SHARD_BYTES + batches.iter().map(Kept::cost).sum::<usize>();
        }
    }

    /// The batches from the one that holds `from` up to `below`, each a piece, as many as fit in
    /// `bytes_max`; the first even if it does not, where `first_whole`. Never control batches. `None`:
    /// not all in memory.
    pub(crate) fn read(
        &self,
        shard: ShardId,
        from: Offset,
        below: Offset,
        bytes_max: usize,
        first_whole: bool,
    ) -> Option<Taken> {
        let batches = self.shards.get(&shard)?;
        if batches.front()?.base > from {
            return None;
        }
        let mut found = Taken::default();
        for batch in batches.after(|batch| batch.next <= from) {
            if batch.next > below {
                break;
            }
            if batch.bytes.is_empty() {
                if !found.pieces.is_empty() {
                    found.end = Some(batch.next);
                }
                continue;
            }
            let size = batch.bytes.len();
            let always = first_whole && found.pieces.is_empty();
            if found.pieces.len() == FOUND_MAX || (found.bytes + size > bytes_max && !always) {
                break;
            }
            found.bytes += size;
            // An append has no gaps: its records are as many as its offsets.
            found.records += batch.next.get() - batch.base.get();
            found.end = Some(batch.next);
            found.pieces.push(batch.bytes.clone());
        }
        Some(found)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::batch::{BatchBuilder, Place};
    use felix_core::{Batch, Generation, StreamId, Timestamp};

    fn shard(index: u32) -> ShardId {
        let stream = StreamId(1);
        ShardId { stream, index }
    }

    fn batch(offset: u64, value: &[u8]) -> PlacedBatch {
        let builder = BatchBuilder::new().record(Timestamp(0), None, Some(value));
        Batch::parse(builder.build()).unwrap().place(Place {
            base_offset: Offset::new(offset),
            generation: Generation::new(1),
            append_time: None,
        })
    }

    #[test]
    fn small_batches_take_no_more_memory_than_the_setting_says() {
        const BUDGET: usize = 1 << 20;
        let mut tail = Tail::new(BUDGET);
        for offset in 0..20_000 {
            tail.push(shard(0), &batch(offset, b"x"));
        }
        let batches = &tail.shards[&shard(0)];
        let taken = |batch: &Kept| {
            // Where a reader has it too, the allocator holds three words and a count with it.
            let allocations = batch.bytes.len().next_multiple_of(16) + 16 + 48;
            allocations + size_of::<Kept>() + size_of::<(ShardId, Offset)>()
        };
        let all: usize = batches.iter().map(taken).sum();
        assert!(all <= BUDGET, "{all}");
        assert!(all > BUDGET / 4 * 3, "the budget is used: {all}");
    }

    #[test]
    fn a_small_batch_does_not_keep_the_request_that_it_came_with() {
        let placed = batch(0, b"x");
        let kept = Kept::new(&placed);
        assert_eq!(&kept.bytes, placed.bytes());
        assert_ne!(kept.bytes.as_ptr(), placed.bytes().as_ptr());
        let placed = batch(0, &[0; 4096]);
        assert_eq!(Kept::new(&placed).bytes.as_ptr(), placed.bytes().as_ptr());
    }

    #[test]
    fn a_control_batch_is_stepped_over() {
        let mut tail = Tail::new(1 << 20);
        let starts = PlacedBatch::generation_start;
        let control = starts(Offset::new(1), Generation::new(1), Timestamp(0));
        let [before, after] = [batch(0, b"before"), batch(2, b"after")];
        for batch in [&before, &control, &after] {
            tail.push(shard(0), batch);
        }
        let end = Offset::new(3);
        for (from, expected) in [(0, vec![&before, &after]), (1, vec![&after])] {
            let found = tail.read(shard(0), Offset::new(from), end, usize::MAX, true);
            let found = found.expect("all is in memory");
            let expected: Vec<_> = expected.iter().map(|batch| batch.bytes()).collect();
            assert_eq!(found.pieces.iter().collect::<Vec<_>>(), expected);
            assert_eq!(found.end, Some(end));
        }
        let control = control.next_offset();
        let before = tail.read(shard(0), Offset::ZERO, control, usize::MAX, true);
        assert_eq!(before.expect("it is in memory").end, Some(control));
    }

    #[test]
    fn a_shard_that_is_forgotten_leaves_the_others_theirs_and_comes_back_empty() {
        let mut tail = Tail::new(1 << 20);
        for offset in 0..100 {
            tail.push(shard(0), &batch(offset, b"x"));
            tail.push(shard(1), &batch(offset, b"x"));
        }
        let read = |tail: &Tail, shard| {
            let end = Offset::new(100);
            let found = tail.read(shard, Offset::ZERO, end, usize::MAX, true);
            found.map(|found| found.pieces.len())
        };
        let both = tail.bytes();
        tail.forget(shard(0));
        assert!(tail.bytes() < both);
        assert_eq!(read(&tail, shard(0)), None);
        assert_eq!(read(&tail, shard(1)), Some(100));
        tail.push(shard(0), &batch(0, b"x"));
        assert_eq!(read(&tail, shard(0)), Some(1));
        // Until all has been evicted, more than once.
        for offset in 0..10 {
            tail.push(shard(2), &batch(offset, &[0; 300 << 10]));
        }
        assert_eq!(read(&tail, shard(0)), None);
        assert_eq!(read(&tail, shard(1)), None);
        assert!(tail.bytes() <= 1 << 20);
        while tail.bytes() > 0 {
            tail.evict_oldest();
        }
        assert!(tail.order.is_empty());
    }
}
