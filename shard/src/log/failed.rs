//! An empty file that says that a write or a flush failed: the kernel then takes pages for clean that
//! never reached the device. It need not be durable, since a power loss ends that lie too.

use super::error::LogError;
use super::recovery::disk_error;
use crate::disk::{self, Dir};
use std::io;
use std::path::Path;

/// Its name.
pub(super) const FAILED: &str = "failed";

/// Whether the log in that directory has it.
pub(crate) fn is_failed(dir: &Path) -> bool {
    !disk::is_gone(&dir.join(FAILED))
}

/// Leaves it for the next opening, as far as the disk still takes it. It takes no descriptor, since there
/// may be none left.
pub(super) fn leave_failed(dir: &Dir) {
    match dir.mark(FAILED) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => tracing::error!(
            dir = %dir.path().display(),
            %cause,
            "the failure could not be noted: restart this machine, not only the broker"
        ),
        Ok(_) | Err(_) => {}
    }
}

/// What failed is made up for: the next opening need not know of it.
pub(super) fn forget_failed(dir: &Dir) -> Result<(), LogError> {
    let removed = dir.remove_file(FAILED);
    removed.map_err(|cause| disk_error(dir, "remove", FAILED, cause))
}
