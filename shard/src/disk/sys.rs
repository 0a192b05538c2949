//! The raw calls that neither the standard library nor the executor offers, each behind a safe
//! function.

use bytes::{BufMut, BytesMut};
use glommio::io::BufferedFile;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reads up to `bytes_max` bytes at `position` to the end of `into`, from the page cache only
/// (`preadv2` with `RWF_NOWAIT`). 0: the end of the file.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] where the first byte would have to come from the device.
pub(super) fn read_cached(
    file: &File,
    into: &mut BytesMut,
    position: u64,
    bytes_max: usize,
) -> io::Result<usize> {
    into.reserve(bytes_max);
    let position = libc::off64_t::try_from(position).map_err(io::Error::other)?;
    let space = into.spare_capacity_mut();
    let part = libc::iovec {
        iov_base: space.as_mut_ptr().cast(),
        iov_len: bytes_max.min(space.len()),
    };
    #[expect(unsafe_code, reason = "preadv2 has no safe wrapper in std")]
    // SAFETY: `part` describes the spare capacity of `into`, which is ours to write and outlives
    // the call; the descriptor is open as long as `file` is borrowed.
    let read = unsafe {
        libc::preadv2(
            file.as_raw_fd(),
            &raw const part,
            1,
            position,
            libc::RWF_NOWAIT,
        )
    };
    let Ok(read) = usize::try_from(read) else {
        let error = io::Error::last_os_error();
        // A file system that cannot answer without blocking says EOPNOTSUPP: same advice.
        return Err(match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => io::ErrorKind::WouldBlock.into(),
            Some(_) | None => error,
        });
    };
    assert!(read <= bytes_max);
    #[expect(
        unsafe_code,
        reason = "marks the bytes the kernel wrote as part of the buffer"
    )]
    // SAFETY: the kernel has filled that many bytes of the spare capacity.
    unsafe {
        into.advance_mut(read);
    }
    Ok(read)
}

/// Has the kernel begin to write these bytes to the device (`sync_file_range`). Does not say whether
/// it could: an error that it met is kept for the next flush, and a file system that knows no such
/// call writes when it pleases.
pub(super) fn begin_write_back(file: &File, position: u64, bytes: u64) {
    let (Ok(position), Ok(bytes)) = (
        libc::off64_t::try_from(position),
        libc::off64_t::try_from(bytes),
    ) else {
        return;
    };
    #[expect(unsafe_code, reason = "sync_file_range has no safe wrapper in std")]
    // SAFETY: the descriptor is open as long as `file` is borrowed; no memory is passed.
    let _kept_for_the_flush = unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            position,
            bytes,
            libc::SYNC_FILE_RANGE_WRITE,
        )
    };
}

/// Makes a new, empty file without opening it (`mknod`).
///
/// # Errors
/// It exists already, the file system knows no such call, or the system's own fault.
pub(super) fn make_empty(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    #[expect(unsafe_code, reason = "mknod has no safe wrapper in std")]
    // SAFETY: the path ends with a zero byte and outlives the call.
    let made = unsafe { libc::mknod(path.as_ptr(), libc::S_IFREG | 0o666, 0) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A file as the executor's ring knows it. Must be called on an executor's thread.
pub(super) fn to_ring(file: File) -> BufferedFile {
    let descriptor = file.into_raw_fd();
    #[expect(
        unsafe_code,
        reason = "takes over the descriptor of a file the standard library opened"
    )]
    // SAFETY: the descriptor was just given up by its owner, so the ring's file is its only one.
    unsafe {
        BufferedFile::from_raw_fd(descriptor)
    }
}

/// The same file as the standard library knows it, for calls that do not wait. It never closes the
/// descriptor: the caller keeps `ring` for as long.
pub(super) fn view(ring: &BufferedFile) -> ManuallyDrop<File> {
    #[expect(unsafe_code, reason = "one descriptor, seen by std and by the ring")]
    // SAFETY: the descriptor is open, and `ManuallyDrop` leaves closing it to `ring`.
    let file = unsafe { File::from_raw_fd(ring.as_raw_fd()) };
    ManuallyDrop::new(file)
}

/// Asks the kernel to drop what it holds of the file in memory.
#[cfg(test)]
pub(super) fn evict(file: &File) {
    #[expect(unsafe_code, reason = "posix_fadvise has no safe wrapper in std")]
    // SAFETY: the descriptor is open as long as `file` is borrowed; no memory is passed.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0);
}
