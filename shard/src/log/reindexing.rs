//! Index files at an opening: they are derived from the batches, and made anew where they differ.

use super::error::LogError;
use super::recovery::Recoverer;
use super::segment::{Segment, index_name, time_index_name};

impl Recoverer {
    /// Makes the index files of a segment that was read whole what they should be.
    pub(super) async fn put_indexes(
        &mut self,
        segment: &Segment,
        is_full: bool,
    ) -> Result<(), LogError> {
        if is_full {
            segment.seal();
            if self.indexes_differ(segment).await? {
                segment.save_indexes().await?;
            }
            segment.forget_indexes();
        } else {
            // The last segment goes on growing with its indexes in memory. Files of an earlier
            // closing would only be in the way.
            self.indexes_differ(segment).await?;
            for name in [index_name(segment.base()), time_index_name(segment.base())] {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Whether the index files differ from what the segment's batches say; counted.
    async fn indexes_differ(&mut self, segment: &Segment) -> Result<bool, LogError> {
        let Some((offsets, times)) = segment.index_bytes().await else {
            return Ok(false);
        };
        let base = segment.base();
        let mut wrong = 0;
        for (name, bytes) in [(index_name(base), offsets), (time_index_name(base), times)] {
            // A file of another size is wrong, whatever it holds, and may be of any size.
            let found = match self.dir.size_of(&name) {
                Ok(size) if size != Some(bytes.len() as u64) => Ok(None),
                Ok(_) => self.dir.load(&name),
                Err(cause) => Err(cause),
            };
            let found = found.map_err(|cause| self.disk("read", &name, cause))?;
            wrong += u32::from(found.is_none_or(|found| found != bytes));
        }
        self.recovery.rebuilt_indexes += wrong;
        Ok(wrong > 0)
    }
}
