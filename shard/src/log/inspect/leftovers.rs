//! Segments that an opening removes, because they were removed before.

use super::batches::{Batches, Stands};
use super::segment::SegmentFile;
use super::verdict::Consequence;
use super::verify::Verifier;
use felix_core::Offset;
use std::io;

impl Verifier<'_> {
    /// A file made for a next segment that none has begun in, or whose first batch is torn.
    pub(super) fn unbegun(&mut self, name: &str) -> io::Result<()> {
        let bytes = Batches::open(&self.dir.join(name))?.occupied()?;
        if bytes > 0 {
            let what = "its first batch is torn, and it has no name of its own";
            self.find(name, 0, what, Consequence::Cut { bytes });
        } else {
            let note = format!("{name} has no segment; an opening removes it");
            self.verdict.notes.push(note);
        }
        Ok(())
    }

    /// The next segments without those that lie within the one before, which was found whole up to
    /// `end`, and cannot be of this log.
    pub(super) fn without_leftovers<'a>(
        &mut self,
        mut next: &'a [SegmentFile],
        end: Offset,
    ) -> io::Result<&'a [SegmentFile]> {
        while let Some((segment, rest)) = next.split_first() {
            if segment.base >= end || self.is_owed(segment)? {
                break;
            }
            let name = segment.name();
            let note =
                format!("{name} was removed before and is there again; an opening removes it");
            self.verdict.notes.push(note);
            next = rest;
        }
        Ok(next)
    }

    /// Whether the segment begins as one of this log.
    fn is_owed(&self, segment: &SegmentFile) -> io::Result<bool> {
        let known = self.generations.as_ref();
        let Some(generation) = known.and_then(|table| table.at(segment.base)) else {
            return Ok(true);
        };
        let mut batches = Batches::open(&segment.file())?;
        let Stands::Batch(header) = batches.look()? else {
            return Ok(false);
        };
        if header.base_offset != segment.base.to_wire() {
            return Ok(false);
        }
        let batch = batches.verified(&header)?;
        Ok(batch.is_ok_and(|batch| batch.generation() == generation))
    }
}
