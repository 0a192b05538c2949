//! The two indexes of a segment, in memory while the segment grows and in files once it is full.
//! Layout and rules are Kafka's; see `docs/log-format.md`.

use crate::disk::{File, Patience};
use bytes::{Buf, BufMut};
use felix_core::Timestamp;
use std::io;

/// Bytes of an entry of the offset index.
pub(super) const OFFSET_ENTRY_BYTES: u64 = 8;
/// Bytes of an entry of the time index.
pub(super) const TIME_ENTRY_BYTES: u64 = 12;

/// The same, as sizes in memory.
const OFFSET_BYTES: usize = 8;
const TIME_BYTES: usize = 12;

/// Entries of each index that are written out in one go: some ten microseconds.
const ENTRIES_AT_ONCE_MAX: usize = 4096;

/// Where a batch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OffsetEntry {
    /// The batch's last offset, relative to the segment's base.
    pub(super) last: u32,
    /// Where the batch begins in the segment's file.
    pub(super) position: u32,
}

/// The greatest timestamp of a segment up to some point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TimeEntry {
    /// The timestamp.
    pub(super) timestamp: Timestamp,
    /// Last offset of the first batch that has it, relative to the segment's base.
    pub(super) last: u32,
}

/// A batch as the indexes see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indexed {
    /// Where it begins in the file.
    pub(super) position: u32,
    /// Its size.
    pub(super) bytes: u32,
    /// Its last offset, relative to the base.
    pub(super) last: u32,
    /// Its greatest timestamp; `None` for a control batch, which no search may find.
    pub(super) timestamp: Option<Timestamp>,
}

/// Where entries were taken from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// The batches themselves.
    Batches,
    /// A file, which has no checksum: each is a hint.
    File,
}

/// The indexes of a segment that grows, or is being read to make them anew.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes {
    offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
    greatest: Option<TimeEntry>,
    bytes_since_entry: u64,
    /// Set where entries were loaded from files: where the last of them points to.
    hints: Option<Option<OffsetEntry>>,
}

impl Indexes {
    /// Carries on from entries read from files. `bytes_since_entry` is counted from the batch of
    /// the last entry. What was loaded stays a hint.
    pub(super) fn from_entries(
        offsets: Vec<OffsetEntry>,
        times: Vec<TimeEntry>,
        bytes_since_entry: u64,
    ) -> Self {
        let greatest = times.last().copied();
        Self {
            hints: Some(offsets.last().copied()),
            offsets,
            times,
            greatest,
            bytes_since_entry,
        }
    }

    /// Takes note of the next batch, exactly as Kafka's `LogSegment.append` does.
    pub(super) fn note(&mut self, batch: Indexed, interval_bytes: u32) {
        if let Some(timestamp) = batch.timestamp
            && timestamp > self.greatest.map_or(Timestamp(-1), |entry| entry.timestamp)
        {
            self.greatest = Some(TimeEntry {
                timestamp,
                last: batch.last,
            });
        }
        if self.bytes_since_entry > u64::from(interval_bytes) {
            self.offsets.push(OffsetEntry {
                last: batch.last,
                position: batch.position,
            });
            self.note_time();
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry += u64::from(batch.bytes);
    }

    /// The last entry of the time index: the segment's greatest timestamp. Once it is full.
    pub(super) fn seal(&mut self) {
        self.note_time();
    }

    fn note_time(&mut self) {
        if let Some(greatest) = self.greatest
            && self
                .times
                .last()
                .is_none_or(|last| last.timestamp < greatest.timestamp)
        {
            self.times.push(greatest);
        }
    }

    /// The greatest timestamp so far.
    pub(super) fn greatest(&self) -> Option<TimeEntry> {
        self.greatest
    }

    /// The last entry whose batch ends before the offset.
    pub(super) fn offset_before(&self, relative: u64) -> Option<OffsetEntry> {
        let after = self
            .offsets
            .partition_point(|entry| u64::from(entry.last) < relative);
        after
            .checked_sub(1)
            .and_then(|at| self.offsets.get(at))
            .copied()
    }

    /// Where such an entry was taken from. The beginning, which needs none, is right in any case.
    pub(super) fn origin(&self, entry: Option<OffsetEntry>) -> Origin {
        let loaded = self.hints.flatten().map(|hint| hint.last);
        match entry {
            Some(entry) if Some(entry.last) <= loaded => Origin::File,
            Some(_) | None => Origin::Batches,
        }
    }

    /// Whether anything was loaded from files.
    pub(super) fn has_hints(&self) -> bool {
        self.hints.is_some()
    }

    /// The last time entry for which `before` holds. It must hold for a first part of the entries.
    pub(super) fn time_before(&self, before: impl Fn(TimeEntry) -> bool) -> Option<TimeEntry> {
        let after = self.times.partition_point(|entry| before(*entry));
        after
            .checked_sub(1)
            .and_then(|at| self.times.get(at))
            .copied()
    }

    /// Writes out what follows the entries that `into` has already, a few of them, so that nobody
    /// else waits for long. Whether that was all. The entries are to stay until then.
    pub(super) fn write(&self, into: &mut IndexBytes) -> bool {
        let done = into.offsets.len() / OFFSET_BYTES;
        let offsets = self.offsets.iter().skip(done).take(ENTRIES_AT_ONCE_MAX);
        into.offsets
            .reserve_exact((self.offsets.len() - done) * OFFSET_BYTES);
        for entry in offsets {
            into.offsets.put_u32(entry.last);
            into.offsets.put_u32(entry.position);
        }
        let done = into.times.len() / TIME_BYTES;
        let times = self.times.iter().skip(done).take(ENTRIES_AT_ONCE_MAX);
        into.times
            .reserve_exact((self.times.len() - done) * TIME_BYTES);
        for entry in times {
            into.times.put_i64(entry.timestamp.0);
            into.times.put_u32(entry.last);
        }
        into.offsets.len() == self.offsets.len() * OFFSET_BYTES
            && into.times.len() == self.times.len() * TIME_BYTES
    }
}

/// The bytes of both index files.
#[derive(Debug, Default)]
pub(super) struct IndexBytes {
    /// Those of the offset index.
    pub(super) offsets: Vec<u8>,
    /// Those of the time index.
    pub(super) times: Vec<u8>,
}

/// An entry as it lies in a file.
pub(super) trait Entry: Sized {
    /// Its size.
    const BYTES: u64;
    /// From exactly [`Entry::BYTES`] bytes.
    fn decode(bytes: impl Buf) -> Self;
}

impl Entry for OffsetEntry {
    const BYTES: u64 = OFFSET_ENTRY_BYTES;
    fn decode(mut bytes: impl Buf) -> Self {
        Self {
            last: bytes.get_u32(),
            position: bytes.get_u32(),
        }
    }
}

impl Entry for TimeEntry {
    const BYTES: u64 = TIME_ENTRY_BYTES;
    fn decode(mut bytes: impl Buf) -> Self {
        Self {
            timestamp: Timestamp(bytes.get_i64()),
            last: bytes.get_u32(),
        }
    }
}

/// The last entry of an index file for which `before` holds, by binary search in the file. What it
/// finds is a hint: the file has no checksum, so the batch it points to has to agree.
pub(super) async fn search<E: Entry>(
    file: &File,
    before: impl Fn(&E) -> bool,
    patience: Patience,
) -> io::Result<Option<E>> {
    let mut found = None;
    let (mut low, mut high) = (0, file.size(patience).await? / E::BYTES);
    while low < high {
        let middle = u64::midpoint(low, high);
        match entry::<E>(file, middle, patience).await? {
            Some(entry) if before(&entry) => {
                found = Some(entry);
                low = middle + 1;
            }
            Some(_) | None => high = middle,
        }
    }
    Ok(found)
}

/// The entry of that number; `None` past the end.
pub(super) async fn entry<E: Entry>(
    file: &File,
    number: u64,
    patience: Patience,
) -> io::Result<Option<E>> {
    let wanted = usize::try_from(E::BYTES).expect("an entry has a few bytes");
    let bytes = file.read(number * E::BYTES, wanted, patience).await?;
    Ok((bytes.len() == wanted).then(|| E::decode(bytes)))
}

/// All entries of an index file; `None` where its size is not a multiple of theirs, or it has more
/// than there can be batches.
pub(super) async fn entries<E: Entry>(file: &File, batches_max: u64) -> io::Result<Option<Vec<E>>> {
    let size = file.size(Patience::Wait).await?;
    let Ok(bytes_max) = usize::try_from(size) else {
        return Ok(None);
    };
    if !size.is_multiple_of(E::BYTES) || size / E::BYTES > batches_max {
        return Ok(None);
    }
    let mut bytes = file.read(0, bytes_max, Patience::Wait).await?;
    let mut entries = Vec::with_capacity(bytes_max / 8);
    while bytes.remaining() as u64 >= E::BYTES {
        let size = usize::try_from(E::BYTES).expect("an entry has a few bytes");
        entries.push(E::decode(bytes.split_to(size)));
    }
    Ok(Some(entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(position: u32, bytes: u32, last: u32, timestamp: i64) -> Indexed {
        Indexed {
            position,
            bytes,
            last,
            timestamp: Some(Timestamp(timestamp)),
        }
    }

    /// Worked out by hand from Kafka's `LogSegment.append`: an entry is written with the batch that
    /// comes after more than the interval, and points to that batch.
    #[test]
    fn files_are_laid_out_as_kafka_lays_them_out() {
        let mut indexes = Indexes::default();
        indexes.note(batch(0, 100, 2, 1000), 150);
        indexes.note(batch(100, 50, 3, 900), 150); // 100 bytes before it: none yet
        indexes.note(batch(150, 1, 4, 900), 150); // 150: none yet
        indexes.note(batch(151, 70, 9, 1200), 150); // 151 bytes before it: an entry
        indexes.note(batch(221, 200, 10, 1100), 150); // 70
        indexes.note(batch(421, 80, 12, 1150), 150); // 270: an entry; the time has not risen
        indexes.note(batch(501, 80, 300, 70_000), 150); // 80
        indexes.seal();
        let mut bytes = IndexBytes::default();
        assert!(indexes.write(&mut bytes));
        assert_eq!(
            bytes.offsets,
            [
                0, 0, 0, 9, 0, 0, 0, 151, //
                0, 0, 0, 12, 0, 0, 1, 165, //
            ]
        );
        assert_eq!(
            bytes.times,
            [
                0, 0, 0, 0, 0, 0, 4, 176, 0, 0, 0, 9, //
                0, 0, 0, 0, 0, 1, 17, 112, 0, 0, 1, 44, //
            ]
        );
    }

    #[test]
    fn sealing_repeats_no_entry_and_control_batches_leave_no_time() {
        let mut indexes = Indexes::default();
        indexes.note(
            Indexed {
                timestamp: None,
                ..batch(0, 100, 0, 0)
            },
            0,
        );
        indexes.seal();
        assert!(indexes.times.is_empty());
        indexes.note(batch(100, 100, 1, 5), 0);
        indexes.seal();
        indexes.seal();
        assert_eq!(indexes.times.len(), 1);
    }

    #[test]
    fn a_long_index_is_written_out_in_steps_that_leave_nothing_out() {
        let all = u32::try_from(ENTRIES_AT_ONCE_MAX * 5 / 2).unwrap();
        let mut indexes = Indexes::default();
        for number in 0..all {
            // The time rises with every second batch.
            indexes.note(batch(number * 2, 2, number, i64::from(number / 2)), 0);
        }
        let mut bytes = IndexBytes::default();
        let mut steps = 1;
        while !indexes.write(&mut bytes) {
            steps += 1;
            assert!(bytes.offsets.len() <= steps * ENTRIES_AT_ONCE_MAX * OFFSET_BYTES);
        }
        assert_eq!(steps, 3);
        // The first batch has nothing before it.
        let mut offsets = &bytes.offsets[..];
        for number in 1..all {
            let entry = OffsetEntry::decode(&mut offsets);
            assert_eq!((entry.last, entry.position), (number, number * 2));
        }
        assert!(offsets.is_empty());
        let mut times = &bytes.times[..];
        for time in indexes.times {
            assert_eq!(TimeEntry::decode(&mut times), time);
        }
        assert!(times.is_empty());
    }
}
