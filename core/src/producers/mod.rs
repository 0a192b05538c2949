//! What a shard knows of its idempotent producers, so that a batch that is sent again is not
//! written again (KIP-98).
//!
//! The state of a producer follows from the headers of its batches in the log and from nothing else,
//! so whoever has the log can make the table anew. [`Producers::judge`] says what a batch is and
//! changes nothing; [`Producers::note`] takes down what has been written, whatever it is.

mod producer;
mod sequence;
mod snapshot;

#[cfg(test)]
mod tests;

pub use sequence::Sequenced;
pub use snapshot::{Loading, SnapshotError};

use crate::{Offset, Timestamp};
use producer::Producer;
use snapshot::Copy;
use std::collections::{BTreeMap, HashMap};

/// What a batch that is not refused is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// What is owed next: to be written.
    New,
    /// All of it is there.
    Duplicate(Landed),
    /// Its first records are there, and the others are not: those are to be written.
    Partial {
        /// Records that are there: at least one, and not all.
        present: u32,
        /// Where those are.
        landed: Landed,
    },
}

/// Where records landed that were sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Landed {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// The offset after the last one that is there.
    pub end: Offset,
    /// When the batch that holds the first one was appended, where it says so.
    pub append_time: Option<Timestamp>,
}

/// Why a batch is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Records before it are missing, or a new epoch does not begin at 0.
    OutOfOrder {
        /// The sequence owed.
        owed: i32,
        /// The sequence of its first record.
        found: i32,
    },
    /// Of an epoch that has ended: the producer has begun anew since.
    LowerEpoch {
        /// The epoch in force.
        current: i16,
        /// That of the batch.
        found: i16,
    },
    /// Nothing is known of the producer, and the batch is not its first.
    Unknown,
    /// All of it is there, and it is too long ago to say where.
    TooOld,
}

/// What is known of a producer, for people to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The sequence of its next record, lifted to 64 bits.
    pub owed: u64,
    /// The first offsets of its last batches, the oldest first.
    pub landed: Vec<Offset>,
}

/// The producers of one shard. Lives on the CPU core that owns the shard.
#[derive(Debug)]
pub struct Producers {
    by_id: HashMap<i64, Producer>,
    /// Who wrote the record at an offset, for the last record of each: the order in which they are
    /// forgotten.
    by_last: BTreeMap<Offset, i64>,
    /// Producers known at most.
    producers_max: usize,
    /// The log start: who has no record above it is not known.
    start: Offset,
    /// Places remembered, over all producers.
    places: usize,
    bytes: usize,
    forgotten: u64,
    copy: Option<Copy>,
}

/// Producers that are forgotten in one go where retention has deleted their records; others follow
/// as batches are noted.
const FORGOTTEN_AT_ONCE_MAX: usize = 256;

/// Those that are forgotten beside the noting of a batch.
const FORGOTTEN_WITH_BATCH_MAX: usize = 4;

impl Producers {
    /// Of a log that begins at `start`, knowing nobody, and later `producers_max` at most.
    #[must_use]
    pub fn new(start: Offset, producers_max: usize) -> Self {
        assert!(producers_max > 0);
        Self {
            by_id: HashMap::new(),
            by_last: BTreeMap::new(),
            producers_max,
            start,
            places: 0,
            bytes: 0,
            forgotten: 0,
            copy: None,
        }
    }

    /// What a batch is that a producer sends.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn judge(&self, batch: &Sequenced) -> Result<Verdict, Refusal> {
        match self.by_id.get(&batch.producer_id) {
            Some(producer) if producer.last_offset() >= self.start => producer.judge(batch),
            Some(_) | None if batch.first == 0 => Ok(Verdict::New),
            Some(_) | None => Err(Refusal::Unknown),
        }
    }

    /// Takes down that a batch was written at `base_offset`, behind all that were noted before,
    /// without judging it. Where there are too many producers, the one is forgotten whose last
    /// record is the oldest.
    pub fn note(&mut self, batch: &Sequenced, base_offset: Offset, append_time: Option<Timestamp>) {
        let (id, time) = (batch.producer_id, append_time);
        self.forget_some_below(FORGOTTEN_WITH_BATCH_MAX);
        let producer = match self.remove(id) {
            Some(mut known) if known.last_offset() >= self.start => {
                known.note(batch, base_offset, time);
                known
            }
            Some(_) | None => Producer::beginning(batch, base_offset, time),
        };
        self.insert(id, producer);
        if self.by_id.len() > self.producers_max {
            self.forget_least_active();
        }
    }

    /// Forgets the producer whose last record is the oldest; whether there was one.
    pub fn forget_least_active(&mut self) -> bool {
        let Some((_, id)) = self.by_last.first_key_value() else {
            return false;
        };
        let forgotten = self.remove(*id);
        assert!(forgotten.is_some(), "both maps have every producer");
        self.forgotten += 1;
        true
    }

    /// The log begins at `start` now: whoever has no record there or above is not known any more
    /// (claim 28). Their memory is given back little by little where there are many.
    pub fn forget_below(&mut self, start: Offset) {
        self.start = self.start.max(start);
        self.forget_some_below(FORGOTTEN_AT_ONCE_MAX);
    }

    fn forget_some_below(&mut self, at_most: usize) {
        for _ in 0..at_most {
            match self.by_last.first_key_value() {
                Some((last, _)) if *last < self.start => self.forget_least_active(),
                Some(_) | None => return,
            };
        }
    }

    /// All producers that are known, by id.
    #[must_use]
    pub fn list(&self) -> Vec<Known> {
        let known = self.by_id.iter().map(|(id, producer)| Known {
            producer_id: *id,
            epoch: producer.epoch,
            owed: producer.owed,
            landed: producer.places.iter().map(|at| at.base_offset).collect(),
        });
        let mut known: Vec<Known> = known.collect();
        known.sort_by_key(|known| known.producer_id);
        known
    }

    /// Producers that are known.
    #[must_use]
    pub fn known(&self) -> usize {
        self.by_id.len()
    }

    /// Producers that were forgotten so far.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Memory that the table takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a producer over from a snapshot; whether it fits those that are there.
    fn adopt(&mut self, id: i64, producer: Producer) -> bool {
        let fits = self.by_id.len() < self.producers_max
            && !self.by_id.contains_key(&id)
            && !self.by_last.contains_key(&producer.last_offset());
        if fits {
            self.insert(id, producer);
        }
        fits
    }

    fn insert(&mut self, id: i64, producer: Producer) {
        self.places += producer.places.len();
        self.bytes += producer.bytes();
        let earlier = self.by_last.insert(producer.last_offset(), id);
        assert!(earlier.is_none(), "an offset is given once");
        self.by_id.insert(id, producer);
    }

    fn remove(&mut self, id: i64) -> Option<Producer> {
        let producer = self.by_id.remove(&id)?;
        if let Some(copy) = &mut self.copy {
            copy.keep(id, &producer);
        }
        self.by_last.remove(&producer.last_offset());
        self.places -= producer.places.len();
        self.bytes -= producer.bytes();
        Some(producer)
    }
}

impl PartialEq for Producers {
    /// Whether both know the same, and would answer the same.
    fn eq(&self, other: &Self) -> bool {
        self.by_id == other.by_id && self.by_last == other.by_last
    }
}
