//! A disk whose flushes wait and whose writes fail when a test says so.

mod backing;
mod passthrough;
mod rules;
#[cfg(test)]
mod tests;

pub use rules::{Failing, Hold};

use crate::is_strict;
use fuser::{BackgroundSession, Config, Errno, MountOption};
use passthrough::Passthrough;
use rules::{Rules, Wish, Wishes};
use rustix::mount::UnmountFlags;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Requests served at once: a flush that the disk beneath takes long over delays no other request.
const THREADS: usize = 4;

/// A mounted file system (FUSE) that passes everything on to a directory beneath, and on demand
/// holds flushes back or makes flushes and writes fail. A flush that is held delays no request but
/// those the kernel itself makes wait (see below). Names, attributes and what is read are never
/// older than what is beneath; files are to be changed through the mount, though.
///
/// Predicates get the path of the file from the root of the mount on, as it is named at that
/// moment; where several rules match, the newest decides. They must not touch the mount.
///
/// # What the kernel does meanwhile
/// A held flush of a file has the lock of its inode: another write to *that* file, a cut or a
/// second flush of it wait in the kernel until the flush ends, and so does the whole thread that
/// asked. Reads of it go on. In the same way a held flush of a directory makes everything wait
/// that adds, removes or looks up names in it for the first time.
///
/// Nothing ends a process that waits for a held flush, not even kill -9: it is gone once the flush
/// is released or has failed, as on a real disk: see [`Broker::kill_and`](crate::Broker::kill_and).
/// Do not wait for a held flush on a thread of the test itself: if the test is killed then, it
/// stays until somebody says `umount -f`.
///
/// # End
/// Dropping it ends held flushes with EIO and unmounts, whoever still has files open on it; they
/// get errors from then on. A test that is killed leaves a dead mount in the temporary directory.
#[derive(Debug)]
pub struct HeldDisk {
    rules: Arc<Rules>,
    mount: PathBuf,
    backing: PathBuf,
    session: Option<BackgroundSession>,
    // Last: it is removed once nothing is mounted in it.
    _dir: TempDir,
}

impl HeldDisk {
    /// Mounts an empty one.
    ///
    /// # Errors
    /// Why it cannot be done here: a kernel without FUSE, or no right to mount.
    pub fn mount() -> Result<Self, String> {
        fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map_err(|error| format!("no FUSE: /dev/fuse: {error}"))?;
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let root = dir.path().canonicalize().expect("it was just made");
        let (mount, backing) = (root.join("mount"), root.join("backing"));
        for path in [&mount, &backing] {
            fs::create_dir(path).expect("it is ours");
        }
        let rules = Arc::new(Rules::default());
        let passthrough = Passthrough::new(&backing, Arc::clone(&rules))
            .map_err(|error| format!("{}: {error}", backing.display()))?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("felix-held-disk".to_owned()),
            MountOption::DefaultPermissions,
        ];
        config.n_threads = Some(THREADS);
        let session = fuser::spawn_mount(passthrough, &mount, &config).map_err(|error| {
            format!("a FUSE file system cannot be mounted without root or fusermount3: {error}")
        })?;
        Ok(Self {
            rules,
            mount,
            backing,
            session: Some(session),
            _dir: dir,
        })
    }

    /// The same for a test that cannot go without: where it cannot be done, says that `what` was
    /// not checked, or panics where that must not pass ([`is_strict`]).
    #[must_use]
    pub fn mount_for(what: &str) -> Option<Self> {
        match Self::mount() {
            Ok(disk) => Some(disk),
            Err(reason) => {
                assert!(!is_strict(), "{reason}");
                // Past the harness, which swallows what a passed test prints.
                let warning = format!("\nNOT CHECKED: {what}: {reason}\n");
                drop(std::io::stderr().write_all(warning.as_bytes()));
                None
            }
        }
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// The directory beneath, to look at what arrived there. Not to be changed.
    #[must_use]
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// Holds flushes (`fsync`, `fdatasync`) of files whose path matches.
    #[must_use]
    pub fn hold_flushes(&self, which: impl Fn(&Path) -> bool + Send + 'static) -> Hold {
        Hold::new(&self.rules, Wishes::FileFlushes, Box::new(which))
    }

    /// The same, but for files that were opened to be appended to, as a broker opens one to prepare space in it.
    /// Whether it is just doing so is chance, and to hold that would keep the file's own flush and its writes
    /// waiting.
    #[must_use]
    pub fn hold_own_flushes(&self, which: impl Fn(&Path) -> bool + Send + 'static) -> Hold {
        Hold::new(&self.rules, Wishes::Only(Wish::FileFlush), Box::new(which))
    }

    /// Holds flushes of directories whose path matches; the root's is empty.
    #[must_use]
    pub fn hold_dir_flushes(&self, which: impl Fn(&Path) -> bool + Send + 'static) -> Hold {
        Hold::new(&self.rules, Wishes::Only(Wish::DirFlush), Box::new(which))
    }

    /// Makes flushes of files whose path matches fail with EIO, without a flush beneath.
    #[must_use]
    pub fn fail_flushes(&self, which: impl Fn(&Path) -> bool + Send + 'static) -> Failing {
        Failing::new(
            &self.rules,
            Wishes::FileFlushes,
            Box::new(which),
            Errno::EIO,
        )
    }

    /// Makes flushes of directories whose path matches fail with EIO, without a flush beneath.
    #[must_use]
    pub fn fail_dir_flushes(&self, which: impl Fn(&Path) -> bool + Send + 'static) -> Failing {
        Failing::new(
            &self.rules,
            Wishes::Only(Wish::DirFlush),
            Box::new(which),
            Errno::EIO,
        )
    }

    /// Makes writes to files whose path matches, and allocations for them, fail with EIO; nothing
    /// of them arrives beneath.
    #[must_use]
    pub fn fail_writes(&self, which: impl Fn(&Path) -> bool + Send + 'static) -> Failing {
        Failing::new(
            &self.rules,
            Wishes::Only(Wish::Write),
            Box::new(which),
            Errno::EIO,
        )
    }

    /// The same with ENOSPC.
    #[must_use]
    pub fn refuse_space(&self, which: impl Fn(&Path) -> bool + Send + 'static) -> Failing {
        Failing::new(
            &self.rules,
            Wishes::Only(Wish::Write),
            Box::new(which),
            Errno::ENOSPC,
        )
    }

    /// The paths of all flushes held, of files and directories, oldest first.
    #[must_use]
    pub fn held(&self) -> Vec<PathBuf> {
        self.rules.held()
    }
}

impl Drop for HeldDisk {
    fn drop(&mut self) {
        self.rules.close();
        let session = self.session.take().expect("taken only here");
        // `FORCE` ends the connection, and with it the session, though files may be open;
        // `DETACH` takes the mount away then too.
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
        if rustix::mount::unmount(&self.mount, flags).is_ok() {
            drop(session.join());
        } else {
            // Not root: the session asks fusermount3. It may live on as long as files are open.
            drop(session);
        }
    }
}
