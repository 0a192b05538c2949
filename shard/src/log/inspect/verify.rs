//! Verifying a shard's directory: every batch of every segment, and what lies beside them. The rules
//! are those of an opening (`docs/log-format.md`, "Recovery"), which reads less.

use super::batches::{Batches, Stands};
use super::indexes::{Files, IndexKind};
use super::segment::{SegmentFile, contents};
use super::table;
use super::verdict::{Consequence, Finding, Verdict};
use crate::log::checkpoint::{self, Checkpoint};
use crate::log::crashes;
use crate::log::error::Fault;
use crate::log::failed::FAILED;
use crate::log::generations::{self, Generations};
use crate::log::producers;
use crate::log::segment::log_name;
use crate::log::verify::{across, has_room};
use felix_core::batch::Header;
use felix_core::limits::SEGMENT_SPAN_MAX;
use felix_core::producers::{Producers, Sequenced};
use felix_core::{BatchError, Generation, Offset, PlacedBatch, Timestamp};
use std::io;
use std::path::Path;

/// How to verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// A broker is at work on the files: what is not whole at the end is being written.
    pub is_in_use: bool,
}

/// Verifies the log in `dir`, and shows `visit` every whole batch with the segment and the position
/// where it lies.
///
/// # Errors
/// The disk's own fault: what is on it is unknown.
pub fn verify(
    dir: &Path,
    options: Options,
    visit: &mut dyn FnMut(&SegmentFile, u64, &PlacedBatch),
) -> io::Result<Verdict> {
    let mut verifier = Verifier::new(dir, options, visit)?;
    let contents = contents(dir)?;
    for name in &contents.foreign {
        let what = "it is not a file of this log: a segment is named by 20 digits";
        verifier.find(name, 0, what, Consequence::Fatal);
    }
    for name in &contents.orphans {
        let what = "it is an index without a segment";
        verifier.find(name, 0, what, Consequence::Removed);
    }
    for name in &contents.immovable {
        let what = "it is a directory, and an opening can remove only a file of such a name";
        verifier.find(name, 0, what, Consequence::Fatal);
    }
    if !options.is_in_use {
        for name in &contents.unbegun {
            verifier.unbegun(name)?;
        }
    }
    verifier.segments(&contents.segments)?;
    verifier.producers();
    Ok(verifier.verdict)
}

pub(super) struct Verifier<'a> {
    pub(super) dir: &'a Path,
    options: Options,
    visit: &'a mut dyn FnMut(&SegmentFile, u64, &PlacedBatch),
    checkpoint: Option<Checkpoint>,
    pub(super) generations: Option<Generations>,
    snapshot: Option<(Producers, Offset)>,
    /// What the batches below the snapshot's end say of producers.
    producers: Producers,
    /// The greatest generation of a batch so far.
    seen: Option<Generation>,
    pub(super) verdict: Verdict,
}

/// How the reading of a segment ended.
enum Ended {
    /// With its last batch, or in zeros.
    Whole,
    /// It is cut at a fault, and all that follows is dropped.
    Cut,
    /// At a fault that is fatal.
    Damaged,
}

impl<'a> Verifier<'a> {
    fn new(
        dir: &'a Path,
        options: Options,
        visit: &'a mut dyn FnMut(&SegmentFile, u64, &PlacedBatch),
    ) -> io::Result<Self> {
        let verdict = Verdict {
            findings: Vec::new(),
            segments: 0,
            batches: 0,
            valid_bytes: 0,
            zero_bytes: 0,
            start: Offset::ZERO,
            end: Offset::ZERO,
            recovery_point: Offset::ZERO,
            notes: Vec::new(),
        };
        let mut verifier = Self {
            dir,
            options,
            visit,
            checkpoint: None,
            generations: None,
            snapshot: None,
            producers: producers::nobody(Offset::ZERO),
            seen: None,
            verdict,
        };
        let (fatal, remade) = (Consequence::Fatal, Consequence::Remade);
        verifier.checkpoint = verifier.small_file(checkpoint::NAME, table::checkpoint, fatal)?;
        verifier.generations = verifier.small_file(generations::NAME, table::generations, fatal)?;
        if dir.join(producers::NAME).exists() {
            verifier.snapshot = verifier.small_file(producers::NAME, table::snapshot, remade)?;
        }
        if dir.join(FAILED).exists() {
            let note = "a write or a flush failed since the last opening: the next one \
                        writes once more what lies above the recovery point";
            verifier.verdict.notes.push(note.to_owned());
        }
        let crashes = dir.join(crashes::NAME);
        if crashes.exists() {
            let notes = table::load(&crashes)?.unwrap_or_default();
            verifier.verdict.notes.extend(crashes::told(&notes));
        }
        Ok(verifier)
    }

    fn small_file<T>(
        &mut self,
        name: &str,
        parse: impl Fn(Vec<u8>) -> Result<T, (u64, Fault)>,
        consequence: Consequence,
    ) -> io::Result<Option<T>> {
        let parsed = match table::load(&self.dir.join(name)) {
            Ok(Some(bytes)) => parse(bytes),
            Ok(None) => Err((0, Fault::Layout)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err((0, Fault::Missing)),
            Err(error) => return Err(error),
        };
        match parsed {
            Ok(table) => Ok(Some(table)),
            Err((position, fault)) => {
                self.find(name, position, fault.to_string(), consequence);
                Ok(None)
            }
        }
    }

    pub(super) fn find(
        &mut self,
        file: &str,
        position: u64,
        what: impl Into<String>,
        consequence: Consequence,
    ) {
        self.verdict.findings.push(Finding {
            file: file.to_owned(),
            position,
            what: what.into(),
            consequence,
        });
    }

    fn segments(&mut self, segments: &[SegmentFile]) -> io::Result<()> {
        let first = segments.first().map(|segment| segment.base);
        let known = self.checkpoint.as_ref().map(|saved| saved.start);
        let start = known.or(first).unwrap_or_default();
        let point = self.checkpoint.as_ref();
        let point = point.map_or(start, |saved| saved.recovery_point);
        self.verdict.start = start;
        self.verdict.recovery_point = point;
        // What retention let go of, and a crash kept it from removing.
        let below = segments.partition_point(|segment| segment.base <= start);
        let (below, segments) = segments.split_at(below.saturating_sub(1));
        if !below.is_empty() && known.is_some() {
            let count = below.len();
            let note = format!("{count} segments below the log start are to be removed");
            self.verdict.notes.push(note);
        }
        let first = segments.first().map(|segment| segment.base);
        let begins_late = first.is_some_and(|first| first > start);
        if begins_late || (first.is_none() && point > start) {
            self.missing(start, None);
        }
        let mut end = first.unwrap_or(start);
        self.verdict.end = end;
        let mut left = segments;
        let mut before = None;
        while let Some((segment, mut rest)) = left.split_first() {
            if segment.base != end {
                if end >= point {
                    self.drop_from(left)?;
                    return Ok(());
                }
                // Whatever is missing, the rest is looked at.
                self.missing(end, before);
                end = segment.base;
            }
            let ended = self.segment(segment, &mut rest, &mut end)?;
            before = Some(segment);
            let next = rest.first().map(|next| next.base);
            self.verdict.end = end;
            if !has_room(end) {
                let fault = Fault::NoRoom { end }.to_string();
                self.find(&segment.name(), 0, fault, Consequence::Fatal);
                return Ok(());
            }
            match (ended, next) {
                (Ended::Cut, _) => return self.drop_from(rest),
                (Ended::Damaged, Some(next)) => end = next,
                (Ended::Damaged | Ended::Whole, _) => {}
            }
            left = rest;
        }
        Ok(())
    }

    /// Segments behind a cut, which an opening drops.
    fn drop_from(&mut self, segments: &[SegmentFile]) -> io::Result<()> {
        if self.options.is_in_use {
            return Ok(());
        }
        for segment in segments {
            let bytes = Batches::open(&segment.file())?.occupied()?;
            let what = "the log ends before this segment begins";
            self.find(&segment.name(), 0, what, Consequence::Cut { bytes });
        }
        Ok(())
    }

    /// No batch is at `base`, behind the segment `before`.
    fn missing(&mut self, base: Offset, before: Option<&SegmentFile>) {
        let fault = match before {
            // The file is there, and has no batch.
            Some(before) if before.base == base => Fault::EndsEarly {
                end: base,
                recovery_point: self.verdict.recovery_point,
            },
            Some(_) | None => Fault::Missing,
        };
        self.find(&log_name(base), 0, fault.to_string(), Consequence::Fatal);
    }

    /// Reads a segment, whose first batch owes the offset `end`; `end` is then where it ends. Of
    /// the next ones stay those that an opening does not remove as leftovers.
    fn segment(
        &mut self,
        segment: &SegmentFile,
        rest: &mut &[SegmentFile],
        end: &mut Offset,
    ) -> io::Result<Ended> {
        let mut files = Files::of(segment)?;
        let mut batches = Batches::open(&segment.file())?;
        let mut is_whole = true;
        self.verdict.segments += 1;
        let mut zeros = None;
        loop {
            let position = batches.position();
            let fault = match batches.look()? {
                Stands::Batch(header) => match self.batch(segment, &mut batches, &header, *end)? {
                    Ok(batch) => {
                        files.note(position, &batch);
                        *end = batch.next_offset();
                        batches.skip(&header);
                        continue;
                    }
                    Err(fault) => fault,
                },
                Stands::End => break,
                Stands::Fault(fault) => Fault::Batch(fault),
            };
            if fault == Fault::Batch(BatchError::Zeros) && batches.occupied()? == 0 {
                self.verdict.zero_bytes += batches.size() - position;
                zeros = Some(fault);
                break;
            }
            match self.fault(segment, &mut batches, fault, *end)? {
                None => return Ok(Ended::Cut),
                Some(behind) if self.steps_over(&mut batches, &behind, end)? => is_whole = false,
                Some(_) => return Ok(Ended::Damaged),
            }
        }
        *rest = self.without_leftovers(rest, *end)?;
        let next = rest.first().map(|next| next.base);
        if let Some(fault) = zeros
            && next.is_some_and(|next| next != *end)
            && *end < self.verdict.recovery_point
        {
            // They lie where batches were, and no file is missing.
            let (file, position) = (segment.name(), batches.position());
            self.find(&file, position, fault.to_string(), Consequence::Fatal);
            return Ok(Ended::Damaged);
        }
        self.ends(segment, next, *end, batches.position());
        // What a damaged batch said nobody knows.
        if is_whole {
            self.indexes(segment, &files, next.is_some(), *end);
        }
        Ok(Ended::Whole)
    }

    /// The batch that stands there, all rules checked.
    fn batch(
        &mut self,
        segment: &SegmentFile,
        batches: &mut Batches,
        header: &Header,
        owed: Offset,
    ) -> io::Result<Result<PlacedBatch, Fault>> {
        if header.base_offset != owed.to_wire() {
            let found = header.base_offset;
            return Ok(Err(Fault::Gap { owed, found }));
        }
        let batch = match batches.verified(header)? {
            Ok(batch) => batch,
            Err(fault) => return Ok(Err(Fault::Batch(fault))),
        };
        let found = batch.generation();
        let known = self.generations.as_ref();
        let owed = known.and_then(|table| table.at(batch.base_offset()));
        // Where the table is gone, all that is known is that generations rise.
        let owed = owed.or(self.seen.filter(|seen| *seen > found));
        if let Some(owed) = owed.filter(|owed| *owed != found) {
            return Ok(Err(Fault::Generation { owed, found }));
        }
        if batch.header().is_transactional() {
            return Ok(Err(Fault::Transaction));
        }
        let position = batches.position();
        let last = batch.last_offset();
        let is_too_far = last.since(segment.base) > SEGMENT_SPAN_MAX
            || position + header.size() as u64 > SEGMENT_SPAN_MAX;
        if is_too_far {
            return Ok(Err(Fault::Span { last }));
        }
        if found == Generation::MAX {
            return Ok(Err(Fault::LastGeneration));
        }
        if let Some(fault) = across(&batch, self.verdict.recovery_point) {
            return Ok(Err(fault));
        }
        self.seen = self.seen.max(Some(found));
        self.verdict.batches += 1;
        self.verdict.valid_bytes += header.size() as u64;
        self.hidden(segment, position, &batch);
        self.note_producer(&batch);
        (self.visit)(segment, position, &batch);
        Ok(Ok(batch))
    }

    /// A data batch where the checkpoint knows only control batches: no reader would be shown it.
    fn hidden(&mut self, segment: &SegmentFile, position: u64, batch: &PlacedBatch) {
        let Some(checkpoint) = &self.checkpoint else {
            return;
        };
        let is_below = batch.next_offset() <= checkpoint.recovery_point;
        if is_below && batch.base_offset() >= checkpoint.visible_end && !batch.is_control() {
            let what = format!(
                "records lie here, and the checkpoint says that there are none from offset {} to {}",
                checkpoint.visible_end, checkpoint.recovery_point
            );
            self.find(&segment.name(), position, what, Consequence::Believed);
        }
    }

    fn note_producer(&mut self, batch: &PlacedBatch) {
        let end = self.snapshot.as_ref().map(|(_, end)| *end);
        if end.is_none_or(|end| batch.base_offset() >= end) {
            return;
        }
        if let Some(sequenced) = Sequenced::of(batch.header()) {
            let time = batch.header().is_append_time();
            let time = time.then(|| Timestamp(batch.header().max_timestamp));
            let base = batch.base_offset();
            self.producers.note(&sequenced, base, time);
        }
    }

    /// Holds the producer snapshot against the batches. Not where some are deleted, or damaged: it
    /// may know of those.
    fn producers(&mut self) {
        let Some((snapshot, end)) = &self.snapshot else {
            return;
        };
        let is_behind = *end > self.verdict.end;
        let is_whole = self.verdict.start == Offset::ZERO && self.verdict.findings.is_empty();
        if is_behind && !self.options.is_in_use {
            let what = format!("it describes the log up to offset {end}, which is behind its end");
            self.find(producers::NAME, 8, what, Consequence::Remade);
        } else if is_whole && !is_behind && *snapshot != self.producers {
            let what = "the batches say otherwise of their producers";
            self.find(producers::NAME, 20, what, Consequence::Believed);
        }
    }

    /// What a fault leads to; `None`: the log is cut there. `end`: the offset owed.
    fn fault(
        &mut self,
        segment: &SegmentFile,
        batches: &mut Batches,
        fault: Fault,
        end: Offset,
    ) -> io::Result<Option<Fault>> {
        let is_never_cut = matches!(
            fault,
            Fault::Span { .. } | Fault::LastGeneration | Fault::Transaction
        );
        let (file, position) = (segment.name(), batches.position());
        if is_never_cut || end < self.verdict.recovery_point {
            self.find(&file, position, fault.to_string(), Consequence::Fatal);
            return Ok(Some(fault));
        }
        if self.options.is_in_use {
            let note = format!("{file}, from byte {position}: not looked at, it is being written");
            self.verdict.notes.push(note);
        } else {
            let bytes = batches.occupied()?;
            self.find(
                &file,
                position,
                fault.to_string(),
                Consequence::Cut { bytes },
            );
        }
        Ok(None)
    }

    /// Steps over a batch whose bytes are damaged, where its header still leads to the next one.
    fn steps_over(
        &mut self,
        batches: &mut Batches,
        fault: &Fault,
        end: &mut Offset,
    ) -> io::Result<bool> {
        if !matches!(fault, Fault::Batch(BatchError::Checksum { .. })) {
            return Ok(false);
        }
        let Stands::Batch(header) = batches.look()? else {
            return Ok(false);
        };
        let next = header.offset_range().map(|(_, last)| last.after(1));
        let behind = batches.behind(&header)?;
        match (next, behind) {
            (Some(next), Some(behind)) if behind.base_offset == next.to_wire() => {
                batches.skip(&header);
                *end = next;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whether the log may end with this segment, if it does.
    fn ends(&mut self, segment: &SegmentFile, next: Option<Offset>, end: Offset, position: u64) {
        let recovery_point = self.verdict.recovery_point;
        if next.is_none() && end < recovery_point {
            let fault = Fault::EndsEarly {
                end,
                recovery_point,
            };
            self.find(
                &segment.name(),
                position,
                fault.to_string(),
                Consequence::Fatal,
            );
        }
    }

    /// What is wrong with the index files of a segment that was found whole.
    fn indexes(&mut self, segment: &SegmentFile, files: &Files, is_full: bool, end: Offset) {
        // Those of a segment that grows, or was not flushed, are in memory: a file of an earlier
        // closing may be there.
        let is_flushed = end <= self.verdict.recovery_point;
        let is_finished = is_full && is_flushed && !self.options.is_in_use;
        let paths = [
            (IndexKind::Offset, &segment.index),
            (IndexKind::Time, &segment.time_index),
        ];
        for (kind, path) in paths {
            if let Some((position, what)) = files.fault(kind, is_finished) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                self.find(&name, position as u64, what, Consequence::Remade);
            }
        }
    }
}
