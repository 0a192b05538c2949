//! The directory of the logs, which one broker at a time owns.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The data directory, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    // The kernel lets go of the lock with the process, so that a killed broker leaves none behind.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if need be and takes its lock.
    ///
    /// # Errors
    /// A sentence: it cannot be made or written, or another broker has it.
    pub(crate) fn lock(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let fault = |error: io::Error| {
            format!(
                "the data directory {shown} cannot be used: {error}; give the user that runs the \
                 broker the right to write there, or set FELIX_DURABLE_STORAGE_DIR to another"
            )
        };
        fs::create_dir_all(path).map_err(fault)?;
        let path = fs::canonicalize(path).map_err(fault)?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(lock_path)
            .map_err(fault)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(format!(
                "the data directory {shown} belongs to a broker that is running; stop that one, \
                 or set FELIX_DURABLE_STORAGE_DIR to another directory"
            )),
            Err(error) => Err(fault(error.into())),
        }
    }

    /// Where it is, as an absolute path.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file's text; `None`: there is no such file.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.path.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a file in place whole or not at all, and on the device before it returns.
    ///
    /// # Errors
    /// It cannot be written; the old one stands.
    pub(crate) fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let fresh = self.path.join(format!("{name}.new"));
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, self.path.join(name))?;
        File::open(&self.path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data");
        let first = DataDir::lock(&path).unwrap();
        let sentence = DataDir::lock(&path).unwrap_err();
        assert!(sentence.contains("a broker that is running"), "{sentence}");
        drop(first);
        DataDir::lock(&path).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_refused_with_the_cure() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "").unwrap();
        let sentence = DataDir::lock(&file.join("data")).unwrap_err();
        assert!(sentence.contains("FELIX_DURABLE_STORAGE_DIR"), "{sentence}");
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        assert_eq!(data.read("state").unwrap(), None);
        data.replace("state", "one").unwrap();
        data.replace("state", "two").unwrap();
        assert_eq!(data.read("state").unwrap().as_deref(), Some("two"));
        assert!(!temp.path().join("state.new").exists());
    }
}
