//! Making what is written durable.

use super::Log;
use super::error::{LogError, SYNC_DIRECTORY};
use super::poison::Distrust;
use super::recovery::disk_error;
use super::segment::Segment;
use crate::disk::Dir;
#[cfg(test)]
use crate::runtime::broken::{self, Broken};
use felix_core::Offset;
use felix_core::limits::FILES_FLUSHED_AT_ONCE_MAX;
use futures_util::{StreamExt, stream};
use std::rc::Rc;

/// A flush to be awaited without holding the log. One at a time per log: the kernel reports a
/// failed write-back to one flush only, so a second could take a loss for success.
#[derive(Debug)]
#[must_use]
pub struct Flush {
    /// Held by the log too, which so knows that a flush is under way.
    token: Rc<()>,
    dir: Rc<Dir>,
    /// The segments with batches that are not durable.
    dirty: Vec<Rc<Segment>>,
    /// Those of them that are full.
    sealed: Vec<Rc<Segment>>,
    /// The last segment, where its file still has to be given its name.
    unnamed: Option<Rc<Segment>>,
    /// Set where files appeared: the count of such changes that this flush covers.
    dir_changes: Option<u64>,
    /// The log end it covers.
    end: Offset,
    /// The bytes ever written that it covers.
    written: u64,
}

/// What a flush made durable.
#[derive(Debug)]
pub struct Flushed {
    token: Rc<()>,
    sealed: Vec<Rc<Segment>>,
    dir_changes: Option<u64>,
    end: Offset,
    written: u64,
}

impl Flush {
    /// Does it: `fdatasync` of the dirty segments on the ring, two at once; then, where a file was
    /// made, its name and the directory on a blocking thread. Index files and checkpoint follow by
    /// [`super::Upkeep`], for no record waits for them.
    ///
    /// # Errors
    /// The disk's own fault. It is to be brought back by [`super::Log::flushed`] all the same.
    pub async fn run(self) -> Result<Flushed, LogError> {
        let flushes = stream::iter(self.dirty.iter().map(|segment| segment.flush()));
        // All of them are waited for: the kernel tells of each loss once, and one that was not heard of
        // would be taken for durable by the next flush.
        let all: Vec<_> = flushes
            .buffer_unordered(FILES_FLUSHED_AT_ONCE_MAX)
            .collect()
            .await;
        let failed = all.into_iter().filter_map(Result::err);
        // What leaves doubt counts before what may be asked again.
        if let Some(error) = failed.max_by_key(|error| !error.is_refusal()) {
            return Err(error);
        }
        if let Some(segment) = &self.unnamed {
            segment.name().await?;
        }
        if self.makes_names() {
            let synced = self.dir.sync().await;
            synced.map_err(|cause| disk_error(&self.dir, SYNC_DIRECTORY, "", cause))?;
        }
        Ok(Flushed {
            token: self.token,
            sealed: self.sealed,
            dir_changes: self.dir_changes,
            end: self.end,
            written: self.written,
        })
    }
}

impl Flush {
    /// Whether names of files are to be durable with it.
    fn makes_names(&self) -> bool {
        #[cfg(test)]
        if broken::is(Broken::NamesUnsynced) {
            return false;
        }
        self.dir_changes.is_some()
    }
}

impl Log {
    /// The file system that it lies on, as `stat` tells it.
    #[must_use]
    pub fn device(&self) -> u64 {
        self.dir.device()
    }

    /// Bytes written and not yet durable.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.written - self.flushed
    }

    /// Full segments that no flush has made durable yet.
    #[must_use]
    pub fn sealed(&self) -> usize {
        self.sealed.len()
    }

    /// Whether a flush has something to do, and what it says would be believed.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        let is_clean = self.written == self.flushed
            && self.dir_changes == self.dir_synced
            && self.sealed.is_empty();
        !is_clean && self.believed().is_ok()
    }

    /// What would make everything written so far durable; `None` where nothing is dirty, or a
    /// flush has failed. A failed write does not count: what was written before it is to be as
    /// durable as it would have been. Panics while an earlier flush has not ended: one at a time.
    #[must_use]
    pub fn flush(&self) -> Option<Flush> {
        assert_eq!(
            Rc::strong_count(&self.flush_token),
            1,
            "one flush of a log at a time"
        );
        if !self.is_dirty() {
            return None;
        }
        let mut dirty = self.sealed.clone();
        if self.last().end() > self.durable_end {
            dirty.push(Rc::clone(self.last()));
        }
        if self.will_owe_upkeep() && !self.producers.is_marked() {
            // What is known of producers now may be written once this has succeeded.
            self.producers.mark(self.end);
        }
        Some(Flush {
            token: Rc::clone(&self.flush_token),
            dir: Rc::clone(&self.dir),
            dirty,
            sealed: self.sealed.clone(),
            unnamed: (!self.last().is_named()).then(|| Rc::clone(self.last())),
            dir_changes: (self.dir_changes > self.dir_synced).then_some(self.dir_changes),
            end: self.end,
            written: self.written,
        })
    }

    /// Takes a finished flush back. An error poisons the log, unless it is a refusal
    /// ([`LogError::is_refusal`]): a file that could not be opened, or not be given its name. What was to
    /// be made durable is then still to be, by the next flush.
    ///
    /// # Errors
    /// The one that was brought, or that of an earlier flush.
    pub fn flushed(&mut self, result: Result<Flushed, LogError>) -> Result<(), LogError> {
        let flushed = match result {
            Ok(flushed) => flushed,
            Err(error) if error.is_refusal() => return Err(error),
            Err(error) => return Err(self.poison(error, Distrust::Flushes)),
        };
        assert!(
            Rc::ptr_eq(&flushed.token, &self.flush_token),
            "a flush returns to its own log"
        );
        self.believed()?;
        self.sealed
            .retain(|segment| !flushed.sealed.iter().any(|done| Rc::ptr_eq(done, segment)));
        self.unindexed.extend(flushed.sealed);
        self.dir_synced = self.dir_synced.max(flushed.dir_changes.unwrap_or_default());
        self.durable_end = self.durable_end.max(flushed.end);
        self.flushed = self.flushed.max(flushed.written);
        self.check();
        Ok(())
    }

    /// Flushes what there is to flush.
    pub(super) async fn flush_all(&mut self) -> Result<(), LogError> {
        if let Some(flush) = self.flush() {
            let flushed = flush.run().await;
            self.flushed(flushed)?;
        }
        Ok(())
    }
}
