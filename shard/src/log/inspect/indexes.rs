//! The two index files of a segment, and what its batches say that should be in them.

use crate::log::index::{
    Entry, IndexBytes, Indexed, Indexes, OFFSET_ENTRY_BYTES, OffsetEntry, TIME_ENTRY_BYTES,
    TimeEntry,
};
use felix_core::limits::SEGMENT_SPAN_MAX;
use felix_core::{Offset, PlacedBatch, Timestamp};
use std::io;
use std::path::Path;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    /// From offsets to positions.
    Offset,
    /// From timestamps to offsets.
    Time,
}

/// An entry, its offset no longer relative to the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexEntry {
    /// A batch.
    Offset {
        /// The last offset of the batch.
        last: Offset,
        /// Where it begins in the segment's file.
        position: u32,
    },
    /// The greatest timestamp so far.
    Time {
        /// The timestamp.
        timestamp: Timestamp,
        /// The last offset of the first batch that has it.
        last: Offset,
    },
}

/// The entries of an index file of the segment at `base`, and the bytes behind them that are no
/// whole entry.
///
/// # Errors
/// The disk's own fault, or the file is larger than any index.
pub fn entries(path: &Path, kind: IndexKind, base: Offset) -> io::Result<(Vec<IndexEntry>, usize)> {
    let Some(bytes) = load(path)? else {
        let what = "the file is larger than the index of any segment";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    };
    let absolute = |relative: u32| {
        let room = Offset::MAX.since(base);
        base.after(u64::from(relative).min(room))
    };
    let chunks = bytes.chunks_exact(kind.entry_bytes());
    let left_over = chunks.remainder().len();
    let entries = chunks.map(|bytes| match kind {
        IndexKind::Offset => {
            let OffsetEntry { last, position } = Entry::decode(bytes);
            let last = absolute(last);
            IndexEntry::Offset { last, position }
        }
        IndexKind::Time => {
            let TimeEntry { timestamp, last } = Entry::decode(bytes);
            let last = absolute(last);
            IndexEntry::Time { timestamp, last }
        }
    });
    Ok((entries.collect(), left_over))
}

/// The bytes of an index file; `None`: more than the index of any segment has.
pub(super) fn load(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if std::fs::metadata(path)?.len() > SEGMENT_SPAN_MAX {
        return Ok(None);
    }
    std::fs::read(path).map(Some)
}

impl IndexKind {
    fn entry_bytes(self) -> usize {
        let bytes = match self {
            Self::Offset => OFFSET_ENTRY_BYTES,
            Self::Time => TIME_ENTRY_BYTES,
        };
        usize::try_from(bytes).expect("an entry has a few bytes")
    }
}

/// What the batches of a segment say that its indexes are.
#[derive(Debug)]
pub(super) struct Truth {
    base: Offset,
    interval_bytes: u32,
    indexes: Indexes,
    /// The last entry of the time index that is there, and whether it was the greatest timestamp
    /// once.
    last_time: Option<TimeEntry>,
    is_last_time_met: bool,
}

impl Truth {
    /// Of the segment at `base`, to be held against the time index at `times`, if it is there.
    pub(super) fn new(base: Offset, interval_bytes: u32, times: &Path) -> io::Result<Self> {
        let found = match load(times) {
            Ok(found) => found.unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let last = found.chunks_exact(IndexKind::Time.entry_bytes()).last();
        Ok(Self {
            base,
            interval_bytes,
            indexes: Indexes::default(),
            last_time: last.map(Entry::decode),
            is_last_time_met: false,
        })
    }

    /// Takes note of the next batch, which lies within the span that an index counts.
    pub(super) fn note(&mut self, position: u64, batch: &PlacedBatch) {
        let small = |number: u64| u32::try_from(number).expect("a segment spans less than 2^31");
        let indexed = Indexed {
            position: small(position),
            bytes: small(batch.bytes().len() as u64),
            last: small(batch.last_offset().since(self.base)),
            timestamp: (!batch.is_control()).then(|| batch.max_timestamp()),
        };
        self.indexes.note(indexed, self.interval_bytes);
        self.is_last_time_met |= self.indexes.greatest() == self.last_time;
    }

    /// The first byte at which `found` is not what it should be, if there is one. An index of a
    /// segment that goes on growing may end earlier than its batches: then its last time entry is
    /// the greatest timestamp as it was then.
    pub(super) fn differs(&self, kind: IndexKind, found: &[u8], is_full: bool) -> Option<u64> {
        let mut truth = self.indexes.clone();
        truth.seal();
        let mut bytes = IndexBytes::default();
        while !truth.write(&mut bytes) {}
        let owed = match kind {
            IndexKind::Offset => bytes.offsets,
            IndexKind::Time => bytes.times,
        };
        let entry = kind.entry_bytes();
        let same = owed.iter().zip(found).take_while(|(a, b)| a == b).count();
        let is_right = match (is_full, kind) {
            (true, _) => found.len() == owed.len() && same == owed.len(),
            (false, IndexKind::Offset) => same == found.len() && found.len().is_multiple_of(entry),
            (false, IndexKind::Time) => {
                found.len().is_multiple_of(entry)
                    && (same == found.len()
                        || (same + entry >= found.len() && self.is_last_time_met))
            }
        };
        (!is_right).then_some((same / entry * entry) as u64)
    }
}
