//! An empty file that says that a write or a flush failed: the kernel then takes pages for clean that
//! never reached the device. It need not be durable, since a power loss ends that lie too.

use super::error::LogError;
use super::recovery::disk_error;
use crate::disk::{self, Dir};
use std::io;
use std::path::Path;
use std::rc::Rc;

/// Its name.
pub(super) const FAILED: &str = "failed";

/// Word of a failure for the next opening, to be left without holding the log: the device that has just
/// failed may hang next.
#[derive(Debug)]
#[must_use]
pub struct FailureNote {
    dir: Rc<Dir>,
}

impl FailureNote {
    pub(super) fn new(dir: &Rc<Dir>) -> Self {
        Self {
            dir: Rc::clone(dir),
        }
    }

    /// Leaves it, as far as the disk still takes it. It takes no descriptor, since there may be none left.
    pub async fn leave(self) {
        match self.dir.mark(FAILED).await {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => tracing::error!(
                dir = %self.dir.path().display(),
                %cause,
                "the failure could not be noted: restart this machine, not only the broker"
            ),
            Ok(_) | Err(_) => {}
        }
    }
}

/// Whether the log in that directory has it.
pub(crate) fn is_failed(dir: &Path) -> bool {
    !disk::is_gone(&dir.join(FAILED))
}

/// What failed is made up for: the next opening need not know of it.
pub(super) async fn forget_failed(dir: &Dir) -> Result<(), LogError> {
    let removed = dir.discard_file(FAILED).await;
    removed.map_err(|cause| disk_error(dir, "remove", FAILED, cause))
}
