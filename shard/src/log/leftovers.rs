//! Segments that were removed, and that a disk has brought back.
//!
//! Where the sync of a directory fails, the kernel may take for gone what the device still has, and
//! no later sync says so. A segment that an opening dropped as behind a cut is then there again
//! after a power loss, in the middle of what was written since.

use super::error::LogError;
use super::recovery::Recoverer;
use super::segment::Segment;
use super::verify::{Verified, verified};
use super::walk::Walk;
use crate::disk::Patience;
use felix_core::Offset;
use felix_core::batch::HEADER_BYTES;

impl Recoverer {
    /// Removes those of the next segments that lie within the one before, which was read and found
    /// whole up to `end`, and that cannot be of this log; the others.
    ///
    /// What was dropped at an opening has older generations than what was written since, and the
    /// generation table says which wrote at an offset.
    pub(super) async fn without_leftovers<'a>(
        &mut self,
        mut next: &'a [Offset],
        end: Offset,
    ) -> Result<&'a [Offset], LogError> {
        while let Some((base, rest)) = next.split_first() {
            if *base >= end || self.is_owed(*base).await? {
                break;
            }
            tracing::warn!(
                dir = %self.dir.path().display(),
                base = base.get(),
                "a segment that was removed before is there again, and is removed"
            );
            self.remove_segment(*base).await?;
            next = rest;
        }
        Ok(next)
    }

    /// Whether the segment begins as one of this log: what stands there is whole, and of the
    /// generation that wrote at its offset.
    async fn is_owed(&self, base: Offset) -> Result<bool, LogError> {
        let Some(generation) = self.generations.as_ref().and_then(|table| table.at(base)) else {
            return Ok(true);
        };
        let segment = Segment::open(&self.dir, base, self.config.index_interval_bytes).await?;
        let size = segment.log().size(Patience::Wait).await;
        let size = size.map_err(|cause| segment.disk_error("measure", None, cause))?;
        let mut walk = Walk::over(&segment, 0, size, HEADER_BYTES, Patience::Wait);
        let first = verified(&segment, &mut walk, base, Some(generation)).await?;
        Ok(matches!(first, Verified::Batch(_)))
    }
}
