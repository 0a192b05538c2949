//! Writing what the next opening saves time by: the index files of full segments, what is known of
//! producers, and the checkpoint.

use super::Log;
use super::checkpoint::Checkpoint;
use super::error::LogError;
use super::poison::Distrust;
use super::producers::Snapshot;
use super::retention::LettingGo;
use super::segment::Segment;
use crate::disk::Dir;
use felix_core::Offset;
use std::rc::Rc;

/// Durable bytes above the recovery point from which on a log is owed a checkpoint: what an opening
/// reads whole, and what damage may cut.
const BYTES_BEHIND_MAX: u64 = 64 << 20;

/// Index files and a checkpoint to be written without holding the log. Nobody's records wait for
/// it. One at a time per log; a flush may be under way.
#[derive(Debug)]
#[must_use]
pub struct Upkeep {
    /// Held by the log too, which so knows that this is under way.
    token: Rc<()>,
    dir: Rc<Dir>,
    /// Full segments, their batches durable.
    segments: Vec<Rc<Segment>>,
    snapshot: Option<Snapshot>,
    /// Claims no more than was durable when this was handed out.
    checkpoint: Checkpoint,
    /// The bytes ever flushed that lie below its recovery point.
    flushed: u64,
    /// What is done instead where the disk has no space for all this.
    letting_go: Option<LettingGo>,
}

/// Index files and a checkpoint that were written.
#[derive(Debug)]
pub struct KeptUp {
    token: Rc<()>,
    segments: Vec<Rc<Segment>>,
    snapshot_end: Option<Offset>,
    checkpoint: Checkpoint,
    flushed: u64,
}

impl Upkeep {
    /// Does it, on a blocking thread: every file durable in its place, the checkpoint last, because
    /// an opening takes on trust what the others say of the log below its recovery point. Where the
    /// disk has no space for it, and there is something to let go of, only that is done: the rest is
    /// owed as before.
    ///
    /// # Errors
    /// The disk's own fault. It is to be brought back by [`Log::kept_up`] all the same.
    pub async fn run(mut self) -> Result<KeptUp, LogError> {
        let letting_go = self.letting_go.take();
        let token = Rc::clone(&self.token);
        let dir = Rc::clone(&self.dir);
        match (self.run_whole().await, letting_go) {
            (Err(error), Some(letting_go)) if error.is_full() => Ok(KeptUp {
                token,
                segments: Vec::new(),
                snapshot_end: None,
                checkpoint: letting_go.run(&dir).await?,
                flushed: 0,
            }),
            (done, _) => done,
        }
    }

    async fn run_whole(self) -> Result<KeptUp, LogError> {
        for segment in &self.segments {
            // Before the checkpoint passes it: the next opening is to find what its indexes say.
            segment.trim().await?;
            segment.save_indexes().await?;
        }
        // Before the checkpoint: from its recovery point on the next opening reads anyway.
        let snapshot_end = match &self.snapshot {
            Some(snapshot) => Some(snapshot.save(&self.dir).await?),
            None => None,
        };
        self.checkpoint.save(&self.dir).await?;
        Ok(KeptUp {
            token: self.token,
            segments: self.segments,
            snapshot_end,
            checkpoint: self.checkpoint,
            flushed: self.flushed,
        })
    }
}

impl Log {
    /// What is to be written; `None` where nothing is, or the log is poisoned. Panics while an
    /// earlier one has not ended.
    #[must_use]
    pub fn upkeep(&self) -> Option<Upkeep> {
        assert_eq!(
            Rc::strong_count(&self.upkeep_token),
            1,
            "one upkeep of a log at a time"
        );
        let is_owed = self.owes_upkeep() || self.is_behind();
        if !is_owed || self.poison.is_some() {
            return None;
        }
        if self.end == self.durable_end {
            // All of it: what was marked before is older.
            self.producers.mark(self.end);
        }
        let stays = |segment: &&Rc<Segment>| segment.base() >= self.owed_start;
        Some(Upkeep {
            token: Rc::clone(&self.upkeep_token),
            dir: Rc::clone(&self.dir),
            segments: self.unindexed.iter().filter(stays).cloned().collect(),
            snapshot: self.producers.snapshot(self.durable_end),
            checkpoint: self.checkpoint(self.durable_end),
            flushed: self.flushed,
            letting_go: self.letting_go(),
        })
    }

    /// Whether upkeep is owed at once: full segments that are durable have no index files, the log
    /// start is to move, or the recovery point is far behind.
    #[must_use]
    pub fn owes_upkeep(&self) -> bool {
        self.is_unindexed()
            || self.owes_start()
            || self.flushed - self.checkpointed >= BYTES_BEHIND_MAX
    }

    /// Whether the log start is to move.
    #[must_use]
    pub fn owes_start(&self) -> bool {
        self.owed_start > self.start
    }

    /// Whether upkeep is owed once everything written so far is durable.
    pub(super) fn will_owe_upkeep(&self) -> bool {
        !self.sealed.is_empty() || self.written - self.checkpointed >= BYTES_BEHIND_MAX
    }

    /// Whether something durable lies above the recovery point.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.recovery_point < self.durable_end
    }

    /// Whether full segments that are durable have no index files yet.
    #[must_use]
    pub fn is_unindexed(&self) -> bool {
        !self.unindexed.is_empty()
    }

    /// Takes a finished upkeep back. An error leaves everything as it was, to be tried again: no
    /// record waits for these files. Only where a directory could not be synced it poisons the log,
    /// because that may have been about the name of a segment, too.
    ///
    /// # Errors
    /// The one that was brought, or that of an earlier flush.
    pub fn kept_up(&mut self, result: Result<KeptUp, LogError>) -> Result<(), LogError> {
        let done = match result {
            Ok(done) => done,
            Err(error) if error.is_failed_sync() => {
                return Err(self.poison(error, Distrust::Flushes));
            }
            Err(error) => return Err(error),
        };
        assert!(
            Rc::ptr_eq(&done.token, &self.upkeep_token),
            "an upkeep returns to its own log"
        );
        self.believed()?;
        for segment in &done.segments {
            segment.forget_indexes();
        }
        self.unindexed
            .retain(|segment| !done.segments.iter().any(|one| Rc::ptr_eq(one, segment)));
        self.snapshot_end = self.snapshot_end.max(done.snapshot_end);
        self.recovery_point = self.recovery_point.max(done.checkpoint.recovery_point);
        self.checkpointed = self.checkpointed.max(done.flushed);
        self.start_at(done.checkpoint.start);
        self.check();
        Ok(())
    }
}
