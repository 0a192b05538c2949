//! The files beneath the mount, as the kernel's requests name them: files and directories it knows
//! by node, open ones by handle.
#![expect(
    clippy::disallowed_types,
    reason = "the threads of the file system share these tables; no core of a broker does"
)]

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, StatVfs, Timespec, Timestamps};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kernel's number for the root; other nodes have the number of their inode.
const ROOT: u64 = 1;

/// A directory and all in it.
#[derive(Debug)]
pub(super) struct Backing {
    path: PathBuf,
    root_inode: u64,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    nodes: HashMap<u64, Node>,
    open: HashMap<u64, Arc<Open>>,
    opened: u64,
}

/// Something the kernel knows. Its descriptor (`O_PATH`) stays right whatever is renamed, and keeps
/// the number of the inode from going to another file.
#[derive(Debug)]
struct Node {
    file: Arc<File>,
    /// How often the kernel was told of it; it says when it forgets.
    lookups: u64,
}

/// An open file or directory.
#[derive(Debug)]
pub(super) struct Open {
    file: File,
    /// It was opened to be appended to.
    appends: bool,
    /// What the directory held when it was read from its beginning.
    listing: Mutex<Vec<Listed>>,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) node: u64,
    pub(super) kind: FileType,
    pub(super) name: OsString,
}

/// What `setattr` sets.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) mode: Option<u32>,
    pub(super) owner: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
}

impl Open {
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn appends(&self) -> bool {
        self.appends
    }

    /// The entries from the `skip`th on.
    pub(super) fn list(&self, skip: usize) -> io::Result<Vec<Listed>> {
        let mut listing = lock(&self.listing);
        if skip == 0 {
            listing.clear();
            for entry in std::fs::read_dir(magic_link(&self.file))? {
                let entry = entry?;
                listing.push(Listed {
                    node: entry.ino(),
                    kind: kind(entry.file_type()?)?,
                    name: entry.file_name(),
                });
            }
        }
        Ok(listing.get(skip..).unwrap_or_default().to_vec())
    }
}

impl Backing {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        // As the kernel names files that are open.
        let path = path.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&path, flags, Mode::empty())?);
        let root_inode = file.metadata()?.ino();
        let root = Node {
            file: Arc::new(file),
            lookups: 1,
        };
        let tables = Tables {
            nodes: HashMap::from([(ROOT, root)]),
            ..Tables::default()
        };
        Ok(Self {
            path,
            root_inode,
            tables: Mutex::new(tables),
        })
    }

    fn node(&self, node: u64) -> io::Result<Arc<File>> {
        let tables = lock(&self.tables);
        let found = tables.nodes.get(&node);
        found
            .map(|node| Arc::clone(&node.file))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    /// The file of that handle.
    pub(super) fn open(&self, handle: u64) -> io::Result<Arc<Open>> {
        let tables = lock(&self.tables);
        let found = tables.open.get(&handle).map(Arc::clone);
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// Where the node lies now, from the root on. Removed ones end in ` (deleted)`.
    pub(super) fn path(&self, node: u64) -> io::Result<PathBuf> {
        let path = std::fs::read_link(magic_link(&*self.node(node)?))?;
        Ok(path
            .strip_prefix(&self.path)
            .map_or_else(|_| path.clone(), Path::to_path_buf))
    }

    fn attr_of(&self, metadata: &Metadata) -> io::Result<FileAttr> {
        let node = if metadata.ino() == self.root_inode {
            ROOT
        } else {
            metadata.ino()
        };
        let narrow = |wide: u64| u32::try_from(wide).unwrap_or(u32::MAX);
        let changed = Duration::new(
            u64::try_from(metadata.ctime()).unwrap_or(0),
            u32::try_from(metadata.ctime_nsec()).unwrap_or(0),
        );
        Ok(FileAttr {
            ino: INodeNo(node),
            size: metadata.size(),
            blocks: metadata.blocks(),
            atime: metadata.accessed()?,
            mtime: metadata.modified()?,
            ctime: UNIX_EPOCH + changed,
            crtime: UNIX_EPOCH,
            kind: kind(metadata.file_type())?,
            perm: u16::try_from(metadata.mode() & 0o7777).expect("12 bits"),
            nlink: narrow(metadata.nlink()),
            uid: metadata.uid(),
            gid: metadata.gid(),
            rdev: narrow(metadata.rdev()),
            blksize: narrow(metadata.blksize()),
            flags: 0,
        })
    }

    pub(super) fn attr(&self, node: u64) -> io::Result<FileAttr> {
        self.attr_of(&self.node(node)?.metadata()?)
    }

    /// Finds a name, and counts that the kernel is told of it.
    pub(super) fn lookup(&self, parent: u64, name: &OsStr) -> io::Result<FileAttr> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parent = self.node(parent)?;
        let file = File::from(rustix::fs::openat(&*parent, name, flags, Mode::empty())?);
        let attr = self.attr_of(&file.metadata()?)?;
        let mut tables = lock(&self.tables);
        let node = tables.nodes.entry(attr.ino.0).or_insert_with(|| Node {
            file: Arc::new(file),
            lookups: 0,
        });
        node.lookups += 1;
        Ok(attr)
    }

    pub(super) fn forget(&self, node: u64, lookups: u64) {
        let mut tables = lock(&self.tables);
        if let Some(known) = tables.nodes.get_mut(&node) {
            known.lookups = known.lookups.saturating_sub(lookups);
            if known.lookups == 0 && node != ROOT {
                tables.nodes.remove(&node);
            }
        }
    }

    /// Sets what is given, through the handle where there is one: what is open may be cut whatever
    /// its mode has become.
    pub(super) fn change(
        &self,
        node: u64,
        handle: Option<u64>,
        changes: &Changes,
    ) -> io::Result<FileAttr> {
        let file = self.node(node)?;
        let link = magic_link(&file);
        if let Some(mode) = changes.mode {
            std::fs::set_permissions(&link, Permissions::from_mode(mode & 0o7777))?;
        }
        if changes.owner.is_some() || changes.group.is_some() {
            std::os::unix::fs::chown(&link, changes.owner, changes.group)?;
        }
        if let Some(size) = changes.size {
            match handle {
                Some(handle) => self.open(handle)?.file.set_len(size)?,
                None => File::options().write(true).open(&link)?.set_len(size)?,
            }
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(changes.accessed),
                last_modification: timespec(changes.modified),
            };
            rustix::fs::utimensat(CWD, &link, &times, AtFlags::empty())?;
        }
        self.attr_of(&file.metadata()?)
    }

    pub(super) fn read_link(&self, node: u64) -> io::Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(&*self.node(node)?, c"", Vec::new())?;
        Ok(target.into_bytes())
    }

    pub(super) fn make_dir(&self, parent: u64, name: &OsStr, mode: u32) -> io::Result<FileAttr> {
        let dir = self.node(parent)?;
        rustix::fs::mkdirat(&*dir, name, Mode::from_raw_mode(mode & 0o7777))?;
        let attr = self.lookup(parent, name)?;
        // Of the modes only the caller's mask was to take something, not ours.
        let mode = Some(mode);
        let changes = Changes {
            mode,
            ..Changes::default()
        };
        self.change(attr.ino.0, None, &changes)
    }

    pub(super) fn symlink(&self, parent: u64, name: &OsStr, target: &Path) -> io::Result<FileAttr> {
        rustix::fs::symlinkat(target, &*self.node(parent)?, name)?;
        self.lookup(parent, name)
    }

    pub(super) fn link(&self, node: u64, parent: u64, name: &OsStr) -> io::Result<FileAttr> {
        let (file, dir) = (self.node(node)?, self.node(parent)?);
        rustix::fs::linkat(CWD, magic_link(&file), &*dir, name, AtFlags::SYMLINK_FOLLOW)?;
        self.lookup(parent, name)
    }

    pub(super) fn remove(&self, parent: u64, name: &OsStr, flags: AtFlags) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&*self.node(parent)?, name, flags)?)
    }

    pub(super) fn rename(
        &self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        flags: RenameFlags,
    ) -> io::Result<()> {
        let (from_dir, to_dir) = (self.node(from.0)?, self.node(to.0)?);
        Ok(rustix::fs::renameat_with(
            &*from_dir, from.1, &*to_dir, to.1, flags,
        )?)
    }

    /// Makes a file and opens it; what it is and its handle.
    pub(super) fn create(
        &self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> io::Result<(FileAttr, u64)> {
        let appends = flags & libc::O_APPEND != 0;
        let mode = mode & 0o7777;
        let flags = open_flags(flags) | OFlags::CREATE | OFlags::NOFOLLOW;
        let dir = self.node(parent)?;
        let raw_mode = Mode::from_raw_mode(mode);
        let file = File::from(rustix::fs::openat(&*dir, name, flags, raw_mode)?);
        // As in `make_dir`.
        file.set_permissions(Permissions::from_mode(mode))?;
        let attr = self.lookup(parent, name)?;
        Ok((attr, self.keep(file, appends)))
    }

    /// Opens a node; its handle.
    pub(super) fn open_node(&self, node: u64, flags: i32) -> io::Result<u64> {
        let link = magic_link(&*self.node(node)?);
        let file = rustix::fs::open(link, open_flags(flags), Mode::empty())?;
        let appends = flags & libc::O_APPEND != 0;
        Ok(self.keep(File::from(file), appends))
    }

    fn keep(&self, file: File, appends: bool) -> u64 {
        let mut tables = lock(&self.tables);
        let handle = tables.opened;
        tables.opened += 1;
        let listing = Mutex::default();
        let open = Open {
            file,
            appends,
            listing,
        };
        tables.open.insert(handle, Arc::new(open));
        handle
    }

    pub(super) fn close(&self, handle: u64) {
        lock(&self.tables).open.remove(&handle);
    }

    pub(super) fn space(&self) -> io::Result<StatVfs> {
        Ok(rustix::fs::statvfs(&self.path)?)
    }
}

/// The kernel's way to what a descriptor means, whatever its name is now.
fn magic_link(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A request that panicked leaves the tables as they were before or after a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kind(kind: std::fs::FileType) -> io::Result<FileType> {
    FileType::from_std(kind).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTSUP))
}

/// The caller's flags as far as they are about our descriptor too. Where an append goes the kernel
/// works out itself, and our buffers are not aligned for `O_DIRECT`.
fn open_flags(flags: i32) -> OFlags {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    flags.difference(OFlags::APPEND | OFlags::DIRECT | OFlags::NOFOLLOW) | OFlags::CLOEXEC
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |nanoseconds| Timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    };
    match time {
        None => special(rustix::fs::UTIME_OMIT),
        Some(TimeOrNow::Now) => special(rustix::fs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => since_1970(time),
    }
}

/// Earlier times than 1970 become 1970.
fn since_1970(time: SystemTime) -> Timespec {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timespec {
        tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: since.subsec_nanos().into(),
    }
}
