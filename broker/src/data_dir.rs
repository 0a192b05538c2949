//! The directory of the logs, which one broker at a time owns.

use crate::file_fault::FileFault;
use felix_shard::disk::Reserve;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The data directory, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    // The directory itself: a file in it could be removed, and its lock with it. The kernel lets go
    // of the lock with the process, so that a killed broker leaves none behind.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if need be and takes its lock.
    ///
    /// # Errors
    /// A sentence: it cannot be made or opened, or another broker has it.
    pub(crate) fn lock(path: &Path) -> Result<Self, String> {
        let unusable = |fault: FileFault| {
            format!(
                "the data directory cannot be used: {fault}; or set FELIX_DURABLE_STORAGE_DIR to \
                 another directory"
            )
        };
        make(path).map_err(unusable)?;
        let open = |path: &Path| {
            let path = fs::canonicalize(path)?;
            Ok((File::open(&path)?, path))
        };
        let (lock, path) =
            open(path).map_err(|cause: io::Error| unusable(FileFault::new("open", path, cause)))?;
        let shown = path.display();
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(format!(
                "the data directory {shown} belongs to a broker that is running; stop that one, \
                 or set FELIX_DURABLE_STORAGE_DIR to another directory"
            )),
            Err(error) => Err(format!(
                "the data directory {shown} cannot be locked: {}; its file system has to lock \
                 directories, as local ones do: set FELIX_DURABLE_STORAGE_DIR to a directory on \
                 another",
                io::Error::from(error)
            )),
        }
    }

    /// Where it is, as an absolute path.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file's bytes; `None`: there is no such file.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FileFault> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            // A link that leads nowhere is no file that was never there.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
            Err(cause) => Err(FileFault::new("read", &path, cause)),
        }
    }

    /// Puts a file in place whole or not at all, and on the device before it returns. One that has
    /// this text already is left alone.
    ///
    /// # Errors
    /// It cannot be written; the old one stands.
    pub(crate) fn replace(&self, name: &str, text: &str) -> Result<(), FileFault> {
        let old = self.read(name);
        if old.is_ok_and(|old| old.as_deref() == Some(text.as_bytes())) {
            // Whoever put it there may have been killed before it was in the directory for good.
            return sync(&self.path);
        }
        let path = self.path.join(name);
        match put(&path, ".new", text.as_bytes()) {
            // What is on the disk is to be served all the same.
            Err(fault) if fault.is_full() && self.give_up_reserve() => {
                put(&path, ".new", text.as_bytes())?;
            }
            placed => placed?,
        }
        sync(&self.path)
    }

    /// Puts a file in place that only the broker's user may read, on the device before it returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn put_secret(&self, name: &str, text: &str) -> Result<(), FileFault> {
        put_for(
            Readers::Owner,
            &self.path.join(name),
            ".new",
            text.as_bytes(),
        )?;
        sync(&self.path)
    }

    /// Puts back what there is space for of a reserve that was given up. All logs are closed.
    pub(crate) fn put_reserve_back(&self) {
        if let Err(error) = Reserve::of(&self.path).put_back() {
            tracing::warn!(%error, "the next start has no reserve if the disk is full then");
        }
    }

    /// Whether there was a reserve, and the space it took is free now.
    fn give_up_reserve(&self) -> bool {
        let given_up = Reserve::of(&self.path).give_up();
        if let Ok(true) = given_up {
            tracing::warn!("the disk is full: the reserve is given up for the catalog's state");
        }
        given_up.unwrap_or(false)
    }
}

/// Puts a file in place whole or not at all, by way of one with `ending` behind its name. It is
/// there for good once its directory is synced.
///
/// # Errors
/// It cannot be written; an old one stands.
pub(crate) fn put(path: &Path, ending: &str, bytes: &[u8]) -> Result<(), FileFault> {
    put_for(Readers::All, path, ending, bytes)
}

/// Who may read a file that is put in place, as far as the umask lets them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Readers {
    All,
    Owner,
}

impl Readers {
    fn mode(self) -> u32 {
        match self {
            Self::All => 0o666,
            Self::Owner => 0o600,
        }
    }
}

fn put_for(readers: Readers, path: &Path, ending: &str, bytes: &[u8]) -> Result<(), FileFault> {
    let create = |path: &Path| {
        let mut options = File::options();
        options.write(true).create_new(true).mode(readers.mode());
        options.open(path)
    };
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(ending);
    let fresh = PathBuf::from(fresh);
    let created = match create(&fresh) {
        // What a crash left, or a link that would have us write elsewhere.
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&fresh).map_err(|cause| FileFault::new("remove", &fresh, cause))?;
            create(&fresh)
        }
        created => created,
    };
    let write = || {
        let mut file = created?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    let placed = match write() {
        Err(cause) => Err(FileFault::new("write", &fresh, cause)),
        Ok(()) => fs::rename(&fresh, path).map_err(|cause| FileFault::new("replace", path, cause)),
    };
    if placed.is_err() {
        // It would only take up space, which may be what there is none of.
        drop(fs::remove_file(&fresh));
    }
    placed
}

/// Makes a directory and what is missing above it, from the top down, each on the device before the
/// next is made. One that is there is synced as well: whoever made it may have been killed before.
///
/// # Errors
/// It cannot be made, or there is something else of that name.
pub(crate) fn make(path: &Path) -> Result<(), FileFault> {
    make_with(path, &mut sync)
}

fn make_with(
    path: &Path,
    sync: &mut impl FnMut(&Path) -> Result<(), FileFault>,
) -> Result<(), FileFault> {
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
        // Where a file system is mounted, the name is not ours to make durable.
        Err(_) if path.is_dir() && is_mounted(path, parent) => Ok(()),
        Err(_) if path.is_dir() => match sync(parent) {
            // A directory that may not be looked into was made by somebody else.
            Err(fault) if fault.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        },
        Err(cause) => Err(FileFault::new("make the directory", path, cause)),
    }
}

fn is_mounted(path: &Path, parent: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
    device(path) != device(parent)
}

/// Commits the names in a directory.
///
/// # Errors
/// The disk's own fault.
pub(crate) fn sync(directory: &Path) -> Result<(), FileFault> {
    File::open(directory)
        .and_then(|opened| opened.sync_all())
        .map_err(|cause| FileFault::new("sync the directory", directory, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_system_is_mounted_on_is_not_synced() {
        let mut synced = Vec::new();
        make_with(Path::new("/proc"), &mut |path| {
            synced.push(path.to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(synced, Vec::<PathBuf>::new());
    }

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data");
        let first = DataDir::lock(&path).unwrap();
        let sentence = DataDir::lock(&path).unwrap_err();
        assert!(sentence.contains("a broker that is running"), "{sentence}");
        // Whatever is removed from it, it is the same directory.
        for entry in fs::read_dir(&path).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        fs::write(path.join("lock"), "").unwrap();
        fs::remove_file(path.join("lock")).unwrap();
        DataDir::lock(&path).unwrap_err();
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
        assert_eq!(data.read("state").unwrap().as_deref(), Some(&b"two"[..]));
        assert!(!temp.path().join("state.new").exists());
    }

    #[test]
    fn where_the_disk_is_full_the_reserve_makes_room_for_a_file_once() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        fs::write(temp.path().join("reserve"), "space").unwrap();
        assert!(data.give_up_reserve());
        assert!(!temp.path().join("reserve").exists());
        assert!(!data.give_up_reserve());
    }

    #[test]
    fn what_lies_in_the_way_of_a_file_is_named_with_the_cure() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let (state, fresh) = (temp.path().join("state"), temp.path().join("state.new"));
        // A link that leads nowhere is no file, and nothing is written where it leads.
        std::os::unix::fs::symlink(temp.path().join("elsewhere"), &fresh).unwrap();
        data.replace("state", "one").unwrap();
        assert!(!temp.path().join("elsewhere").exists() && !state.is_symlink());

        fs::create_dir(&fresh).unwrap();
        let sentence = data.replace("state", "two").unwrap_err().to_string();
        assert!(
            sentence.contains("could not remove") && sentence.contains("state.new: "),
            "{sentence}"
        );
        fs::remove_dir(&fresh).unwrap();
        fs::remove_file(&state).unwrap();
        fs::create_dir(&state).unwrap();
        let sentence = data.read("state").unwrap_err().to_string();
        assert!(
            sentence.contains(&format!("could not read {}", state.display()))
                && sentence.contains("move it away"),
            "{sentence}"
        );
        fs::remove_dir(&state).unwrap();
        std::os::unix::fs::symlink("/not mounted", &state).unwrap();
        let sentence = data.read("state").unwrap_err().to_string();
        assert!(sentence.contains("a link lead nowhere"), "{sentence}");
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
