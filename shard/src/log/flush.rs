//! Making what is written durable.

use super::error::LogError;
use super::segment::Segment;
use crate::disk::Dir;
use felix_core::Offset;
use futures_util::future::try_join_all;
use std::rc::Rc;

/// A flush to be awaited without holding the log. One at a time per log: the kernel reports a
/// failed write-back to one flush only, so a second could take a loss for success.
#[derive(Debug)]
#[must_use]
pub struct Flush {
    /// Held by the log too, which so knows that a flush is under way.
    pub(super) token: Rc<()>,
    pub(super) dir: Rc<Dir>,
    /// The segments with batches that are not durable.
    pub(super) dirty: Vec<Rc<Segment>>,
    /// Those of them that are full.
    pub(super) sealed: Vec<Rc<Segment>>,
    /// Set where files appeared: the count of such changes that this flush covers.
    pub(super) dir_changes: Option<u64>,
    /// The log end it covers.
    pub(super) end: Offset,
    /// The bytes ever written that it covers.
    pub(super) written: u64,
}

/// What a flush made durable.
#[derive(Debug)]
pub struct Flushed {
    pub(super) token: Rc<()>,
    pub(super) sealed: Vec<Rc<Segment>>,
    pub(super) dir_changes: Option<u64>,
    pub(super) end: Offset,
    pub(super) written: u64,
}

impl Flush {
    /// Does it: `fdatasync` of the dirty segments on the ring, all at once; then, where a file was
    /// made, the directory on a blocking thread. Index files and checkpoint follow by
    /// [`super::Indexing`], for no record waits for them.
    ///
    /// # Errors
    /// The disk's own fault. It is to be brought back by [`super::Log::flushed`] all the same.
    pub async fn run(self) -> Result<Flushed, LogError> {
        try_join_all(self.dirty.iter().map(|segment| segment.flush())).await?;
        if self.dir_changes.is_some() {
            self.dir.sync().await.map_err(|cause| LogError::Disk {
                dir: self.dir.path().to_owned(),
                file: String::new(),
                position: None,
                doing: "sync the directory",
                cause,
            })?;
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
