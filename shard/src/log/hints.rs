//! What the index files of a segment say, held against its batches.

use super::index::{Entry, Indexed, Indexes, OffsetEntry, TimeEntry};
use std::marker::PhantomData;

/// The entries of both index files, each of which is a hint. A file is right if every lookup by it
/// comes to the right place: each entry names a batch as Kafka's would, and they rise. How many
/// batches lie between two of them is left open: the broker's spacing may have been another then, and
/// each closing added a time entry.
#[derive(Debug)]
pub(super) struct Hints {
    offsets: Entries<OffsetEntry>,
    times: Entries<TimeEntry>,
    /// Knows the greatest timestamp so far, and has no entries.
    seen: Indexes,
}

/// No segment has so many bytes between two entries.
const NO_ENTRIES: u32 = u32::MAX;

/// The bytes of an index file, and how many entries a batch was found for.
#[derive(Debug)]
struct Entries<E> {
    bytes: Vec<u8>,
    met: usize,
    of: PhantomData<E>,
}

impl Hints {
    /// Those of two files with these bytes.
    pub(super) fn new(offsets: Vec<u8>, times: Vec<u8>) -> Self {
        Self {
            offsets: Entries::new(offsets),
            times: Entries::new(times),
            seen: Indexes::default(),
        }
    }

    /// Takes note of the next batch.
    pub(super) fn note(&mut self, batch: Indexed) {
        self.offsets.meet(OffsetEntry {
            last: batch.last,
            position: batch.position,
        });
        self.seen.note(batch, NO_ENTRIES);
        if let Some(greatest) = self.seen.greatest() {
            self.times.meet(greatest);
        }
    }

    /// The first byte of the offset index at which no batch is as it says, once all are noted.
    pub(super) fn wrong_offset(&self) -> Option<usize> {
        self.offsets.unmet()
    }

    /// The same of the time index. `is_full`: no batch follows, so its last entry has to be the greatest
    /// timestamp, by which searches pass the segment over.
    pub(super) fn wrong_time(&self, is_full: bool) -> Option<usize> {
        let owed = self.seen.greatest().filter(|_| is_full);
        let is_short = owed.is_some() && self.times.last() != owed;
        self.times
            .unmet()
            .or(is_short.then_some(self.times.bytes.len()))
    }
}

impl<E: Entry + PartialEq> Entries<E> {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            met: 0,
            of: PhantomData,
        }
    }

    fn at(&self, number: usize) -> Option<E> {
        let from = number.checked_mul(Self::entry_bytes())?;
        let entry = self.bytes.get(from..from.checked_add(Self::entry_bytes())?);
        entry.map(E::decode)
    }

    fn last(&self) -> Option<E> {
        self.at((self.bytes.len() / Self::entry_bytes()).checked_sub(1)?)
    }

    fn meet(&mut self, found: E) {
        if self.at(self.met).is_some_and(|owed| owed == found) {
            self.met += 1;
        }
    }

    fn unmet(&self) -> Option<usize> {
        let met = self.met * Self::entry_bytes();
        (met != self.bytes.len()).then_some(met)
    }

    fn entry_bytes() -> usize {
        usize::try_from(E::BYTES).expect("an entry has a few bytes")
    }
}
