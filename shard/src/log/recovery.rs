//! Finding out, at an opening, what of the log is there and whole. The rules stand in
//! `docs/log-format.md`.

use super::abandoned;
use super::checkpoint::Checkpoint;
use super::contents::Contents;
use super::controls::Controls;
use super::error::{CUT, Fault, LogError, disk_error_in};
use super::generations::Generations;
use super::listing::Listing;
use super::producers::{ProducerTable, Replay};
use super::retention::Remains;
use super::rewrite::Rewrite;
use super::seen::Seen;
use super::segment::{Segment, log_name};
use super::trust::Trust;
#[cfg(test)]
use super::verify::skips_holes;
use super::verify::{
    CHUNK_BYTES, Verified, beyond_bounds, has_room, is_torn_end, occupied, verified,
};
use super::walk::Walk;
use super::{LogConfig, Opening};
use crate::disk::{Dir, Patience, breathe};
use felix_core::{Generation, Offset, Timestamp};
use std::io;
use std::rc::Rc;

/// What an opening found and did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Bytes cut off from the first batch that was not whole to the last byte that is not zero
    /// (zeros hold no record), over all files.
    pub cut_bytes: u64,
    /// Batches read to find the end.
    pub scanned_batches: u64,
    /// Index files that were missing or wrong, and made anew.
    pub rebuilt_indexes: u32,
    /// Files that were made for a next segment, and none had begun in them.
    pub abandoned_rolls: u32,
}

/// The log as recovery leaves it: flushed, and without what was not whole.
pub(super) struct Recovered {
    pub(super) dir: Rc<Dir>,
    pub(super) segments: Vec<Rc<Segment>>,
    pub(super) start: Offset,
    pub(super) end: Offset,
    pub(super) controls: Controls,
    pub(super) generations: Generations,
    /// There was a generation table.
    pub(super) has_table: bool,
    /// A write, a flush or the sync of a directory failed before: what the small files hold may be
    /// in the page cache only.
    pub(super) failed: bool,
    /// The greatest generation of a batch that was read.
    pub(super) generation_seen: Option<Generation>,
    pub(super) append_time: Timestamp,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) producers: ProducerTable,
    /// The log end that the producer snapshot describes, if it is one of this log.
    pub(super) snapshot_end: Option<Offset>,
    /// Bases of segments below the start, whose files are to be removed.
    pub(super) stale: Vec<Offset>,
    pub(super) recovery: Recovery,
}

/// Where a scan stopped before the end of the file.
struct Cut {
    position: u64,
    fault: Fault,
}

/// What a segment's file was found to hold.
struct Judged {
    /// It is written once more, into a file of its own, which the batches found whole are noted of.
    rewrite: Option<Rewrite>,
    /// Where it holds no whole batch before its end.
    cut: Option<Cut>,
    /// It was not read whole.
    is_trusted: bool,
}

pub(super) struct Recoverer {
    pub(super) dir: Rc<Dir>,
    pub(super) config: LogConfig,
    start: Offset,
    /// Below it any fault is fatal.
    recovery_point: Offset,
    /// Nothing may be taken on trust: a table is missing.
    scan_all: bool,
    /// Both are: another broker wrote it. What it acknowledged is not known, so nothing is cut off but
    /// what a crash leaves at the end.
    is_adopted: bool,
    /// A write or a flush failed before: segments that reach above the recovery point are written
    /// once more.
    failed: bool,
    /// Bytes that are left free by that.
    pub(super) kept_free_bytes: u64,
    /// The segment that is being written once more.
    pub(super) rewriting: Option<Offset>,
    /// What every batch's generation has to agree with, if it is there.
    pub(super) generations: Option<Generations>,
    seen: Seen,
    producers: Replay,
    segments: Vec<Rc<Segment>>,
    pub(super) recovery: Recovery,
    /// Something is to be flushed before it is served.
    changed: bool,
}

/// Recovers the log in `dir`.
pub(super) async fn recover(
    dir: Rc<Dir>,
    config: LogConfig,
    opening: Opening,
) -> Result<Recovered, LogError> {
    let Contents {
        listing:
            Listing {
                mut bases,
                mut orphans,
                next,
            },
        checkpoint,
        generations,
        is_failed,
        snapshot,
    } = Contents::look(&dir).await?;
    let abandoned = abandoned::settle(&dir, &next, &mut bases).await?;
    let first = bases.first().copied().unwrap_or_default();
    let start = checkpoint.as_ref().map_or(first, |saved| saved.start);
    // What retention let go of: all that ends at or below the start. It may have been cut short.
    let below = bases.partition_point(|base| *base <= start);
    let stale: Vec<Offset> = bases.drain(..below.saturating_sub(1)).collect();
    let first = bases.first().copied().unwrap_or_default();
    let failed = opening.failed || is_failed;
    let scan_all = checkpoint.is_none() || generations.is_none();
    let is_adopted = checkpoint.is_none() && generations.is_none();
    let known = bases.last().filter(|_| is_adopted).copied();
    let producers = Replay::begin(&dir, snapshot, start).await;
    let mut recoverer = Recoverer {
        dir,
        failed,
        kept_free_bytes: opening.kept_free_bytes,
        rewriting: None,
        config,
        start,
        recovery_point: checkpoint
            .as_ref()
            .map_or(known.unwrap_or(start), |saved| saved.recovery_point),
        scan_all: scan_all || opening.verify,
        is_adopted,
        generations,
        seen: Seen::default(),
        producers,
        segments: Vec::new(),
        recovery: Recovery {
            abandoned_rolls: u32::try_from(abandoned.unused.len()).unwrap_or(u32::MAX),
            cut_bytes: abandoned.dropped_bytes,
            ..Recovery::default()
        },
        // Of a file that is back after a power loss the next one is to know nothing.
        changed: failed || !next.is_empty(),
    };
    if first > start || (bases.is_empty() && recoverer.recovery_point > start) {
        return Err(recoverer.missing(start));
    }
    let end = recoverer.end(&bases).await?;
    orphans.extend(abandoned.unused);
    for name in &orphans {
        recoverer.remove(name).await?;
    }
    recoverer.settle().await?;
    recoverer.finish(checkpoint, end, stale, opening.now).await
}

/// Tells segments when they were appended to last, as far as that is known: what the checkpoint
/// says of one that grew after it does not count.
fn recall(segments: &[Rc<Segment>], checkpoint: Option<&Checkpoint>, now: Timestamp) {
    for segment in segments {
        let whole = checkpoint.filter(|saved| segment.end() <= saved.recovery_point);
        let noted = whole.and_then(|saved| saved.appended(segment.base()));
        segment.recall(noted, now);
    }
    if let Some(last) = segments.last() {
        last.recall_begun(checkpoint.and_then(|saved| saved.begun(last.base())), now);
    }
}

pub(super) fn disk_error(dir: &Dir, doing: &'static str, file: &str, cause: io::Error) -> LogError {
    disk_error_in(dir.path(), doing, file, cause)
}

impl Recoverer {
    /// The log, once what was accepted of it is durable.
    async fn finish(
        self,
        checkpoint: Option<Checkpoint>,
        end: Offset,
        stale: Vec<Offset>,
        now: Timestamp,
    ) -> Result<Recovered, LogError> {
        let Self {
            dir,
            start,
            generations,
            mut seen,
            producers,
            segments,
            mut recovery,
            failed,
            ..
        } = self;
        let (producers, snapshot_end) = producers.finish(&dir, &segments, end).await?;
        recovery.scanned_batches = seen.batches;
        let generation_seen = seen.generations.last();
        let (mut controls, append_time) = seen.marks(checkpoint.as_ref());
        controls.forget_below(start);
        let has_table = generations.is_some();
        let mut generations = generations.unwrap_or(seen.generations);
        generations.begin_at(start);
        recall(&segments, checkpoint.as_ref(), now);
        Ok(Recovered {
            dir,
            segments,
            start,
            end,
            controls,
            generations,
            has_table,
            generation_seen,
            append_time,
            checkpoint,
            producers,
            snapshot_end,
            failed,
            stale,
            recovery,
        })
    }

    /// The end of the log.
    async fn end(&mut self, bases: &[Offset]) -> Result<Offset, LogError> {
        if bases.is_empty() {
            return self.empty();
        }
        let end = self.segments(bases).await;
        if end.is_err() {
            self.discard_rewrite().await;
        }
        end
    }

    /// The end of a log without segments.
    fn empty(&self) -> Result<Offset, LogError> {
        let start = self.start;
        if has_room(start) {
            return Ok(start);
        }
        let fault = Fault::NoRoom { end: start };
        Err(Checkpoint::damaged(self.dir.path(), fault))
    }

    /// Goes through the segments; the end of the log.
    async fn segments(&mut self, bases: &[Offset]) -> Result<Offset, LogError> {
        let mut end = bases.first().copied().unwrap_or_default();
        let mut left = bases;
        while let Some((base, mut rest)) = left.split_first() {
            if *base != end {
                if end < self.recovery_point {
                    return Err(self.missing(end));
                }
                self.drop_segments(left).await?;
                return Ok(end);
            }
            let found = Segment::open(&self.dir, *base, self.config.index_interval_bytes).await?;
            let Judged {
                rewrite,
                mut cut,
                is_trusted,
            } = self.judge(&found, rest.first().copied()).await?;
            let segment = rewrite.as_ref().map_or(&found, Rewrite::segment);
            end = segment.end();
            if !is_trusted {
                rest = self.without_leftovers(rest, end).await?;
            }
            let next = rest.first().copied();
            // A crash came before its prepared space was given back. Nothing is missing.
            let is_untrimmed =
                cut.is_some() && next == Some(end) && occupied(&found, segment.bytes()).await? == 0;
            if is_untrimmed {
                cut = None;
            }
            if !has_room(end) {
                return Err(segment.damaged(segment.bytes(), Fault::NoRoom { end }));
            }
            // Before anything is touched: what is lost may be put back where it was.
            if end < self.recovery_point
                && let Some(error) = self.too_short(segment, next, cut.as_ref())
            {
                return Err(error);
            }
            if !is_trusted {
                self.changed = true;
                // A segment that ends before the next one begins, in zeros say, becomes the last:
                // the next is dropped as behind a cut.
                let is_full = next == Some(end) && cut.is_none();
                self.put_indexes(segment, is_full).await?;
            }
            if cut.is_some() {
                self.recovery.cut_bytes += occupied(&found, segment.bytes()).await?;
            }
            let segment = match rewrite {
                Some(rewrite) => {
                    let segment = rewrite.finish().await?;
                    self.rewriting = None;
                    segment
                }
                None if cut.is_some() || is_untrimmed => self.cut(found).await?,
                None => found,
            };
            self.segments.push(Rc::new(segment));
            if cut.is_some() {
                self.drop_segments(rest).await?;
                return Ok(end);
            }
            left = rest;
        }
        Ok(end)
    }

    /// Takes a segment on trust where its indexes agree with its end, and reads it whole where
    /// not. Changes nothing on disk; what a failed write or flush left in doubt is written once
    /// more beside it.
    async fn judge(&mut self, segment: &Segment, next: Option<Offset>) -> Result<Judged, LogError> {
        let expected_end = next.unwrap_or(self.recovery_point);
        if !self.scan_all && expected_end <= self.recovery_point {
            let trusted = Trust::new(self, segment, expected_end)
                .run(next.is_none())
                .await;
            if let Some(seen) = trusted? {
                self.seen.merge(seen);
                self.producers.read(segment).await?;
                return Ok(Judged {
                    rewrite: None,
                    cut: None,
                    is_trusted: true,
                });
            }
        }
        let rewrite = if self.failed {
            Some(self.begin_rewrite(segment).await?)
        } else {
            None
        };
        let cut = self.scan(segment, rewrite.as_ref()).await?;
        Ok(Judged {
            rewrite,
            cut,
            is_trusted: false,
        })
    }

    /// Why a segment may not end where it does, below the recovery point; `None`: the next one
    /// begins there.
    fn too_short(
        &self,
        segment: &Segment,
        next: Option<Offset>,
        cut: Option<&Cut>,
    ) -> Option<LogError> {
        let end = segment.end();
        match (cut, next) {
            (Some(cut), _) => Some(segment.damaged(cut.position, cut.fault.clone())),
            (None, Some(next)) if next == end => None,
            (None, Some(_)) if segment.bytes() > 0 => Some(self.missing(end)),
            (None, _) => {
                let fault = Fault::EndsEarly {
                    end,
                    recovery_point: self.recovery_point,
                };
                Some(segment.damaged(segment.bytes(), fault))
            }
        }
    }

    /// Reads and verifies every batch, up to the first that is not whole, and notes those before it.
    async fn scan(
        &mut self,
        segment: &Segment,
        rewrite: Option<&Rewrite>,
    ) -> Result<Option<Cut>, LogError> {
        let noted = rewrite.map_or(segment, Rewrite::segment);
        let size = segment
            .log()
            .size(Patience::Wait)
            .await
            .map_err(|e| segment.disk_error("measure", None, e))?;
        let mut walk = Walk::over(segment, 0, size, CHUNK_BYTES, Patience::Wait);
        loop {
            breathe().await;
            let position = walk.position();
            let generation = self
                .generations
                .as_ref()
                .and_then(|table| table.at(noted.end()));
            let batch = match verified(segment, &mut walk, noted.end(), generation).await? {
                Verified::Batch(batch) => batch,
                Verified::End => return Ok(None),
                #[cfg(test)]
                Verified::Fault(_) if skips_holes() && walk.position() > position => continue,
                Verified::Fault(fault) if self.is_adopted && !is_torn_end(&fault) => {
                    return Err(segment.damaged(position, fault));
                }
                Verified::Fault(fault) => return Ok(Some(Cut { position, fault })),
            };
            // No crash leaves such a batch, so nothing is cut for it.
            let refused = beyond_bounds(segment, &batch, walk.position(), self.recovery_point);
            if let Some(fault) = refused {
                return Err(segment.damaged(position, fault));
            }
            if let Some(owed) = self.seen.generations.last()
                && owed > batch.generation()
            {
                // Where the table is gone, all that is known is that generations rise.
                let found = batch.generation();
                let fault = Fault::Generation { owed, found };
                return Ok(Some(Cut { position, fault }));
            }
            noted.note(batch.header(), batch.last_offset());
            self.seen.note(&batch);
            self.producers
                .note(batch.header(), batch.base_offset(), batch.last_offset());
            if let Some(rewrite) = rewrite {
                rewrite.write(&batch, position).await?;
            }
        }
    }

    /// Cuts a segment behind its last whole batch.
    async fn cut(&mut self, segment: Segment) -> Result<Segment, LogError> {
        let bytes = segment.bytes();
        let cut = segment.log().truncate_aside(bytes).await;
        cut.map_err(|e| segment.disk_error(CUT, Some(bytes), e))?;
        self.changed = true;
        Ok(segment)
    }

    /// Removes segments that follow a cut, whatever they hold: what comes after a loss is not
    /// the log.
    async fn drop_segments(&mut self, bases: &[Offset]) -> Result<(), LogError> {
        // From the last: a crash in between leaves no gap that was not there before.
        for base in bases.iter().rev() {
            let segment = Segment::open(&self.dir, *base, self.config.index_interval_bytes).await?;
            self.recovery.cut_bytes += occupied(&segment, 0).await?;
            self.remove_segment(*base).await?;
        }
        Ok(())
    }

    pub(super) async fn remove_segment(&mut self, base: Offset) -> Result<(), LogError> {
        self.changed = true;
        let remains = Remains::of(&self.dir, base);
        remains.remove(|| true).await.map(drop)
    }

    /// Makes durable what was accepted, so that nothing is served that a power loss could take.
    async fn settle(&self) -> Result<(), LogError> {
        if !self.changed {
            return Ok(());
        }
        for segment in &self.segments {
            if segment.end() >= self.recovery_point {
                segment.flush().await?;
            }
        }
        let synced = self.dir.sync().await;
        synced.map_err(|cause| self.disk("sync the directory", "", cause))
    }

    pub(super) async fn remove(&self, name: &str) -> Result<(), LogError> {
        let removed = self.dir.discard_file(name).await;
        removed.map_err(|cause| self.disk("remove", name, cause))
    }

    pub(super) fn disk(&self, doing: &'static str, file: &str, cause: io::Error) -> LogError {
        disk_error(&self.dir, doing, file, cause)
    }

    fn missing(&self, base: Offset) -> LogError {
        LogError::Damaged {
            dir: self.dir.path().to_owned(),
            file: log_name(base),
            position: 0,
            fault: Fault::Missing,
        }
    }
}
