//! Index files at an opening: they are derived from the batches, and made anew where they differ.

use super::error::LogError;
use super::recovery::Recoverer;
use super::segment::{Segment, index_name, time_index_name};
use crate::disk::Calls;
use std::io;

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
                self.remove(&name).await?;
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
        let files = [(index_name(base), offsets), (time_index_name(base), times)];
        let compare = move |calls: &Calls<'_>| -> Result<u32, (String, io::Error)> {
            let mut wrong = 0;
            for (name, bytes) in files {
                match holds(calls, &name, &bytes) {
                    Ok(holds) => wrong += u32::from(!holds),
                    Err(cause) => return Err((name, cause)),
                }
            }
            Ok(wrong)
        };
        let compared = self.dir.aside(compare).await;
        let wrong = compared.map_err(|(name, cause)| self.disk("read", &name, cause))?;
        self.recovery.rebuilt_indexes += wrong;
        Ok(wrong > 0)
    }
}

/// Whether that is what the file holds. One of another size does not, whatever it holds, and may be of
/// any size.
fn holds(calls: &Calls<'_>, name: &str, bytes: &[u8]) -> io::Result<bool> {
    let is_as_long = calls.size_of(name)? == Some(bytes.len() as u64);
    Ok(is_as_long && calls.load(name)?.is_some_and(|found| found == bytes))
}
