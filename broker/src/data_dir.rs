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
        make(path).map_err(fault)?;
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

    /// Puts a file in place whole or not at all, and on the device before it returns. One that has
    /// this text already is left alone.
    ///
    /// # Errors
    /// It cannot be written; the old one stands.
    pub(crate) fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        if self
            .read(name)
            .is_ok_and(|old| old.as_deref() == Some(text))
        {
            // Whoever put it there may have been killed before it was in the directory for good.
            return sync(&self.path);
        }
        let fresh = self.path.join(format!("{name}.new"));
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, self.path.join(name))?;
        sync(&self.path)
    }
}

/// Makes a directory and what is missing above it, from the top down, each on the device before the
/// next is made. One that is there is synced as well: whoever made it may have been killed before.
///
/// # Errors
/// It cannot be made, or there is something else of that name.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    make_with(path, &mut sync)
}

fn make_with(path: &Path, sync: &mut impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        // The root of all has always been there.
        None => return Ok(()),
    };
    let made = match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_with(parent, sync)?;
            fs::create_dir(path)
        }
        made => made,
    };
    match made {
        Ok(()) => sync(parent),
        Err(_) if path.is_dir() => match sync(parent) {
            // A directory that may not be looked into was made by somebody else.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        },
        Err(error) => Err(error),
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
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

    #[test]
    fn a_file_is_not_written_again_for_nothing() {
        use std::os::unix::fs::MetadataExt;
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let number = || fs::metadata(temp.path().join("state")).unwrap().ino();
        data.replace("state", "one").unwrap();
        let first = number();
        data.replace("state", "one").unwrap();
        assert_eq!(number(), first);
        data.replace("state", "two").unwrap();
        assert_ne!(number(), first);
    }

    #[test]
    fn directories_are_made_from_the_top_each_on_the_device_before_the_next() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        let synced = |path: &Path| {
            let mut synced = Vec::new();
            let noted = make_with(path, &mut |directory| {
                let there = fs::read_dir(directory).unwrap().count();
                synced.push((directory.to_owned(), there));
                Ok(())
            });
            noted.unwrap();
            synced
        };
        let above = temp.path().parent().unwrap().to_owned();
        let first = synced(&path);
        let expected = [(temp.path().to_owned(), 1), (temp.path().join("a"), 1)];
        assert_eq!(first, expected);
        assert_eq!(
            synced(&path),
            expected[1..],
            "its maker may not have come to it"
        );
        let again = synced(temp.path());
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].0, above);
        make(Path::new("/")).unwrap();
        make(Path::new(".")).unwrap();
    }
}
