//! A table as bytes, and back. Drawn in `docs/log-format.md`.
//!
//! A large table takes longer to write than a core may be held, and goes on changing meanwhile. So
//! it is copied in steps, in the order of the last offsets: a producer of whom a batch arrives before
//! the copy has come to it is copied first, as it was, and then lies behind the end of the copy.

use super::Producers;
use super::producer::{Place, Producer};
use crate::limits::PRODUCER_PLACES_MAX;
use crate::{Offset, Timestamp};
use bytes::{Buf, BufMut};
use std::collections::VecDeque;
use std::fmt;

/// End and count.
const HEAD_BYTES: usize = 12;
/// Id, epoch, sequence owed, number of places.
const PRODUCER_BYTES: usize = 19;
/// Base offset, records, append time.
const PLACE_BYTES: usize = 20;

/// A copy of a table that is under way.
#[derive(Debug)]
pub(super) struct Copy {
    /// The log end that it describes.
    end: Offset,
    /// Producers with a last offset below this are copied.
    next: Offset,
    /// Producers that changed before the copy came to them, as they were.
    aside: Vec<Vec<u8>>,
    /// Whether the head is written.
    begun: bool,
    producers: usize,
    bytes: usize,
}

/// A snapshot that no table says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotError {
    /// What is wrong with it: completes "a producer snapshot ...".
    pub what: &'static str,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a producer snapshot {}", self.what)
    }
}

impl std::error::Error for SnapshotError {}

impl Copy {
    /// Keeps a producer as it is before it changes.
    pub(super) fn keep(&mut self, id: i64, producer: &Producer) {
        let last = producer.last_offset();
        if self.next <= last && last < self.end {
            let mut bytes = Vec::with_capacity(encoded_bytes(producer));
            encode(id, producer, &mut bytes);
            self.aside.push(bytes);
        }
    }
}

impl Producers {
    /// Begins a copy of the table as it is now, where the log ends at `end`. One that is under way is
    /// given up. Costs nothing yet.
    pub fn begin_copy(&mut self, end: Offset) {
        let last = self.by_last.last_key_value().map(|(last, _)| *last);
        assert!(last < Some(end) || last.is_none());
        self.copy = Some(Copy {
            end,
            next: Offset::ZERO,
            aside: Vec::new(),
            begun: false,
            producers: self.by_id.len(),
            bytes: HEAD_BYTES + self.by_id.len() * PRODUCER_BYTES + self.places * PLACE_BYTES,
        });
    }

    /// The log end that the copy under way describes, if one is.
    #[must_use]
    pub fn copy_end(&self) -> Option<Offset> {
        Some(self.copy.as_ref()?.end)
    }

    /// Bytes that the copy under way will have, with the head.
    #[must_use]
    pub fn copy_bytes(&self) -> usize {
        self.copy.as_ref().map_or(0, |copy| copy.bytes)
    }

    /// Gives up the copy under way, if one is.
    pub fn give_up_copy(&mut self) {
        self.copy = None;
    }

    /// Copies up to `producers_max` further producers to the end of `out`. Whether the copy is
    /// complete; then it is under way no more. A copy that was given up is never complete: see
    /// [`Producers::copy_end`].
    pub fn copy_step(&mut self, out: &mut Vec<u8>, producers_max: usize) -> bool {
        let Some(copy) = &mut self.copy else {
            return false;
        };
        if !copy.begun {
            copy.begun = true;
            out.put_i64(copy.end.to_wire());
            out.put_u32(u32::try_from(copy.producers).expect("a table has few producers"));
        }
        let mut left = producers_max;
        while left > 0
            && let Some(bytes) = copy.aside.pop()
        {
            out.extend_from_slice(&bytes);
            left -= 1;
        }
        for (last, id) in self.by_last.range(copy.next..copy.end) {
            if left == 0 {
                return false;
            }
            let producer = self.by_id.get(id).expect("both maps have every producer");
            encode(*id, producer, out);
            copy.next = last.after(1);
            left -= 1;
        }
        if !copy.aside.is_empty() {
            return false;
        }
        self.copy = None;
        true
    }
}

fn encoded_bytes(producer: &Producer) -> usize {
    PRODUCER_BYTES + producer.places.len() * PLACE_BYTES
}

fn encode(id: i64, producer: &Producer, out: &mut Vec<u8>) {
    out.put_i64(id);
    out.put_i16(producer.epoch);
    out.put_u64(producer.owed);
    out.put_u8(u8::try_from(producer.places.len()).expect("at most 64 places"));
    let ends = producer.places.iter().skip(1).map(|place| place.first);
    let ends = ends.chain([producer.owed]);
    for (place, end) in producer.places.iter().zip(ends) {
        out.put_i64(place.base_offset.to_wire());
        out.put_u32(u32::try_from(end - place.first).expect("a batch has fewer than 2^32 records"));
        out.put_i64(place.append_time.map_or(-1, |time| time.0));
    }
}

/// Reads a snapshot, in steps.
#[derive(Debug)]
pub struct Loading<'a> {
    rest: &'a [u8],
    left: u32,
    end: Offset,
    table: Producers,
}

impl<'a> Loading<'a> {
    /// Of these bytes, as [`Producers::copy_step`] wrote them, into an empty table.
    ///
    /// # Errors
    /// The bytes cannot be a snapshot.
    pub fn new(bytes: &'a [u8], table: Producers) -> Result<Self, SnapshotError> {
        assert!(table.by_id.is_empty());
        let mut rest = bytes;
        let end = rest.try_get_i64().ok().and_then(Offset::from_wire);
        let (Some(end), Ok(left)) = (end, rest.try_get_u32()) else {
            return Err(CUT_SHORT);
        };
        Ok(Self {
            rest,
            left,
            end,
            table,
        })
    }

    /// The log end that it describes.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.end
    }

    /// Reads up to `producers_max` further producers. Whether it is through.
    ///
    /// # Errors
    /// The bytes cannot be a snapshot.
    pub fn step(&mut self, producers_max: u32) -> Result<bool, SnapshotError> {
        for _ in 0..self.left.min(producers_max) {
            let (id, producer) = decode(&mut self.rest)?;
            if producer.last_offset() >= self.end {
                return Err(BEHIND_END);
            }
            if !self.table.adopt(id, producer) {
                return Err(TWICE);
            }
            self.left -= 1;
        }
        if self.left > 0 {
            return Ok(false);
        }
        if !self.rest.is_empty() {
            return Err(LEFT_OVER);
        }
        Ok(true)
    }

    /// The table, once it is through.
    #[must_use]
    pub fn into_table(self) -> Producers {
        assert_eq!(self.left, 0);
        self.table
    }
}

const CUT_SHORT: SnapshotError = SnapshotError {
    what: "ends too early",
};
const LEFT_OVER: SnapshotError = SnapshotError {
    what: "has bytes behind its end",
};
const BEHIND_END: SnapshotError = SnapshotError {
    what: "knows a batch behind the log end that it states",
};
const TWICE: SnapshotError = SnapshotError {
    what: "has a producer, an offset or more producers than a table has",
};
const IMPOSSIBLE: SnapshotError = SnapshotError {
    what: "has a producer with impossible batches",
};

fn decode(bytes: &mut &[u8]) -> Result<(i64, Producer), SnapshotError> {
    if bytes.len() < PRODUCER_BYTES {
        return Err(CUT_SHORT);
    }
    let (id, epoch, owed) = (bytes.get_i64(), bytes.get_i16(), bytes.get_u64());
    let count = usize::from(bytes.get_u8());
    if bytes.len() < count * PLACE_BYTES {
        return Err(CUT_SHORT);
    }
    if id < 0 || epoch < 0 || owed > i64::MAX.cast_unsigned() {
        return Err(IMPOSSIBLE);
    }
    if count == 0 || count > PRODUCER_PLACES_MAX {
        return Err(IMPOSSIBLE);
    }
    let mut read = Vec::with_capacity(count);
    let mut free = Offset::ZERO;
    for _ in 0..count {
        let base_offset = Offset::from_wire(bytes.get_i64()).ok_or(IMPOSSIBLE)?;
        let records = u64::from(bytes.get_u32());
        let append_time = bytes.get_i64();
        let room = Offset::MAX.get() - base_offset.get();
        if base_offset < free || records == 0 || records > room {
            return Err(IMPOSSIBLE);
        }
        free = base_offset.after(records);
        let append_time = (append_time >= 0).then_some(Timestamp(append_time));
        read.push((base_offset, records, append_time));
    }
    let records: u64 = read.iter().map(|(_, records, _)| records).sum();
    let mut first = owed.checked_sub(records).ok_or(IMPOSSIBLE)?;
    let mut places = VecDeque::with_capacity(count);
    for (base_offset, records, append_time) in read {
        places.push_back(Place {
            first,
            base_offset,
            append_time,
        });
        first += records;
    }
    let producer = Producer {
        epoch,
        owed,
        places,
    };
    Ok((id, producer))
}
