//! Writing what the next opening saves time by: the index files of full segments, what is known of
//! producers, and the checkpoint.

use super::Log;
use super::checkpoint::Checkpoint;
use super::error::LogError;
use super::poison::Distrust;
use super::producers::Snapshot;
use super::segment::Segment;
use crate::disk::Dir;
use felix_core::Offset;
use std::rc::Rc;

/// Index files and a checkpoint to be written without holding the log. Nobody's records wait for
/// it. One at a time per log; a flush may be under way.
#[derive(Debug)]
#[must_use]
pub struct Indexing {
    /// Held by the log too, which so knows that this is under way.
    token: Rc<()>,
    dir: Rc<Dir>,
    /// Full segments, their batches durable.
    segments: Vec<Rc<Segment>>,
    snapshot: Option<Snapshot>,
    /// Claims no more than was durable when this was handed out.
    checkpoint: Checkpoint,
}

/// Index files and a checkpoint that were written.
#[derive(Debug)]
pub struct Indexed {
    token: Rc<()>,
    segments: Vec<Rc<Segment>>,
    snapshot_end: Option<Offset>,
    recovery_point: Offset,
}

impl Indexing {
    /// Does it, on a blocking thread: every file durable in its place, the checkpoint last.
    ///
    /// # Errors
    /// The disk's own fault. It is to be brought back by [`Log::indexed`] all the same.
    pub async fn run(self) -> Result<Indexed, LogError> {
        for segment in &self.segments {
            segment.save_indexes().await?;
        }
        // Before the checkpoint: from its recovery point on the next opening reads anyway.
        let snapshot_end = match &self.snapshot {
            Some(snapshot) => Some(snapshot.save(&self.dir).await?),
            None => None,
        };
        self.checkpoint.save(&self.dir).await?;
        Ok(Indexed {
            token: self.token,
            segments: self.segments,
            snapshot_end,
            recovery_point: self.checkpoint.recovery_point,
        })
    }
}

impl Log {
    /// What is to be written for the full segments that flushes have made durable; `None` where
    /// there are none, or the log is poisoned. Panics while an earlier one has not ended.
    #[must_use]
    pub fn indexing(&self) -> Option<Indexing> {
        assert_eq!(
            Rc::strong_count(&self.indexing_token),
            1,
            "one indexing of a log at a time"
        );
        if self.unindexed.is_empty() || self.poison.is_some() {
            return None;
        }
        Some(Indexing {
            token: Rc::clone(&self.indexing_token),
            dir: Rc::clone(&self.dir),
            segments: self.unindexed.clone(),
            snapshot: self.producers.snapshot(self.durable_end),
            checkpoint: self.checkpoint(self.durable_end),
        })
    }

    /// Whether full segments that are durable have no index files yet.
    #[must_use]
    pub fn is_unindexed(&self) -> bool {
        !self.unindexed.is_empty()
    }

    /// Takes a finished indexing back. An error leaves everything as it was, to be tried again: no
    /// record waits for these files. Only where a directory could not be synced it poisons the log,
    /// because that may have been about the name of a segment, too.
    ///
    /// # Errors
    /// The one that was brought, or that of an earlier flush.
    pub fn indexed(&mut self, result: Result<Indexed, LogError>) -> Result<(), LogError> {
        let indexed = match result {
            Ok(indexed) => indexed,
            Err(error) if error.is_failed_sync() => {
                return Err(self.poison(error, Distrust::Flushes));
            }
            Err(error) => return Err(error),
        };
        assert!(
            Rc::ptr_eq(&indexed.token, &self.indexing_token),
            "an indexing returns to its own log"
        );
        self.believed()?;
        for segment in &indexed.segments {
            segment.forget_indexes();
        }
        self.unindexed.retain(|segment| {
            !indexed
                .segments
                .iter()
                .any(|done| Rc::ptr_eq(done, segment))
        });
        self.snapshot_end = self.snapshot_end.max(indexed.snapshot_end);
        self.recovery_point = self.recovery_point.max(indexed.recovery_point);
        self.check();
        Ok(())
    }
}
