//! Files of next segments that a crash left without names of their own.

use super::error::LogError;
use super::recovery::disk_error;
use super::segment::log_name;
use crate::disk::{Dir, Patience};
use felix_core::Offset;
use felix_core::batch::{HEADER_BYTES, Header};

/// Gives a file that a segment has begun in the name of that segment, and adds it to `bases`; removes
/// the others. Its first batch says where it begins. That it belongs there, as the segment after
/// all others, is judged like that of any other segment. How many were removed.
pub(super) async fn settle(
    dir: &Dir,
    names: &[String],
    bases: &mut Vec<Offset>,
) -> Result<u32, LogError> {
    let mut count = 0;
    for name in names {
        let begun = begun_at(dir, name).await?;
        match begun.filter(|base| bases.last().is_none_or(|last| last < base)) {
            Some(base) => {
                let named = dir.rename(name, &log_name(base));
                named.map_err(|cause| disk_error(dir, "rename", name, cause))?;
                bases.push(base);
            }
            None => {
                let removed = dir.remove_file(name);
                removed.map_err(|cause| disk_error(dir, "remove", name, cause))?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Where the segment begins that has begun in the file; `None`: there is none, or its first batch was
/// torn, and then nobody was told of any.
async fn begun_at(dir: &Dir, name: &str) -> Result<Option<Offset>, LogError> {
    let read = |cause| disk_error(dir, "read", name, cause);
    let Some(file) = dir.open_file(name).await.map_err(read)? else {
        return Ok(None);
    };
    let bytes = file
        .read(0, HEADER_BYTES, Patience::Wait)
        .await
        .map_err(read)?;
    let header = Header::read(&bytes).ok();
    Ok(header.and_then(|header| Offset::from_wire(header.base_offset)))
}
