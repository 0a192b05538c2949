//! The memory that the shards of one core give to what they know of idempotent producers.
//!
//! Each shard knows a bounded number of them, and many shards together are bounded by bytes. Offsets
//! of different shards say nothing about which producer wrote earlier, so over the bound the shard
//! that takes most parts with the one that has written nothing to it for longest: a tenant with very
//! many producers costs others nothing.

use crate::metrics::CoreMetrics;
use felix_core::{Producers, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// See the module. Lives on its core.
#[derive(Debug)]
pub(crate) struct ProducerMemory {
    bytes_max: Cell<usize>,
    metrics: Rc<CoreMetrics>,
    bytes: Cell<usize>,
    known: Cell<usize>,
    /// Shards that know producers, by the memory that takes.
    shards: RefCell<BTreeSet<(usize, ShardId)>>,
}

impl ProducerMemory {
    pub(crate) fn new(bytes_max: usize, metrics: Rc<CoreMetrics>) -> Self {
        Self {
            bytes_max: Cell::new(bytes_max),
            metrics,
            bytes: Cell::new(0),
            known: Cell::new(0),
            shards: RefCell::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn bound(&self, bytes_max: usize) {
        self.bytes_max.set(bytes_max);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Producers known to the shards of the core; one that writes to several counts for each.
    pub(crate) fn known(&self) -> usize {
        self.known.get()
    }

    /// The shard that has to forget a producer; `None`: there is room.
    pub(crate) fn over(&self) -> Option<ShardId> {
        if self.bytes.get() <= self.bytes_max.get() {
            return None;
        }
        self.shards.borrow().last().map(|(_, shard)| *shard)
    }

    /// The share of a shard that knows nobody yet.
    pub(crate) fn share(self: &Rc<Self>, shard: ShardId) -> ProducerShare {
        ProducerShare {
            memory: Rc::clone(self),
            shard,
            bytes: 0,
            known: 0,
            forgotten: 0,
        }
    }
}

/// What one shard has of it, until it is dropped.
#[derive(Debug)]
pub(crate) struct ProducerShare {
    memory: Rc<ProducerMemory>,
    shard: ShardId,
    bytes: usize,
    known: usize,
    forgotten: u64,
}

impl ProducerShare {
    /// The shard's table is like this now.
    pub(crate) fn update(&mut self, table: &Producers) {
        self.put(table.bytes(), table.known());
        let before = std::mem::replace(&mut self.forgotten, table.forgotten());
        let forgotten = &self.memory.metrics.forgotten_producers;
        forgotten.add(self.forgotten - before);
    }

    fn put(&mut self, bytes: usize, known: usize) {
        let memory = &self.memory;
        memory.known.set(memory.known.get() - self.known + known);
        self.known = known;
        if bytes == self.bytes {
            return;
        }
        memory.bytes.set(memory.bytes.get() - self.bytes + bytes);
        let mut shards = memory.shards.borrow_mut();
        shards.remove(&(self.bytes, self.shard));
        if bytes > 0 {
            shards.insert((bytes, self.shard));
        }
        self.bytes = bytes;
    }
}

impl Drop for ProducerShare {
    fn drop(&mut self) {
        self.put(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::producers::Sequenced;
    use felix_core::{Offset, StreamId};

    fn shard(index: u32) -> ShardId {
        let stream = StreamId(1);
        ShardId { stream, index }
    }

    fn table(producers: i64) -> Producers {
        let mut table = Producers::new(Offset::ZERO, 4096);
        for (offset, producer_id) in (0..producers).enumerate() {
            let batch = Sequenced {
                producer_id,
                epoch: 0,
                first: 0,
                records: 1,
            };
            table.note(&batch, Offset::new(offset as u64), None);
        }
        table
    }

    #[test]
    fn over_its_bound_the_shard_that_takes_most_has_to_forget_and_one_that_ends_takes_nothing() {
        let one = table(1).bytes();
        let memory = Rc::new(ProducerMemory::new(5 * one, Rc::default()));
        let mut shares: Vec<_> = (0..3).map(|index| memory.share(shard(index))).collect();
        for (share, producers) in shares.iter_mut().zip([2, 3, 0]) {
            share.update(&table(producers));
        }
        assert_eq!((memory.known(), memory.bytes()), (5, 5 * one));
        assert_eq!(memory.over(), None);
        shares[2].update(&table(1));
        assert_eq!(memory.over(), Some(shard(1)));
        shares[0].update(&table(4));
        assert_eq!(memory.over(), Some(shard(0)));
        let mut smaller = table(4);
        while memory.over().is_some() {
            assert!(smaller.forget_least_active());
            shares[0].update(&smaller);
        }
        assert_eq!(memory.metrics.forgotten_producers.value(), 3);
        assert_eq!(memory.known(), 5);
        drop(shares);
        assert_eq!((memory.known(), memory.bytes()), (0, 0));
    }
}
