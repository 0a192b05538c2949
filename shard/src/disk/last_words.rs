//! Writing a little when the process is about to end: on any thread, whatever state it is in.

use super::regular;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Adds `bytes` to the end of the file `path`, which is made where it is missing. One that would then
/// be longer than `bytes_max` is emptied first.
///
/// # Errors
/// The disk's own fault; part of the bytes may be there.
pub(crate) fn add_to_file(path: &Path, bytes: &[u8], bytes_max: u64) -> io::Result<()> {
    let mut file = regular::open_with(OpenOptions::new().append(true).create(true), path)?;
    if file.metadata()?.len() + bytes.len() as u64 > bytes_max {
        file.set_len(0)?;
    }
    file.write_all(bytes)
}
