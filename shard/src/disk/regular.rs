//! Files that have to be regular ones. A FIFO that has a log's name would keep whoever opens it waiting
//! for somebody to write to it, for ever.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens the file at `path`, which is there, for reading.
///
/// # Errors
/// It is no regular file, or the system's own fault.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Opens it in another way. Not for the ring, to which the flag that keeps this from waiting would say
/// never to wait for the device.
pub(super) fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// The whole of a file.
///
/// # Errors
/// As [`open`].
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether that is a regular file.
///
/// # Errors
/// It is not.
pub(crate) fn check(kind: FileType) -> io::Result<()> {
    let found = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let sentence = format!("it is {found} and not a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, sentence))
}

/// Whether an error is that of [`check`].
pub(crate) fn is_other_kind(error: &io::Error) -> bool {
    // EINVAL of a system call has the same kind.
    error.kind() == io::ErrorKind::InvalidInput && error.raw_os_error().is_none()
}
