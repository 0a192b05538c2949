//! Taking a segment on trust: reading its tail instead of all of it.

use super::error::LogError;
use super::index::{self, Indexes, OffsetEntry, TimeEntry};
use super::recovery::Recoverer;
use super::seen::Seen;
use super::segment::{Segment, index_name, time_index_name};
use super::verify::{Verified, beyond_bounds, verified};
use super::walk::{Step, Walk};
use crate::disk::{File, Patience, breathe};
#[cfg(test)]
use crate::runtime::broken::{self, Broken};
use felix_core::batch::HEADER_BYTES;
use felix_core::limits::SEGMENT_SPAN_MAX;
use felix_core::{Offset, Timestamp};
use std::io;

/// Bytes read at once: the tail is seldom longer than an index interval.
const CHUNK_BYTES: usize = 64 << 10;

/// The check of a segment that lies below the recovery point: instead of reading it whole, its
/// tail is verified from where both index files say that nothing new follows.
pub(super) struct Trust<'a> {
    recoverer: &'a Recoverer,
    segment: &'a Segment,
    expected_end: Offset,
}

/// The last entries of the index files, and where to begin so as to meet both.
struct Tail {
    offset: Option<OffsetEntry>,
    time: Option<TimeEntry>,
    from: Option<OffsetEntry>,
}

impl<'a> Trust<'a> {
    pub(super) fn new(
        recoverer: &'a Recoverer,
        segment: &'a Segment,
        expected_end: Offset,
    ) -> Self {
        Self {
            recoverer,
            segment,
            expected_end,
        }
    }

    /// `None`: not to be trusted, and nothing is noted of it. `last`: the segment goes on growing.
    pub(super) async fn run(&self, last: bool) -> Result<Option<Seen>, LogError> {
        let base = self.segment.base();
        let Some(offsets) = self.open(&index_name(base)).await? else {
            return Ok(None);
        };
        let Some(times) = self.open(&time_index_name(base)).await? else {
            return Ok(None);
        };
        let tail = tail(&offsets, &times)
            .await
            .map_err(|e| self.index_error(e))?;
        let Some(tail) = tail else { return Ok(None) };
        let size = self.size().await?;
        let Some((seen, bytes_since_entry)) = self.verify(&tail, size).await? else {
            return Ok(None);
        };
        let indexes = if last {
            let indexes = load(&offsets, &times, size, bytes_since_entry).await;
            let Some(indexes) = indexes.map_err(|e| self.index_error(e))? else {
                return Ok(None);
            };
            Some(indexes)
        } else {
            None
        };
        self.segment
            .trust(size, self.expected_end, tail.time, indexes);
        Ok(Some(seen))
    }

    async fn open(&self, name: &str) -> Result<Option<File>, LogError> {
        let opened = self.recoverer.dir.open_file(name).await;
        opened.map_err(|cause| self.recoverer.disk("open", name, cause))
    }

    fn index_error(&self, cause: io::Error) -> LogError {
        self.recoverer
            .disk("read", &index_name(self.segment.base()), cause)
    }

    async fn size(&self) -> Result<u64, LogError> {
        self.segment
            .log()
            .size(Patience::Wait)
            .await
            .map_err(|e| self.segment.disk_error("measure", None, e))
    }

    /// Walks the tail: every batch whole, both last entries met, no entry missing, no greater
    /// timestamp, and the end where it must be. Also counts the bytes since the last entry.
    async fn verify(&self, tail: &Tail, size: u64) -> Result<Option<(Seen, u64)>, LogError> {
        let base = self.segment.base();
        let interval = u64::from(self.recoverer.config.index_interval_bytes);
        let from = tail.from.map_or(0, |entry| u64::from(entry.position));
        let entry_at = tail.offset.map(|entry| u64::from(entry.position));
        let greatest = tail.time.map_or(Timestamp(-1), |entry| entry.timestamp);
        let mut seen = Seen::default();
        let mut since_entry = entry_at.is_none().then_some(0);
        let mut met_time = tail.time.is_none();
        let span = self.expected_end.get().checked_sub(base.get());
        let is_too_long = span.is_none_or(|span| span > SEGMENT_SPAN_MAX + 1);
        if is_too_long || size > SEGMENT_SPAN_MAX || from > size {
            return Ok(None);
        }
        let mut walk = Walk::over(self.segment, from, size, CHUNK_BYTES, Patience::Wait);
        // The first batch of a walk from an entry begins where that batch says; it ends where the
        // entry says.
        let mut owed = match (walk.step().await?, tail.from) {
            (Step::Batch(header), Some(_)) => match header.offset_range() {
                Some((first, _)) => first,
                None => return Ok(None),
            },
            (Step::Batch(_) | Step::End, None) => base,
            (Step::End | Step::Fault(_), _) => return Ok(None),
        };
        loop {
            breathe().await;
            let position = walk.position();
            let batch = match self.next(&mut walk, owed).await? {
                Verified::Batch(batch) => batch,
                Verified::End => break,
                Verified::Fault(_) => return Ok(None),
            };
            owed = batch.next_offset();
            let relative = batch.last_offset().get().checked_sub(base.get());
            let is_entry = |entry: OffsetEntry| {
                u64::from(entry.position) == position && Some(u64::from(entry.last)) == relative
            };
            if position == from && !tail.from.is_none_or(is_entry) {
                return Ok(None);
            }
            if tail.offset.is_some_and(is_entry) {
                since_entry = Some(0);
            } else if since_entry.is_some_and(|bytes| bytes > interval) {
                return Ok(None);
            }
            since_entry = since_entry.map(|bytes| bytes + batch.bytes().len() as u64);
            if !batch.is_control() && batch.max_timestamp() > greatest {
                return Ok(None);
            }
            if !batch.is_control() && batch.max_timestamp() == greatest && !met_time {
                // The entry names the first batch that has it.
                let named = tail.time.map(|entry| u64::from(entry.last));
                if named != relative {
                    return Ok(None);
                }
                met_time = true;
            }
            seen.note(&batch);
        }
        let agrees = owed == self.expected_end && met_time;
        #[cfg(test)]
        let agrees = agrees || broken::is(Broken::IndexTrusted);
        Ok(since_entry.filter(|_| agrees).map(|bytes| (seen, bytes)))
    }

    /// The next batch of the tail. One that is refused wherever it is read is a fault here, too, so
    /// that this opening refuses it and not the one that reads the segment whole.
    async fn next(&self, walk: &mut Walk<'_>, owed: Offset) -> Result<Verified, LogError> {
        let table = self.recoverer.generations.as_ref();
        let generation = table.and_then(|table| table.at(owed));
        let found = verified(self.segment, walk, owed, generation).await?;
        let Verified::Batch(batch) = found else {
            return Ok(found);
        };
        let fault = beyond_bounds(self.segment, &batch, walk.position(), self.expected_end);
        Ok(fault.map_or(Verified::Batch(batch), Verified::Fault))
    }
}

/// `None`: a file whose size or end makes no sense.
async fn tail(offsets: &File, times: &File) -> io::Result<Option<Tail>> {
    let offset_bytes = offsets.size(Patience::Wait).await?;
    let time_bytes = times.size(Patience::Wait).await?;
    if offset_bytes % index::OFFSET_ENTRY_BYTES != 0 || time_bytes % index::TIME_ENTRY_BYTES != 0 {
        return Ok(None);
    }
    let last = |bytes: u64, of: u64| (bytes / of).checked_sub(1);
    let offset: Option<OffsetEntry> = match last(offset_bytes, index::OFFSET_ENTRY_BYTES) {
        Some(number) => index::entry(offsets, number, Patience::Wait).await?,
        None => None,
    };
    let time: Option<TimeEntry> = match last(time_bytes, index::TIME_ENTRY_BYTES) {
        Some(number) => index::entry(times, number, Patience::Wait).await?,
        None => None,
    };
    let from = match time {
        Some(time) => {
            let before = |entry: &OffsetEntry| entry.last < time.last;
            index::search(offsets, before, Patience::Wait).await?
        }
        None => offset,
    };
    let in_order = from.map(|entry| entry.position) <= offset.map(|entry| entry.position);
    Ok(in_order.then_some(Tail { offset, time, from }))
}

/// All entries, for a segment of `size` bytes that goes on growing; `None` where they are not in
/// order. What they say is held against the batches where it is used.
async fn load(
    offsets: &File,
    times: &File,
    size: u64,
    bytes_since_entry: u64,
) -> io::Result<Option<Indexes>> {
    let batches_max = size / HEADER_BYTES as u64;
    let offsets: Option<Vec<OffsetEntry>> = index::entries(offsets, batches_max).await?;
    let times: Option<Vec<TimeEntry>> = index::entries(times, batches_max).await?;
    let (Some(offsets), Some(times)) = (offsets, times) else {
        return Ok(None);
    };
    let in_order = offsets.is_sorted_by(|a, b| a.last < b.last && a.position < b.position)
        && times.is_sorted_by(|a, b| a.timestamp < b.timestamp && a.last < b.last);
    Ok(in_order.then(|| Indexes::from_entries(offsets, times, bytes_since_entry)))
}
