//! What went wrong with a file of the data directory, in a sentence that can be acted on.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Something that was tried with a file and did not work. Shown, it names the file, what was tried,
/// the cause and the cure.
#[derive(Debug)]
pub(crate) struct FileFault {
    doing: &'static str,
    path: PathBuf,
    cause: io::Error,
}

impl FileFault {
    /// `doing` completes "could not ...", and the path follows it.
    pub(crate) fn new(doing: &'static str, path: &Path, cause: io::Error) -> Self {
        Self {
            doing,
            path: path.to_owned(),
            cause,
        }
    }

    /// What the system calls it.
    #[must_use]
    pub(crate) fn kind(&self) -> ErrorKind {
        self.cause.kind()
    }

    /// Whether there was no space for it.
    #[must_use]
    pub(crate) fn is_full(&self) -> bool {
        felix_shard::disk::is_full(&self.cause)
    }

    fn cure(&self) -> &'static str {
        match self.cause.kind() {
            ErrorKind::PermissionDenied => "give the user that runs the broker the right to do so",
            ErrorKind::ReadOnlyFilesystem => {
                "mount its file system for writing (after a fault of the device the kernel makes \
                 it read-only by itself: see the kernel's log)"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room on its file system",
            ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                "something else has that name or one above it: move it away"
            }
            ErrorKind::NotFound => "is a disk not mounted, or does a link lead nowhere?",
            _ => "check the health of the device",
        }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (doing, path, cause) = (self.doing, self.path.display(), &self.cause);
        write!(f, "could not {doing} {path}: {cause}; {}", self.cure())
    }
}

impl Error for FileFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn each_cause_has_its_own_cure() {
        let sentence = |errno: Errno| {
            FileFault::new("write", Path::new("/data/state"), errno.into()).to_string()
        };
        for (errno, cure) in [
            (Errno::ROFS, "mount its file system for writing"),
            (Errno::NOSPC, "make room"),
            (Errno::DQUOT, "make room"),
            (Errno::ACCESS, "the right to do so"),
            (Errno::ISDIR, "move it away"),
            (Errno::NOENT, "a link lead nowhere"),
            (Errno::IO, "health of the device"),
        ] {
            let sentence = sentence(errno);
            assert!(sentence.starts_with("could not write /data/state: "));
            assert!(sentence.contains(cure), "{sentence}");
        }
        assert!(!sentence(Errno::ROFS).contains("the right to"));
    }
}
