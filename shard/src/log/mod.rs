//! One shard's log on disk: a run of segments, each with its two indexes, and beside them the
//! generation table and the checkpoint. Lives on the CPU core that owns the shard. Every byte is
//! drawn in `docs/log-format.md`.
//!
//! Nothing here awaits while the log is borrowed: what takes time is handed out as an owned piece
//! of work ([`Flush`], [`Upkeep`], [`Removal`], [`Read`], [`Search`]) and its result is brought back.

mod abandoned;
mod apply;
mod checkpoint;
mod contents;
mod controls;
mod crashes;
mod error;
mod failed;
mod flush;
mod founding;
mod generations;
mod hints;
mod index;
pub mod inspect;
mod leftovers;
mod listing;
mod next;
mod poison;
mod preparation;
mod producers;
mod read;
mod recovery;
mod reindexing;
mod retention;
mod rewrite;
mod rolling;
mod saving;
mod search;
mod seen;
mod segment;
mod table;
mod trust;
mod upkeep;
mod verify;
mod walk;
mod write_back;
mod writing;

#[cfg(test)]
mod tests;

pub use apply::ApplyError;
pub(crate) use crashes::{crash_notes, note_crash};
pub use error::{Fault, LogError};
pub use failed::FailureNote;
pub(crate) use failed::is_failed;
pub use flush::{Flush, Flushed};
pub use founding::{founding_files, what_is_missing};
pub use next::{Making, Next};
pub use preparation::{Preparation, Prepared};
pub use read::Read;
pub use recovery::Recovery;
pub use retention::{Remains, Removal};
pub use saving::Saving;
pub use search::{Candidate, Found, Look, Search, Searched, Wanted};
pub use upkeep::{KeptUp, Upkeep};
pub use write_back::WriteBack;
pub use writing::{Writing, Written};

use crate::disk::Dir;
use checkpoint::Checkpoint;
use controls::Controls;
use felix_core::batch::Header;
use felix_core::producers::{Producers, Refusal, Sequenced, Verdict};
use felix_core::{Generation, Offset, PlacedBatch, Timestamp};
use generations::Generations;
use poison::Poison;
use preparation::Pace;
use producers::ProducerTable;
use retention::Gone;
use segment::Segment;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

/// How a log is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// A segment that would grow past this many bytes is sealed first. A larger batch, which the
    /// broker refuses, would get a segment of its own.
    pub segment_bytes_max: u64,
    /// Bytes of log between two entries of the offset index.
    pub index_interval_bytes: u32,
}

/// Why a shard is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenReason {
    /// The leader it had opens it again. No batch is written for it.
    Restart,
    /// Another leader takes over, or the shard moved: a log that is not empty gets a control batch.
    Promotion,
}

/// What an opening is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Why.
    pub reason: OpenReason,
    /// The new generation is above this, and above every one in the table.
    pub generation_floor: Generation,
    /// The floor is no less than any generation that was ever opened, and the one after it was noted
    /// durably by whoever opens the log: then the table need not have it before there is a batch.
    pub is_floor_noted: bool,
    /// Wall clock.
    pub now: Timestamp,
    /// Every batch is read and verified, and no index taken on trust.
    pub verify: bool,
    /// A write or a flush of it failed since, whether or not the disk has the file that says so.
    pub failed: bool,
    /// Bytes of the disk that are left free where segments are written once more; less where that is
    /// more than a twentieth of it.
    pub kept_free_bytes: u64,
}

/// One shard's log. Lives on the CPU core that opened it.
#[derive(Debug)]
pub struct Log {
    dir: Rc<Dir>,
    config: LogConfig,
    /// In order; the last one grows. Copied on a roll if a read still looks at it.
    segments: Rc<Vec<Rc<Segment>>>,
    generations: Generations,
    generation: Generation,
    /// The table on the device has it.
    is_saved: bool,
    controls: Controls,
    /// No append time given out is above this, and none will be below.
    append_time: Timestamp,
    start: Offset,
    /// Where it is to begin once a checkpoint says so.
    owed_start: Offset,
    end: Offset,
    durable_end: Offset,
    /// A batch is being written, and not noted yet.
    is_writing: bool,
    /// Bytes ever written since the opening, and those of them that are durable.
    written: u64,
    flushed: u64,
    /// Those of them that the kernel was asked to write to the device.
    sent: u64,
    pace: Pace,
    /// The file that the next segment begins in, if it is made.
    next: Option<Next>,
    /// Full segments whose batches are not all durable yet.
    sealed: Vec<Rc<Segment>>,
    /// Full segments with durable batches, and without index files.
    unindexed: Vec<Rc<Segment>>,
    /// Files ever made since the opening, and those of them whose names are durable.
    dir_changes: u64,
    dir_synced: u64,
    /// As the checkpoint on the device says.
    recovery_point: Offset,
    producers: ProducerTable,
    /// The log end that the producer snapshot on the device describes.
    snapshot_end: Option<Offset>,
    /// The bytes of `flushed` that lie below it.
    checkpointed: u64,
    /// Segments that the log let go of, and whose files are still there.
    gone: Vec<Gone>,
    /// Shared with the flush that is under way, if one is.
    flush_token: Rc<()>,
    /// Shared with the upkeep that is under way, if one is.
    upkeep_token: Rc<()>,
    poison: Option<Poison>,
}

impl Log {
    /// Opens the log in `dir`, making it if there is none: recovers, flushes what it accepted,
    /// raises and persists the generation, and only then returns.
    ///
    /// # Errors
    /// Damage below the recovery point, a foreign file, crashes time and again, or the disk's own
    /// fault.
    pub async fn open(
        dir: &Path,
        config: LogConfig,
        opening: Opening,
    ) -> Result<(Self, Recovery), LogError> {
        let opened = Dir::open(dir).await.map_err(|cause| LogError::Disk {
            dir: dir.to_owned(),
            file: String::new(),
            position: None,
            doing: "make the directory",
            cause,
        })?;
        let dir = Rc::new(opened);
        let result = Self::recover(Rc::clone(&dir), config, opening).await;
        if result.as_ref().is_err_and(LogError::leaves_doubt) {
            FailureNote::new(&dir).leave().await;
        }
        result
    }

    async fn recover(
        dir: Rc<Dir>,
        config: LogConfig,
        opening: Opening,
    ) -> Result<(Self, Recovery), LogError> {
        let recovered = recovery::recover(dir, config, opening).await?;
        let (saved, recovery) = (recovered.checkpoint.clone(), recovered.recovery);
        let (has_table, is_failed) = (recovered.has_table, recovered.failed);
        let mut log = Self::over(recovered, config, opening.generation_floor)?;
        if log.segments.is_empty() {
            let interval = config.index_interval_bytes;
            let first = Segment::create_aside(&log.dir, log.end, interval).await?;
            log.begun(first);
        }
        log.generations.begin(log.generation, log.end);
        // One above the floor is also one above all in the log.
        let is_noted = opening.is_floor_noted
            && Some(log.generation) == opening.generation_floor.next()
            && opening.reason == OpenReason::Restart;
        if !is_noted || !has_table || is_failed {
            log.generations.save(&log.dir).await?;
            log.is_saved = true;
        }
        if opening.reason == OpenReason::Promotion && log.end > log.start {
            log.append_time = log.append_time.max(opening.now);
            let (end, generation) = (log.end, log.generation);
            log.write(PlacedBatch::generation_start(
                end,
                generation,
                log.append_time,
            ))?;
            log.last().appended(opening.now);
        }
        log.flush_all().await?;
        if (log.snapshot_end.is_none() || is_failed) && log.end > log.start {
            // All headers were read for the want of one: not again the next time.
            log.save_snapshot().await?;
        } else if log.snapshot_end.is_none() {
            producers::remove(&log.dir).await?;
        }
        let checkpoint = log.checkpoint(log.end);
        if saved.as_ref() != Some(&checkpoint) || is_failed {
            checkpoint.save(&log.dir).await?;
            log.recovery_point = checkpoint.recovery_point;
        }
        if is_failed {
            // Last: until here the next opening has to know of it.
            failed::forget_failed(&log.dir).await?;
        }
        log.checkpointed = log.flushed;
        log.check();
        // Most shards are idle, and a descriptor is for those that are not.
        for segment in log.segments.iter() {
            segment.log().rest();
        }
        Ok((log, recovery))
    }

    fn over(
        recovered: recovery::Recovered,
        config: LogConfig,
        floor: Generation,
    ) -> Result<Self, LogError> {
        let before = [
            recovered.generations.last(),
            recovered.generation_seen,
            Some(floor),
        ];
        let before = before.into_iter().flatten().max().unwrap_or_default();
        let Some(generation) = before.next() else {
            return Err(Generations::exhausted(recovered.dir.path(), 0));
        };
        let recovery_point = recovered
            .checkpoint
            .as_ref()
            .map_or(recovered.start, |c| c.recovery_point);
        Ok(Self {
            dir: recovered.dir,
            config,
            segments: Rc::new(recovered.segments),
            generations: recovered.generations,
            generation,
            is_saved: false,
            controls: recovered.controls,
            append_time: recovered.append_time,
            start: recovered.start,
            owed_start: recovered.start,
            end: recovered.end,
            durable_end: recovered.end,
            is_writing: false,
            written: 0,
            flushed: 0,
            sent: 0,
            pace: Pace::default(),
            next: None,
            sealed: Vec::new(),
            unindexed: Vec::new(),
            dir_changes: 0,
            dir_synced: 0,
            recovery_point,
            producers: recovered.producers,
            snapshot_end: recovered.snapshot_end,
            checkpointed: 0,
            gone: recovered.stale.into_iter().map(Gone::stale).collect(),
            flush_token: Rc::new(()),
            upkeep_token: Rc::new(()),
            poison: None,
        })
    }

    /// The lowest offset that can be read.
    #[must_use]
    pub fn start(&self) -> Offset {
        self.start
    }

    /// The next offset to be assigned.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.end
    }

    /// How many segments it has.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Everything below this is on the device.
    #[must_use]
    pub fn durable_end(&self) -> Offset {
        self.durable_end
    }

    /// Everything below this is known to be on the device by whoever opens the log next.
    #[must_use]
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// The offset after the last data record below `mark` (a high watermark), and never below
    /// the start. Known without reading for any mark from the end at the opening on; a lower one
    /// may be answered by itself, though a control batch lies before it.
    #[must_use]
    pub fn visible_end(&self, mark: Offset) -> Offset {
        self.controls.visible_end(mark).max(self.start)
    }

    /// The generation this opening has.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The greatest generation up to the one asked for that holds records, and the offset after
    /// its last one (Kafka's OffsetForLeaderEpoch). `None`: it has not begun.
    #[must_use]
    pub fn generation_end(&self, asked: Generation) -> Option<(Generation, Offset)> {
        self.generations.end_of(asked, self.end)
    }

    /// The generation of the record at `offset`, or of the one that will be there.
    #[must_use]
    pub fn generation_at(&self, offset: Offset) -> Generation {
        self.generations.at(offset).unwrap_or(self.generation)
    }

    /// What a batch is, by its header: all but those of idempotent producers are new.
    ///
    /// # Errors
    /// Why it is not to be appended.
    pub fn judge(&self, header: &Header) -> Result<Verdict, Refusal> {
        Sequenced::of(header).map_or(Ok(Verdict::New), |batch| self.producers.judge(&batch))
    }

    /// Looks at what is known of producers, or has it forgotten.
    pub fn with_producers<T>(&self, look: impl FnOnce(&mut Producers) -> T) -> T {
        self.producers.with(look)
    }

    fn last(&self) -> &Rc<Segment> {
        self.segments
            .last()
            .expect("a log has a segment from its opening on")
    }

    fn roll(&mut self) -> Result<(), LogError> {
        let full = Rc::clone(self.last());
        assert_eq!(full.end(), self.end);
        // First: where there is no space for it the segment goes on, for batches that still fit.
        self.begin_next(&full)?;
        full.seal();
        self.sealed.push(full);
        Ok(())
    }

    fn begin_segment(&mut self) -> Result<(), LogError> {
        let segment = Segment::create(&self.dir, self.end, self.config.index_interval_bytes)?;
        self.begun(segment);
        Ok(())
    }

    fn begun(&mut self, segment: Segment) {
        self.dir_changes += 1;
        Rc::make_mut(&mut self.segments).push(Rc::new(segment));
    }

    /// A read of whole batches from the one that holds `from`, ending below `below` (no batch that
    /// reaches past it) and after at most `bytes_max` bytes, but at least one batch. Control
    /// batches are left out. `from` lies in `start()..below`.
    #[must_use]
    pub fn read(&self, from: Offset, below: Offset, bytes_max: usize) -> Read {
        Read {
            segments: Rc::clone(&self.segments),
            from,
            below,
            bytes_max,
            first_bytes_max: usize::MAX,
            left_out: Cell::default(),
        }
    }

    /// A search among the records below `below`.
    #[must_use]
    pub fn search(&self, wanted: Wanted, below: Offset) -> Search {
        Search::new(Rc::clone(&self.segments), wanted, below)
    }

    /// Flushes, writes the indexes of the last segment and the checkpoint, with everything
    /// durable: the next opening reads almost nothing. A log whose write has failed is only
    /// flushed.
    ///
    /// # Errors
    /// The disk's own fault, now or earlier; then the next opening scans.
    pub async fn close(mut self) -> Result<(), LogError> {
        let closed = self.shut().await;
        if let Some(note) = self.failure_note() {
            note.leave().await;
        }
        closed
    }

    async fn shut(&mut self) -> Result<(), LogError> {
        assert!(
            !self.is_writing,
            "whoever writes brings the batch back first"
        );
        self.flush_all().await?;
        self.usable()?;
        // Once more where the first one only let go of what is not kept, for want of space.
        while let Some(upkeep) = self.upkeep() {
            let kept_up = upkeep.run().await;
            self.kept_up(kept_up)?;
        }
        self.discard_next().await;
        self.last().trim().await?;
        self.last().seal();
        // Beside the last, those whose files turned out to be wrong.
        for segment in self.segments.iter() {
            segment.save_indexes().await?;
        }
        if self.end > self.start && self.snapshot_end != Some(self.end) {
            self.save_snapshot().await?;
        }
        assert_eq!(self.recovery_point, self.end);
        Ok(())
    }

    /// Writes what is known of producers at the end of the log, all of which is durable.
    async fn save_snapshot(&mut self) -> Result<(), LogError> {
        assert_eq!(self.durable_end, self.end);
        self.producers.with(|table| table.begin_copy(self.end));
        let snapshot = self.producers.snapshot(self.durable_end);
        let snapshot = snapshot.expect("a state that was marked can be written");
        self.snapshot_end = Some(snapshot.save(&self.dir).await?);
        Ok(())
    }

    /// What may be claimed once everything below `end` is durable.
    fn checkpoint(&self, end: Offset) -> Checkpoint {
        self.checkpoint_from(self.owed_start, end)
    }

    /// The same of a log that begins at `start`.
    fn checkpoint_from(&self, start: Offset, end: Offset) -> Checkpoint {
        let segments = self.segments.iter();
        let kept = segments.filter(|segment| segment.base() >= start);
        Checkpoint {
            recovery_point: end,
            start,
            visible_end: self.visible_end(end).max(start),
            append_time: self.append_time,
            begun: self
                .last()
                .known_begun()
                .filter(|_| self.last().base() < end),
            appended: kept
                .filter_map(|segment| segment.own_append_time())
                .collect(),
        }
    }

    fn check(&self) {
        assert!(self.start <= self.owed_start);
        assert!(self.owed_start <= self.durable_end);
        assert!(self.start <= self.recovery_point);
        assert!(self.recovery_point <= self.durable_end);
        assert!(self.durable_end <= self.end);
        assert!(self.flushed <= self.written);
        assert!(self.checkpointed <= self.flushed);
        assert_eq!(self.last().end(), self.end);
    }
}
