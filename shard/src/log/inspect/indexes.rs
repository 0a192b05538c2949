//! The two index files of a segment, and what its batches say that should be in them.

use super::segment::SegmentFile;
use crate::log::hints::Hints;
use crate::log::index::{
    Entry, Indexed, OFFSET_ENTRY_BYTES, OffsetEntry, TIME_ENTRY_BYTES, TimeEntry,
};
use felix_core::limits::SEGMENT_SPAN_MAX;
use felix_core::{Offset, PlacedBatch, Timestamp};
use std::io::{self, Read};
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
fn load(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = super::open(path)?;
    if file.metadata()?.len() > SEGMENT_SPAN_MAX {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
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

/// Both index files of a segment, as its batches are held against them.
#[derive(Debug)]
pub(super) struct Files {
    base: Offset,
    offsets: Found,
    times: Found,
    hints: Hints,
}

/// What is there of an index file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    File,
    Nothing,
    /// More than the index of any segment has.
    TooMuch,
}

impl Files {
    /// Those of a segment. To be read before its batches: a running broker writes what it says of them
    /// afterwards.
    pub(super) fn of(segment: &SegmentFile) -> io::Result<Self> {
        let read = |path: &Path| match load(path) {
            Ok(Some(bytes)) => Ok((Found::File, bytes)),
            Ok(None) => Ok((Found::TooMuch, Vec::new())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok((Found::Nothing, Vec::new()))
            }
            Err(error) => Err(error),
        };
        let (offsets, offset_bytes) = read(&segment.index)?;
        let (times, time_bytes) = read(&segment.time_index)?;
        Ok(Self {
            base: segment.base,
            offsets,
            times,
            hints: Hints::new(offset_bytes, time_bytes),
        })
    }

    /// Takes note of the next batch, which lies within the span that an index counts.
    pub(super) fn note(&mut self, position: u64, batch: &PlacedBatch) {
        let small = |number: u64| u32::try_from(number).expect("a segment spans less than 2^31");
        self.hints.note(Indexed {
            position: small(position),
            bytes: small(batch.bytes().len() as u64),
            last: small(batch.last_offset().since(self.base)),
            timestamp: (!batch.is_control()).then(|| batch.max_timestamp()),
        });
    }

    /// What is wrong with one of them and at which byte, if anything is. `is_finished`: the segment is
    /// full, and its index files were written after its last batch.
    pub(super) fn fault(
        &self,
        kind: IndexKind,
        is_finished: bool,
    ) -> Option<(usize, &'static str)> {
        let (found, wrong) = match kind {
            IndexKind::Offset => (self.offsets, self.hints.wrong_offset()),
            IndexKind::Time => (self.times, self.hints.wrong_time(is_finished)),
        };
        match found {
            Found::File => wrong.map(|at| (at, "the batches do not bear out an entry here")),
            Found::Nothing => is_finished.then_some((0, "the file is missing")),
            Found::TooMuch => Some((0, "it is larger than the index of any segment")),
        }
    }
}
