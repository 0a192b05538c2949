//! What a system says that has not begun with what it was asked for: nothing is in doubt because of it.

use std::io;

/// Whether it was space that was missing: a disk that is full, or a quota that is used up.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Whether the process, or the system, has as many files open as it may. Only what opens a file is told
/// so, and then it was not opened.
#[must_use]
pub fn is_out_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_is_used_up_is_a_lack_of_space_and_a_broken_device_is_none() {
        let error = io::Error::from_raw_os_error;
        assert!(is_full(&error(libc::ENOSPC)));
        assert!(is_full(&error(libc::EDQUOT)));
        assert!(!is_full(&error(libc::EIO)));
    }

    #[test]
    fn a_limit_of_open_files_is_that_of_the_process_or_of_the_system() {
        let error = io::Error::from_raw_os_error;
        assert!(is_out_of_files(&error(libc::EMFILE)));
        assert!(is_out_of_files(&error(libc::ENFILE)));
        assert!(!is_out_of_files(&error(libc::ENOSPC)));
        assert!(!is_out_of_files(&error(libc::EIO)));
    }
}
