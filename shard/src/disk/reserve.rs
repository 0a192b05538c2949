//! A file that takes up space as long as there is enough, so that there is some when there is not.

use super::Free;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Its name in the data directory.
const NAME: &str = "reserve";

/// More than the tables of any number of shards take while they are replaced: a few blocks for each
/// that is opened at a time, and a directory's growth.
const BYTES_MAX: u64 = 16 << 20;

/// At most one in so many bytes of its file system: less than what appends leave free, so that they
/// do not take what was given up.
const SHARE: u64 = 64;

/// Less than this is no help.
const PUT_BACK_BYTES_MIN: u64 = 64 << 10;

/// A block that there is space for if it is there: the bytes a file has are counted in these.
const COUNTED_BYTES: u64 = 512;

/// The reserve of a data directory. Given up, it leaves space for what has to be written to open
/// logs and to close them; it is made anew when there is enough. Every method may wait for the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// That of the data directory `data`, whether it is there or not.
    #[must_use]
    pub fn of(data: &Path) -> Self {
        Self {
            path: data.join(NAME),
        }
    }

    /// Makes it, where it is not there whole and that leaves `free_bytes_min` free, or
    /// what is kept free of a small file system. Whether it was made.
    ///
    /// # Errors
    /// There is not so much space, or the disk's own fault; then there is none.
    pub fn make(&self, free_bytes_min: u64) -> io::Result<bool> {
        let free = Free::of(self.path.parent().unwrap_or(&self.path))?;
        let bytes = Self::bytes(free.all_bytes);
        if self.held() >= bytes {
            return Ok(false);
        }
        if free.free_bytes < bytes + free.kept(free_bytes_min) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        #[cfg(test)]
        if let Some(disk) = super::memory::current() {
            disk.reserve(bytes);
            return Ok(true);
        }
        self.take(bytes).map(|()| true)
    }

    /// Takes as much of it as there is space for, where nobody appends any more, so that the next start
    /// finds some however full the disk is by then.
    ///
    /// # Errors
    /// The disk's own fault; then there is none.
    pub fn put_back(&self) -> io::Result<()> {
        let free = Free::of(self.path.parent().unwrap_or(&self.path))?;
        let mut bytes = Self::bytes(free.all_bytes);
        if self.held() >= bytes {
            return Ok(());
        }
        while bytes >= PUT_BACK_BYTES_MIN {
            // What is free for others than root says too little.
            if self.take(bytes).is_ok() {
                return Ok(());
            }
            bytes /= 2;
        }
        Err(io::ErrorKind::StorageFull.into())
    }

    /// Has the file take up so much, or removes it.
    fn take(&self, bytes: u64) -> io::Result<()> {
        let made = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)
            .and_then(|file| {
                allocate(&file, bytes)?;
                file.sync_all()
            });
        if made.is_err() {
            // Part of it would be in the way of what there is space for.
            drop(fs::remove_file(&self.path));
        }
        made
    }

    /// The space that it has; none where it is not there.
    fn held(&self) -> u64 {
        #[cfg(test)]
        if let Some(disk) = super::memory::current() {
            return disk.reserved();
        }
        let found = fs::symlink_metadata(&self.path);
        found.map_or(0, |found| found.blocks().saturating_mul(COUNTED_BYTES))
    }

    /// Gives it up. Whether there was one.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn give_up(&self) -> io::Result<bool> {
        #[cfg(test)]
        if let Some(disk) = super::memory::current() {
            return Ok(disk.reserve(0) > 0);
        }
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Bytes that it takes up on a file system of so many.
    #[must_use]
    pub fn bytes(all_bytes: u64) -> u64 {
        (all_bytes / SHARE).min(BYTES_MAX)
    }
}

/// Has the file system give the file that many bytes.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = libc::off64_t::try_from(bytes).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "posix_fallocate has no safe wrapper in std")]
    // SAFETY: the descriptor is open as long as `file` is borrowed; no memory is passed.
    let result = unsafe { libc::posix_fallocate64(file.as_raw_fd(), 0, bytes) };
    match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_takes_up_space_until_it_is_given_up_and_is_made_whole_again() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::of(dir.path());
        assert!(!reserve.give_up().unwrap(), "there was none");
        let all_bytes = Free::of(dir.path()).unwrap().all_bytes;
        assert!(reserve.make(0).unwrap());
        let held = || {
            let found = fs::metadata(dir.path().join("reserve")).unwrap();
            found.blocks() * COUNTED_BYTES
        };
        let bytes = Reserve::bytes(all_bytes);
        assert!(bytes > 0 && held() >= bytes);
        assert!(!reserve.make(0).unwrap(), "it is there");
        // As where whoever made it was killed before it had its space.
        fs::write(dir.path().join("reserve"), "").unwrap();
        assert!(reserve.make(0).unwrap());
        assert!(held() >= bytes);
        assert!(reserve.give_up().unwrap());
        assert!(!dir.path().join("reserve").exists());
    }
}
