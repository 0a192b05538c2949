//! Letting go of what a stream does not keep: whole full segments, the oldest first.
//!
//! In this order, so that no crash leaves a log whose beginning is missing: a checkpoint with the
//! new log start is made durable ([`super::Upkeep`]), the log forgets the segments, and once no read
//! looks at them any more their files go ([`Removal`]). Files that a crash leaves below the log
//! start are removed by the next opening. A disk that is full to the last byte is no obstacle, since
//! that is when the space is wanted ([`LettingGo`]).

use super::Log;
use super::checkpoint::Checkpoint;
use super::error::LogError;
use super::recovery::disk_error;
use super::segment::{Segment, index_name, log_name, time_index_name};
use crate::disk::Dir;
use crate::event::Event;
use crate::runtime;
use felix_core::{Offset, Retention, Timestamp};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// A file is cut by so much at a time: file systems that are mounted with `discard` tell the device
/// of each piece, and a large one stalls the writes of others.
const STEP_BYTES: u64 = 64 << 20;

/// Between two such steps.
const STEP_PAUSE: Duration = Duration::from_millis(100);

/// A segment that the log has let go of.
#[derive(Debug)]
pub(super) struct Gone {
    base: Offset,
    /// Reads may still look at it.
    held: Weak<Segment>,
    let_go: Rc<Event>,
}

/// Files of segments below the log start, to be removed without holding the log.
#[derive(Debug)]
#[must_use]
pub struct Removal {
    dir: Rc<Dir>,
    gone: Vec<Gone>,
}

/// A segment that nothing but its files is left of.
#[derive(Debug)]
pub struct Remains {
    dir: Rc<Dir>,
    base: Offset,
}

/// Moving the log start with as little as can be, for a disk that has no space: a checkpoint that
/// claims no more than the one before it, and so needs no other file to be written first.
#[derive(Debug)]
pub(super) struct LettingGo {
    checkpoint: Checkpoint,
    /// What is let go of by it.
    segments: Vec<Rc<Segment>>,
}

impl LettingGo {
    /// Makes the checkpoint durable. Where it has no space either, it gets that of the index files of
    /// what goes by it, one segment after the other: after a crash the next opening makes them anew.
    pub(super) async fn run(self, dir: &Dir) -> Result<Checkpoint, LogError> {
        let mut saved = self.checkpoint.save(dir).await;
        for segment in &self.segments {
            if !saved.as_ref().is_err_and(LogError::is_full) {
                break;
            }
            for name in [index_name(segment.base()), time_index_name(segment.base())] {
                let removed = dir.discard_file(&name).await;
                removed.map_err(|cause| disk_error(dir, "remove", &name, cause))?;
            }
            saved = self.checkpoint.save(dir).await;
        }
        saved.map(|()| self.checkpoint)
    }
}

impl Gone {
    /// A segment whose files are there and that nobody has open.
    pub(super) fn stale(base: Offset) -> Self {
        Self {
            base,
            held: Weak::new(),
            let_go: Rc::default(),
        }
    }

    fn of(segment: &Rc<Segment>) -> Self {
        let let_go = Rc::default();
        segment.tell_when_let_go(Rc::clone(&let_go));
        Self {
            base: segment.base(),
            held: Rc::downgrade(segment),
            let_go,
        }
    }
}

impl Removal {
    /// How many segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.gone.len()
    }

    /// The next segment, once no read looks at it any more.
    pub async fn next(&mut self) -> Option<Remains> {
        let gone = self.gone.last()?;
        gone.let_go.until(|| gone.held.strong_count() == 0).await;
        let base = self.gone.pop()?.base;
        Some(Remains::of(&self.dir, base))
    }
}

impl Remains {
    /// Those of the segment that begins at `base`, which nobody has open.
    pub(super) fn of(dir: &Rc<Dir>, base: Offset) -> Self {
        Self {
            dir: Rc::clone(dir),
            base,
        }
    }

    /// Removes the files of its indexes, so that none points to what is gone, and that of its batches
    /// after it has cut it step by step. Where `is_wanted` does not hold between two steps it ends
    /// early; the next opening does the rest.
    /// The bytes that are free again.
    ///
    /// # Errors
    /// The disk's own fault; the next opening tries again.
    pub async fn remove(self, is_wanted: impl Fn() -> bool) -> Result<u64, LogError> {
        let mut indexes = Ok(());
        for name in [index_name(self.base), time_index_name(self.base)] {
            // One that cannot be removed keeps no space of batches.
            indexes = indexes.and(self.discard(&name).await);
        }
        let name = log_name(self.base);
        let failed = |doing, cause| disk_error(&self.dir, doing, &name, cause);
        let asked = name.clone();
        let size = self.dir.aside(move |calls| calls.size_of(&asked)).await;
        let size = size.map_err(|e| failed("measure", e))?;
        let mut left = size.unwrap_or_default();
        let mut freed = 0;
        while left > 0 {
            let step = left.min(STEP_BYTES);
            left -= step;
            let cut = self.dir.cut_file(&name, left).await;
            cut.map_err(|e| failed("cut", e))?;
            freed += step;
            if left > 0 {
                runtime::sleep(STEP_PAUSE).await;
            }
            if !is_wanted() {
                return Ok(freed);
            }
        }
        self.discard(&name).await?;
        indexes.map(|()| freed)
    }

    async fn discard(&self, name: &str) -> Result<(), LogError> {
        let removed = self.dir.discard_file(name).await;
        removed.map_err(|cause| disk_error(&self.dir, "remove", name, cause))
    }
}

impl Log {
    /// Decides what is not kept any more. It goes with the next upkeep.
    pub fn retain(&mut self, retention: Retention, now: Timestamp) {
        let from = self
            .segments
            .partition_point(|segment| segment.base() < self.owed_start);
        let kept = self.segments.get(from..).unwrap_or_default();
        let mut bytes: u64 = kept.iter().map(|segment| segment.bytes()).sum();
        // The last one grows, and is never let go of.
        let full = kept.len().saturating_sub(1);
        for segment in kept.iter().take(full) {
            let rest = bytes - segment.bytes();
            let is_beyond = retention.bytes.is_some_and(|kept| rest >= kept.get());
            let is_old = retention.age.is_some_and(|age| segment.is_older(age, now));
            // One that was sealed since the last flush is still that flush's, durable or not.
            let is_sealed = self.sealed.iter().any(|one| Rc::ptr_eq(one, segment));
            let is_durable = segment.end() <= self.durable_end && !is_sealed;
            if !is_durable || !(is_beyond || is_old) {
                break;
            }
            bytes = rest;
            self.owed_start = segment.end();
        }
    }

    /// What is let go of where there is space for nothing else; only what lies below the recovery
    /// point can be.
    pub(super) fn letting_go(&self) -> Option<LettingGo> {
        let below = self.owed_start.min(self.recovery_point);
        let segments = self.segments.iter();
        let segments: Vec<_> = segments
            .take_while(|segment| segment.end() <= below)
            .cloned()
            .collect();
        let start = segments.last()?.end();
        Some(LettingGo {
            checkpoint: self.checkpoint_from(start, self.recovery_point),
            segments,
        })
    }

    /// A checkpoint that says so is durable: the log begins there.
    pub(super) fn start_at(&mut self, start: Offset) {
        if start <= self.start {
            return;
        }
        self.start = start;
        let below = |segment: &Rc<Segment>| segment.base() < start;
        let gone = self.segments.partition_point(below);
        let segments = Rc::make_mut(&mut self.segments);
        self.gone
            .extend(segments.drain(..gone).map(|s| Gone::of(&s)));
        self.unindexed.retain(|segment| !below(segment));
        assert!(
            self.segments
                .first()
                .is_some_and(|first| first.base() == start)
        );
        self.generations.begin_at(start);
        self.controls.forget_below(start);
        // Those whose records are all gone are unknown from now on.
        self.producers.with(|table| table.forget_below(start));
    }

    /// Files that are to be removed, if there are any.
    pub fn removal(&mut self) -> Option<Removal> {
        let mut gone = std::mem::take(&mut self.gone);
        // The oldest is the last, and goes first.
        gone.reverse();
        (!gone.is_empty()).then(|| Removal {
            dir: Rc::clone(&self.dir),
            gone,
        })
    }
}
