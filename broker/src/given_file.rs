//! Small files that the operator names: read with a bound, and only where they are files.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Permission for everybody to read a file.
const READABLE_BY_OTHERS: u32 = 0o004;

/// Why what a file says is not put in force: a sentence that names the file, its setting and the
/// cure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum GivenFault {
    /// The system did not let it be read. That may pass without the file changing.
    Unread(String),
    /// It is no good, and stays so until it changes.
    Refused(String),
}

impl fmt::Display for GivenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(sentence) | Self::Refused(sentence) => f.write_str(sentence),
        }
    }
}

impl From<GivenFault> for String {
    fn from(fault: GivenFault) -> Self {
        match fault {
            GivenFault::Unread(sentence) | GivenFault::Refused(sentence) => sentence,
        }
    }
}

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The setting that names it.
    pub(crate) variable: &'static str,
    /// What it is to be, with its article.
    pub(crate) what: &'static str,
    /// Bytes it may have. Whoever names a device or a log by mistake is to notice.
    pub(crate) bytes_max: u64,
}

impl Wanted {
    /// Reads such a file. Links are followed.
    ///
    /// # Errors
    /// It cannot be read, is no regular file, or has too many bytes.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, GivenFault> {
        let Self {
            variable,
            what,
            bytes_max,
        } = self;
        let named = format!("{variable}: {}", path.display());
        let unread = |error: io::Error| {
            GivenFault::Unread(format!(
                "{named} cannot be read: {error}; name {what} that the user of the broker may read"
            ))
        };
        // A pipe that nobody writes to would be waited for at its opening.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path).map_err(unread)?;
        if !file.metadata().map_err(unread)?.is_file() {
            return Err(GivenFault::Refused(format!(
                "{named} is no regular file; name {what}"
            )));
        }
        let mut bytes = Vec::new();
        let mut bounded = file.take(bytes_max + 1);
        bounded.read_to_end(&mut bytes).map_err(unread)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= *bytes_max) {
            return Ok(bytes);
        }
        Err(GivenFault::Refused(format!(
            "{named} has more than {bytes_max} bytes, which is too much for {what}; name another"
        )))
    }
}

/// Whether everybody on the machine may read it.
#[must_use]
pub(crate) fn is_readable_by_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.mode() & READABLE_BY_OTHERS != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    const WANTED: Wanted = Wanted {
        variable: "FELIX_A_FILE",
        what: "a small file",
        bytes_max: 10,
    };

    fn refused(path: &Path) -> String {
        match WANTED.read(path) {
            Err(GivenFault::Refused(sentence)) => sentence,
            other => panic!("{}: {other:?}", path.display()),
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_and_through_links() {
        let home = tempfile::tempdir().unwrap();
        let (path, link) = (home.path().join("file"), home.path().join("link"));
        symlink(&path, &link).unwrap();
        for bytes in [0, 10] {
            fs::write(&path, vec![b'x'; bytes]).unwrap();
            assert_eq!(WANTED.read(&link), Ok(vec![b'x'; bytes]));
        }
        fs::write(&path, [b'x'; 11]).unwrap();
        let sentence = refused(&link);
        assert!(sentence.contains("more than 10 bytes"), "{sentence}");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once_with_its_setting() {
        let home = tempfile::tempdir().unwrap();
        let (pipe, link) = (home.path().join("pipe"), home.path().join("link"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink(&pipe, &link).unwrap();
        for path in [&pipe, &link, Path::new("/dev/zero"), home.path()] {
            let sentence = refused(path);
            let named = format!("FELIX_A_FILE: {} is no regular file", path.display());
            assert!(sentence.starts_with(&named), "{sentence}");
        }
    }

    #[test]
    fn what_the_system_keeps_from_us_may_pass() {
        let fault = WANTED.read(Path::new("/nowhere/file")).unwrap_err();
        assert!(matches!(fault, GivenFault::Unread(_)), "{fault:?}");
    }
}
