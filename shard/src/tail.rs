//! The recent batches of the shards of one core, in memory. Lives on the owner core.
//!
//! Only appends put batches in, so a reader that catches up from the disk evicts nothing.

use bytes::Bytes;
use felix_core::{Offset, PlacedBatch, ShardId};
use std::collections::{HashMap, VecDeque};

/// Batches found in one go, however small they are: more would hold the core for longer than a task
/// may.
const FOUND_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes_max: usize,
    bytes: usize,
    /// Per shard: a run of batches without a gap, up to the last one appended.
    shards: HashMap<ShardId, VecDeque<PlacedBatch>>,
    /// All batches of the core, oldest first. An entry whose batch is no longer there is skipped.
    order: VecDeque<(ShardId, Offset)>,
}

/// Batches found in memory.
#[derive(Debug)]
pub(crate) struct Found {
    /// Whole batches.
    pub(crate) pieces: Vec<Bytes>,
    /// The offset after the last of them; `None` where a limit left none.
    pub(crate) end: Option<Offset>,
}

impl Tail {
    /// Keeps at most `bytes_max` bytes of batches.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            shards: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Keeps the batch that was just appended to `shard`.
    pub(crate) fn push(&mut self, shard: ShardId, batch: PlacedBatch) {
        self.bytes += batch.bytes().len();
        self.order.push_back((shard, batch.base_offset()));
        self.shards.entry(shard).or_default().push_back(batch);
        while self.bytes > self.bytes_max {
            self.evict_oldest();
        }
    }

    fn evict_oldest(&mut self) {
        let (shard, base) = self
            .order
            .pop_front()
            .expect("bytes are of batches in order");
        let Some(batches) = self.shards.get_mut(&shard) else {
            return;
        };
        if batches
            .front()
            .is_none_or(|batch| batch.base_offset() != base)
        {
            return;
        }
        let batch = batches.pop_front().expect("there is a front");
        self.bytes -= batch.bytes().len();
        if batches.is_empty() {
            self.shards.remove(&shard);
        }
    }

    /// Forgets a shard.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        let batches = self.shards.remove(&shard).unwrap_or_default();
        self.bytes -= batches
            .iter()
            .map(|batch| batch.bytes().len())
            .sum::<usize>();
        self.order.retain(|(other, _)| *other != shard);
    }

    /// The batches from the one that holds `from` up to `below`, as many whole ones as fit in
    /// `bytes_max`; the first even if it does not, where `first_whole`. `None`: not all in memory.
    pub(crate) fn read(
        &self,
        shard: ShardId,
        from: Offset,
        below: Offset,
        bytes_max: usize,
        first_whole: bool,
    ) -> Option<Found> {
        let batches = self.shards.get(&shard)?;
        if batches.front()?.base_offset() > from {
            return None;
        }
        let first = batches.partition_point(|batch| batch.next_offset() <= from);
        let mut found = Found {
            pieces: Vec::new(),
            end: None,
        };
        let mut bytes = 0;
        for batch in batches.range(first..) {
            if batch.next_offset() > below {
                break;
            }
            let size = batch.bytes().len();
            let always = first_whole && found.pieces.is_empty();
            if found.pieces.len() == FOUND_MAX || (bytes + size > bytes_max && !always) {
                break;
            }
            bytes += size;
            found.end = Some(batch.next_offset());
            found.pieces.push(batch.bytes().clone());
        }
        Some(found)
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
