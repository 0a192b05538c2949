//! Files of next segments that a crash left without names of their own.

use super::error::LogError;
use super::recovery::disk_error;
use super::segment::log_name;
use super::verify::occupied_in;
use crate::disk::{Dir, File, Patience};
use felix_core::Offset;
use felix_core::batch::{HEADER_BYTES, Header};
use std::io;

/// What became of such files.
#[derive(Default)]
pub(super) struct Settled {
    /// Files that no segment of the log has begun in: to be removed once the log is known to be whole.
    pub(super) unused: Vec<String>,
    /// Bytes in them up to the last that is not zero: of batches whose first was torn.
    pub(super) dropped_bytes: u64,
}

/// Gives a file that a segment has begun in the name of that segment, and adds it to `bases`.
/// Removes nothing: a log that is refused keeps all that may tell why. Its first batch says where
/// it begins. That it belongs there, as the segment after all others, is judged like that of any
/// other segment.
pub(super) async fn settle(
    dir: &Dir,
    names: &[String],
    bases: &mut Vec<Offset>,
) -> Result<Settled, LogError> {
    let mut settled = Settled::default();
    for name in names {
        let failed = |doing, cause| disk_error(dir, doing, name, cause);
        let Some(file) = dir.open_file(name).await.map_err(|e| failed("open", e))? else {
            continue;
        };
        let begun = begun_at(&file).await.map_err(|e| failed("read", e))?;
        match begun.filter(|base| bases.last().is_none_or(|last| last < base)) {
            Some(base) => {
                let (from, to) = (name.clone(), log_name(base));
                let named = dir.aside(move |calls| calls.rename(&from, &to)).await;
                named.map_err(|cause| failed("rename", cause))?;
                bases.push(base);
            }
            None => {
                let bytes = occupied_in(&file, 0).await;
                settled.dropped_bytes += bytes.map_err(|e| failed("read", e))?;
                settled.unused.push(name.clone());
            }
        }
    }
    Ok(settled)
}

/// Where the segment begins that has begun in the file; `None`: there is none, or its first batch was
/// torn, and then what is there was never flushed.
async fn begun_at(file: &File) -> io::Result<Option<Offset>> {
    let bytes = file.read(0, HEADER_BYTES, Patience::Wait).await?;
    let header = Header::read(&bytes).ok();
    Ok(header.and_then(|header| Offset::from_wire(header.base_offset)))
}
