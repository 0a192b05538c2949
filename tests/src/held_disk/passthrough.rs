//! The kernel's requests, passed on to the files beneath unless a rule says otherwise.

use super::backing::{Backing, Changes};
use super::rules::{Flush, Rules, Wish};
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, FallocateFlags};
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the kernel may believe an answer about names and attributes: it always asks again.
const ANSWER_TTL: Duration = Duration::ZERO;

/// Numbers of inodes are not used twice while the kernel knows them.
const GENERATION: Generation = Generation(0);

/// The file system. Its methods are called on threads of their own.
#[derive(Debug)]
pub(super) struct Passthrough {
    backing: Backing,
    rules: Arc<Rules>,
}

impl Passthrough {
    pub(super) fn new(backing: &Path, rules: Arc<Rules>) -> io::Result<Self> {
        let backing = Backing::new(backing)?;
        Ok(Self { backing, rules })
    }

    fn flush_held(
        &self,
        wish: Wish,
        node: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let found = self.backing.path(node.0);
        match found.and_then(|path| Ok((path, self.backing.open(handle.0)?))) {
            Ok((path, open)) => self.rules.flush(
                if wish == Wish::FileFlush && open.appends() {
                    Wish::SpaceFlush
                } else {
                    wish
                },
                Flush {
                    path,
                    open,
                    data_only,
                    reply,
                },
            ),
            Err(error) => reply.error(error.into()),
        }
    }

    /// Bytes written.
    fn write_at(&self, node: u64, handle: u64, at: u64, bytes: &[u8]) -> Result<u32, Errno> {
        self.allow_write(node)?;
        let written = self.backing.open(handle)?.file().write_at(bytes, at)?;
        Ok(u32::try_from(written).expect("a request is smaller"))
    }

    fn allow_write(&self, node: u64) -> Result<(), Errno> {
        let path = self.backing.path(node)?;
        self.rules.write_error(&path).map_or(Ok(()), Err)
    }

    fn read_at(&self, handle: u64, at: u64, bytes_max: u32) -> io::Result<Vec<u8>> {
        let open = self.backing.open(handle)?;
        let mut bytes = vec![0; usize::try_from(bytes_max).expect("64 bits")];
        let mut filled = 0;
        // What is short of a page the kernel would take for the end of the file.
        while filled < bytes.len() {
            match open
                .file()
                .read_at(&mut bytes[filled..], at + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

fn answer(reply: ReplyEmpty, done: io::Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

fn answer_entry(reply: ReplyEntry, found: io::Result<fuser::FileAttr>) {
    match found {
        Ok(attr) => reply.entry(&ANSWER_TTL, &attr, GENERATION),
        Err(error) => reply.error(error.into()),
    }
}

fn answer_attr(reply: ReplyAttr, found: io::Result<fuser::FileAttr>) {
    match found {
        Ok(attr) => reply.attr(&ANSWER_TTL, &attr),
        Err(error) => reply.error(error.into()),
    }
}

fn answer_open(reply: ReplyOpen, opened: io::Result<u64>) {
    match opened {
        // Without `FOPEN_KEEP_CACHE`: who opens a file reads what is there.
        Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
        Err(error) => reply.error(error.into()),
    }
}

impl Filesystem for Passthrough {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.backing.lookup(parent.0, name));
    }

    fn forget(&self, _: &Request, node: INodeNo, lookups: u64) {
        self.backing.forget(node.0, lookups);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer_attr(reply, self.backing.attr(node.0));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        owner: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes {
            mode,
            owner,
            group,
            size,
            accessed,
            modified,
        };
        let handle = handle.map(|handle| handle.0);
        answer_attr(reply, self.backing.change(node.0, handle, &changes));
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.backing.read_link(node.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error.into()),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        answer_entry(reply, self.backing.make_dir(parent.0, name, mode));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.backing.remove(parent.0, name, AtFlags::empty()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(
            reply,
            self.backing.remove(parent.0, name, AtFlags::REMOVEDIR),
        );
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        answer_entry(reply, self.backing.symlink(parent.0, name, target));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        answer(reply, self.backing.rename(from, to, flags));
    }

    fn link(
        &self,
        _: &Request,
        node: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        answer_entry(reply, self.backing.link(node.0, new_parent.0, new_name));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.backing.create(parent.0, name, mode, flags) {
            Ok((attr, handle)) => reply.created(
                &ANSWER_TTL,
                &attr,
                GENERATION,
                FileHandle(handle),
                FopenFlags::empty(),
            ),
            Err(error) => reply.error(error.into()),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer_open(reply, self.backing.open_node(node.0, flags.0));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        at: u64,
        bytes_max: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_at(handle.0, at, bytes_max) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        at: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_at(node.0, handle.0, at, bytes) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Sent when a descriptor is closed; nothing of ours waits for that.
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.backing.close(handle.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.flush_held(Wish::FileFlush, node, handle, data_only, reply);
    }

    fn opendir(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer_open(reply, self.backing.open_node(node.0, flags.0));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        skip: u64,
        mut reply: ReplyDirectory,
    ) {
        let from = usize::try_from(skip).expect("64 bits");
        let listed = self.backing.open(handle.0).and_then(|open| open.list(from));
        match listed {
            Ok(listed) => {
                for (next, entry) in (skip + 1..).zip(listed) {
                    if reply.add(INodeNo(entry.node), next, entry.kind, &entry.name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.backing.close(handle.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.flush_held(Wish::DirFlush, node, handle, data_only, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let narrow = |wide: u64| u32::try_from(wide).unwrap_or(u32::MAX);
        match self.backing.space() {
            Ok(space) => reply.statfs(
                space.f_blocks,
                space.f_bfree,
                space.f_bavail,
                space.f_files,
                space.f_ffree,
                narrow(space.f_bsize),
                narrow(space.f_namemax),
                narrow(space.f_frsize),
            ),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        at: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if let Err(error) = self.allow_write(node.0) {
            reply.error(error);
            return;
        }
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let open = self.backing.open(handle.0);
        let done = open.and_then(|open| Ok(rustix::fs::fallocate(open.file(), mode, at, bytes)?));
        answer(reply, done);
    }
}
