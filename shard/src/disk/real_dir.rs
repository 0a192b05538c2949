//! A directory of the file system.

use super::calls::{self, if_there};
use super::descriptors::with_room;
use super::real_file::RealFile;
use super::{Free, ReplaceError, is_out_of_files, regular};
use crate::runtime;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

thread_local! {
    /// Directories that this thread has had synced, and those above them. What was made in one of
    /// them before is there for good, and what is made in it since, whoever makes it syncs: ten
    /// thousand logs in one directory are not ten thousand syncs of it.
    static SYNCED: RefCell<HashSet<PathBuf>> = RefCell::default();
}

/// A directory that is there for good. Lives on the CPU core that opened it.
#[derive(Debug)]
pub(super) struct RealDir {
    path: PathBuf,
    device: u64,
    /// Numbers temporary files, so that no two writers meet in one.
    temporary: Cell<u64>,
}

/// How a temporary file's name ends; one that is found was left by a crash and means nothing.
pub(super) const TEMPORARY: &str = ".tmp";

impl RealDir {
    /// Opens the directory, making it and those above it where they are missing, all of them
    /// durably: one that is there may have been made by a process that was killed before it synced.
    pub(super) async fn open(path: &Path) -> io::Result<Self> {
        let parent = path.parent().map(Path::to_owned).unwrap_or_default();
        let is_known = SYNCED.with_borrow(|synced| synced.contains(&parent));
        let found = runtime::blocking({
            let path = path.to_owned();
            move || find(&path, is_known)
        });
        match found.await {
            Ok(device) => {
                if !is_known {
                    SYNCED.with_borrow_mut(|synced| synced.insert(parent));
                }
                Ok(Self {
                    path: path.to_owned(),
                    device,
                    temporary: Cell::new(0),
                })
            }
            Err(error) => {
                SYNCED.with_borrow_mut(|synced| synced.remove(&parent));
                Err(error)
            }
        }
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file system that it lies on.
    pub(super) fn device(&self) -> u64 {
        self.device
    }

    /// Opens a file of the directory; `None` where there is none of that name.
    pub(super) async fn open_file(&self, name: &str) -> io::Result<Option<RealFile>> {
        if_there(RealFile::open(self.path.join(name)).await)
    }

    /// Makes a new file. It is there for good after [`RealDir::sync`].
    ///
    /// # Errors
    /// It exists already, or the disk's own fault.
    pub(super) fn create_file(&self, name: &str) -> io::Result<RealFile> {
        RealFile::create(self.path.join(name))
    }

    /// As [`RealDir::create_file`], on a blocking thread.
    pub(super) async fn create_file_aside(&self, name: &str) -> io::Result<RealFile> {
        RealFile::create_aside(self.path.join(name)).await
    }

    /// As [`RealDir::rename`], on a blocking thread.
    pub(super) async fn rename_aside(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path.join(from), self.path.join(to));
        runtime::blocking(move || std::fs::rename(from, to)).await
    }

    /// Cuts a file to `bytes`, if it is there, on a blocking thread.
    pub(super) async fn cut_file(&self, name: &str, bytes: u64) -> io::Result<()> {
        let cut = async || {
            let path = self.path.join(name);
            let cut = move || {
                let mut options = std::fs::OpenOptions::new();
                regular::open_with(options.write(true), &path)?.set_len(bytes)
            };
            runtime::blocking(move || if_there(cut()).map(drop)).await
        };
        with_room(cut, is_out_of_files).await
    }

    /// Gives a file another name, in the place of the one that has it, if one does.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    /// Makes files that appeared or went do so durably.
    pub(super) async fn sync(&self) -> io::Result<()> {
        let sync = async || {
            let path = self.path.clone();
            // Not on the ring: the executor only offers fdatasync, which need not commit a new name.
            runtime::blocking(move || sync(&path)).await
        };
        // Without a descriptor it was not opened, so nothing is known of what it would have said.
        with_room(sync, is_out_of_files).await
    }

    /// What is free on its file system, asked on a blocking thread.
    pub(super) async fn free(&self) -> io::Result<Free> {
        let path = self.path.clone();
        runtime::blocking(move || Free::of(&path)).await
    }

    /// The size of a file in bytes; `None` where there is none of that name.
    pub(super) fn size_of(&self, name: &str) -> io::Result<Option<u64>> {
        calls::size_of(&self.path.join(name))
    }

    /// Puts a small file in the place of the one of that name, durably: whatever happens, either
    /// the old one is there or the new one.
    pub(super) async fn replace(&self, name: &str, bytes: Vec<u8>) -> Result<(), ReplaceError> {
        let wanted = |error: &ReplaceError| match error {
            ReplaceError::Unwritten(cause) => is_out_of_files(cause),
            ReplaceError::Unsynced(_) => false,
        };
        let bytes = Bytes::from(bytes);
        with_room(
            async || self.replace_once(name, bytes.clone()).await,
            wanted,
        )
        .await
    }

    async fn replace_once(&self, name: &str, bytes: Bytes) -> Result<(), ReplaceError> {
        let number = self.temporary.replace(self.temporary.get() + 1);
        let temporary = self.path.join(format!("{name}.{number}{TEMPORARY}"));
        let path = self.path.join(name);
        let dir = self.path.clone();
        let replacing = move || {
            // First: where no descriptor is left nothing has been tried.
            let dir = std::fs::File::open(dir).map_err(ReplaceError::Unwritten)?;
            if let Err(cause) = put(&bytes, &temporary, &path) {
                // Whoever tries again makes another, and these would fill the disk.
                drop(std::fs::remove_file(&temporary));
                return Err(ReplaceError::Unwritten(cause));
            }
            dir.sync_all().map_err(ReplaceError::Unsynced)
        };
        runtime::blocking(replacing).await
    }
}

/// The file system of a directory, which is made durably where it is missing, or where it is not known
/// that it is there for good.
fn find(path: &Path, is_known: bool) -> io::Result<u64> {
    let there = path.metadata().ok().filter(std::fs::Metadata::is_dir);
    if let Some(found) = there.filter(|_| is_known) {
        return Ok(found.dev());
    }
    make(path, &mut sync)?;
    Ok(path.metadata()?.dev())
}

/// Writes a file by way of another, which is complete and durable before it takes the place.
fn put(bytes: &[u8], temporary: &Path, path: &Path) -> io::Result<()> {
    let mut file = std::fs::File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(temporary, path)
}

/// Makes `path` and what is missing above it, from the top down, each synced into its parent. What
/// is there is synced too, up to where another file system is mounted: that place is not ours.
fn make(path: &Path, sync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        // A root is in no directory.
        Some(_) | None if path.has_root() || path == Path::new(".") => return Ok(()),
        Some(_) | None => Path::new("."),
    };
    let is_there = path.is_dir();
    if is_there && path.metadata()?.dev() != parent.metadata()?.dev() {
        return Ok(());
    }
    make(parent, sync)?;
    if !is_there {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    match sync(parent) {
        // We may enter it and not read it: then others made it, and what is in it.
        Err(error) if is_there && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

/// Commits the names in a directory.
fn sync(path: &Path) -> io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::Calls;
    use super::*;
    use glommio::{LocalExecutorBuilder, Placement};

    fn synced_by(path: &Path) -> Vec<PathBuf> {
        let mut synced = Vec::new();
        let mut note = |path: &Path| {
            synced.push(path.to_owned());
            Ok(())
        };
        make(path, &mut note).unwrap();
        synced
    }

    #[test]
    fn a_directory_that_is_there_is_synced_into_those_above_it_as_if_it_was_made() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let made = synced_by(&path);
        assert!(path.is_dir());
        assert!(made.ends_with(&[root.path().to_owned(), root.path().join("a")]));
        // As where whoever made it was killed before it synced.
        assert_eq!(synced_by(&path), made);
    }

    #[test]
    fn a_parent_that_may_not_be_read_is_an_error_only_where_something_was_made_in_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let mut refuse = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        let refused = make(&path, &mut refuse).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        make(&path, &mut refuse).unwrap();
        let mut fail = |_: &Path| Err(io::Error::other("the device failed"));
        assert!(make(&path, &mut fail).is_err());
    }

    #[test]
    fn a_small_file_is_replaced_whole_and_leftovers_are_removed() {
        let executor = LocalExecutorBuilder::new(Placement::Unbound).io_memory(64 << 10);
        executor.make().unwrap().run(async {
            let root = tempfile::tempdir().unwrap();
            let dir = RealDir::open(&root.path().join("a/b/c")).await.unwrap();
            let path = dir.path().to_owned();
            let calls = Calls::real(&path);
            assert!(calls.load("table").unwrap().is_none());
            dir.replace("table", b"a longer first".to_vec())
                .await
                .unwrap();
            dir.replace("table", b"second".to_vec()).await.unwrap();
            assert_eq!(calls.load("table").unwrap().unwrap(), b"second");
            std::fs::write(dir.path().join("table.9.tmp"), b"half").unwrap();
            assert_eq!(calls.list().unwrap(), ["table"]);
            assert!(!dir.path().join("table.9.tmp").exists());
            calls.remove("absent").unwrap();
            calls.remove("table").unwrap();
            dir.sync().await.unwrap();
            assert!(calls.list().unwrap().is_empty());
        });
    }
}
