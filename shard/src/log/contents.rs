//! What an opening finds in a log's directory beside the segments, in one go and on a blocking thread: the
//! device may hang, and checking a large file takes time.

use super::checkpoint::Checkpoint;
use super::crashes;
use super::error::{LogError, disk_error_in};
use super::failed::FAILED;
use super::generations::Generations;
use super::listing::{Listing, list};
use super::producers::{self, Loaded};
use crate::disk::{Calls, Dir};

/// See the module.
pub(super) struct Contents {
    pub(super) listing: Listing,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) generations: Option<Generations>,
    /// A write, a flush or the sync of a directory failed before.
    pub(super) is_failed: bool,
    /// The producer snapshot, unless all batches are read anyway and nothing says that it is of this log.
    pub(super) snapshot: Loaded,
}

impl Contents {
    /// Looks into `dir`.
    pub(super) async fn look(dir: &Dir) -> Result<Self, LogError> {
        dir.aside(Self::read).await
    }

    fn read(calls: &Calls<'_>) -> Result<Self, LogError> {
        crashes::judge(calls)?;
        let listing = list(calls)?;
        let checkpoint = Checkpoint::load(calls)?;
        let generations = Generations::load(calls)?;
        let failed = calls
            .size_of(FAILED)
            .map_err(|cause| disk_error_in(calls.path(), "read", FAILED, cause))?;
        let snapshot = if checkpoint.is_some() && generations.is_some() {
            producers::load(calls)?
        } else {
            Loaded::Nothing
        };
        Ok(Self {
            listing,
            checkpoint,
            generations,
            is_failed: failed.is_some(),
            snapshot,
        })
    }
}
