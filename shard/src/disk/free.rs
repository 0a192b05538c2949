//! What is free on a file system.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How much of a file system is kept free, whatever is asked for: at most one in so many bytes of
/// it. A small one would else take nothing at all.
const KEPT_FREE_SHARE: u64 = 20;

/// What the system says of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Free {
    /// Bytes that whoever is not root may still use.
    pub free_bytes: u64,
    /// All its bytes.
    pub all_bytes: u64,
}

impl Free {
    /// Bytes to be kept free where so many are asked for.
    #[must_use]
    pub fn kept(&self, bytes: u64) -> u64 {
        bytes.min(self.all_bytes / KEPT_FREE_SHARE)
    }

    /// Asks the system about the file system of `path` (`statvfs`). May wait as long as that does.
    ///
    /// # Errors
    /// There is no such path, or the system's own fault.
    pub fn of(path: &Path) -> io::Result<Self> {
        #[cfg(test)]
        if let Some(disk) = super::memory::current() {
            return Ok(disk.free());
        }
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut found = MaybeUninit::<libc::statvfs>::uninit();
        #[expect(unsafe_code, reason = "statvfs has no safe wrapper in std")]
        // SAFETY: the path ends with a zero byte and outlives the call, and `found` is ours to
        // write.
        let result = unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        #[expect(unsafe_code, reason = "the system has filled it")]
        // SAFETY: the call has succeeded, and then it has written all of it.
        let found = unsafe { found.assume_init() };
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Self {
            free_bytes: bytes(found.f_bavail),
            all_bytes: bytes(found.f_blocks),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_has_bytes_and_a_path_that_is_not_there_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let free = Free::of(dir.path()).unwrap();
        assert!(0 < free.free_bytes && free.free_bytes <= free.all_bytes);
        let missing = Free::of(&dir.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
