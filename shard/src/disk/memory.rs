//! A disk in memory, for simulations. It keeps what is in the page cache and what is on the device
//! apart: a power loss leaves the second, and of what was on its way whatever chance leaves. It fails
//! as it is told to.

mod content;
mod faults;
mod file;
mod held;

pub(crate) use faults::Faults;
pub(crate) use file::MemoryFile;
pub(crate) use held::Held;

use super::real_dir::TEMPORARY;
use super::{Free, ReplaceError};
use crate::runtime::{breathe, simulated, sleep};
use crate::suspect::Suspect;
use content::Content;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// The longest flush of a device that is well.
const FLUSH_US_MAX: u64 = 500;

/// The disk of the simulation that this thread runs, if it runs one.
pub(crate) fn current() -> Option<Rc<MemoryDisk>> {
    simulated::current().map(|simulation| Rc::clone(simulation.disk()))
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MemoryDisk {
    dirs: RefCell<BTreeMap<PathBuf, Rc<Names>>>,
    faults: Cell<Faults>,
    pub(crate) held: Held,
    /// Flushes of files that have begun and not ended, or were not waited for.
    pub(crate) flushing: Cell<usize>,
    /// What was asked of a directory by somebody who was not at work for its shard.
    strangers: RefCell<BTreeSet<&'static str>>,
    /// Bytes that it was asked to write before they are flushed.
    sent_bytes: Cell<u64>,
    /// Bytes that the reserve takes, which outlive a power loss: nobody relies on that.
    reserve_bytes: Cell<u64>,
}

type Entries = BTreeMap<String, Rc<Content>>;

/// The names in a directory: those that the kernel knows, and those on the device.
#[derive(Debug, Default)]
struct Names {
    cached: RefCell<Entries>,
    durable: RefCell<Entries>,
    /// Changed, not on the device, and taken for clean: their sync has failed.
    lost: RefCell<BTreeSet<String>>,
}

impl Names {
    fn put(&self, name: &str, content: &Rc<Content>) {
        self.lost.borrow_mut().remove(name);
        self.cached
            .borrow_mut()
            .insert(name.to_owned(), Rc::clone(content));
    }

    fn take(&self, name: &str) {
        self.lost.borrow_mut().remove(name);
        self.cached.borrow_mut().remove(name);
    }

    /// Names that are not on the device as the kernel knows them, and how it does.
    fn changed(&self) -> Vec<(String, Option<Rc<Content>>)> {
        let (cached, durable) = (self.cached.borrow(), self.durable.borrow());
        let names: BTreeSet<&String> = cached.keys().chain(durable.keys()).collect();
        let is_same = |name: &&&String| match (cached.get(**name), durable.get(**name)) {
            (Some(a), Some(b)) => Rc::ptr_eq(a, b),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        names
            .iter()
            .filter(|name| !is_same(name))
            .map(|name| ((*name).clone(), cached.get(*name).cloned()))
            .collect()
    }

    /// Changes get to the device, except those for which `stays_behind`.
    fn sync(&self, mut stays_behind: impl FnMut(&str) -> bool) {
        for (name, content) in self.changed() {
            if stays_behind(&name) {
                continue;
            }
            let mut durable = self.durable.borrow_mut();
            match content {
                Some(content) => durable.insert(name, content),
                None => durable.remove(&name),
            };
        }
    }

    /// What the device has is all that there is.
    fn settle(&self) {
        self.cached.borrow_mut().clone_from(&self.durable.borrow());
        self.lost.borrow_mut().clear();
    }
}

impl MemoryDisk {
    /// Bytes that it was asked to write before they are flushed.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.get()
    }

    /// It fails like this from now on.
    pub(crate) fn set_faults(&self, faults: Faults) {
        self.faults.set(faults);
    }

    /// What was asked of a directory, so far, by somebody who was not at work for its shard: a panic
    /// there would name nobody, or somebody else.
    pub(crate) fn strangers(&self) -> Vec<&'static str> {
        self.strangers.borrow().iter().copied().collect()
    }

    pub(super) fn is_gone(&self, path: &Path) -> bool {
        self.held.on_core(Some(path), "look for it");
        self.held.on_core(path.parent(), "look for a file");
        let dirs = self.dirs.borrow();
        let names = path.parent().and_then(|dir| dirs.get(dir));
        let name = path.file_name().and_then(|name| name.to_str());
        let is_file = names
            .zip(name)
            .is_some_and(|(names, name)| names.cached.borrow().contains_key(name));
        !is_file && !dirs.contains_key(path)
    }

    pub(super) fn is_empty(&self, dir: &Path) -> bool {
        self.held.on_core(Some(dir), "look into it");
        let dirs = self.dirs.borrow();
        dirs.get(dir)
            .is_some_and(|names| names.cached.borrow().is_empty())
    }

    fn asked(&self, dir: Option<&Path>, what: &'static str) {
        let suspect = Suspect::of_this_thread();
        if suspect.as_ref().map(|suspect| suspect.directory()) != dir {
            self.strangers.borrow_mut().insert(what);
        }
    }

    /// The power fails, and what was not synced is gone.
    pub(crate) fn lose_power(&self) {
        for names in self.dirs.borrow().values() {
            names.settle();
            for content in names.cached.borrow().values() {
                content.lose_all();
            }
        }
    }

    /// The power fails, and of what was not synced this and that is there.
    pub(crate) fn lose_power_by_chance(&self, random: &mut fastrand::Rng) {
        for names in self.dirs.borrow().values() {
            let lost = names.lost.take();
            names.sync(|name| lost.contains(name) || random.bool());
            names.settle();
            for content in names.cached.borrow().values() {
                content.lose_some(random);
            }
        }
    }

    pub(super) async fn open_dir(self: &Rc<Self>, path: &Path) -> io::Result<MemoryDir> {
        self.asked(Some(path), "open a directory");
        breathe().await;
        self.held.pass_aside(Some(path)).await;
        let names = Rc::clone(self.dirs.borrow_mut().entry(path.to_owned()).or_default());
        Ok(MemoryDir {
            path: path.to_owned(),
            names,
            disk: Rc::clone(self),
            temporary: Cell::default(),
        })
    }

    /// Bytes of all files together.
    pub(crate) fn bytes(&self) -> usize {
        let dirs = self.dirs.borrow();
        let names = dirs.values().map(|names| {
            let cached = names.cached.borrow();
            cached.values().map(|content| content.size()).sum::<usize>()
        });
        names.sum::<usize>() + place(self.reserve_bytes.get())
    }

    /// What there is space for.
    pub(super) fn free(&self) -> Free {
        let all = self.faults.get().capacity.unwrap_or(usize::MAX);
        Free {
            free_bytes: all.saturating_sub(self.bytes()) as u64,
            all_bytes: all as u64,
        }
    }

    /// Bytes that the reserve takes.
    pub(super) fn reserved(&self) -> u64 {
        self.reserve_bytes.get()
    }

    /// Has the reserve take so many bytes; how many it took before.
    pub(super) fn reserve(&self, bytes: u64) -> u64 {
        self.reserve_bytes.replace(bytes)
    }

    /// How many of `bytes` more there is space for.
    fn space(&self, bytes: usize) -> usize {
        self.faults.get().capacity.map_or(bytes, |capacity| {
            bytes.min(capacity.saturating_sub(self.bytes()))
        })
    }

    /// Whether that goes wrong which goes wrong so often.
    fn fails(&self, of: impl FnOnce(Faults) -> u32) -> bool {
        let chance = of(self.faults.get());
        chance > 0 && draw(|random| random.u32(..10_000)) < chance
    }

    /// Whether a file that is not open can be opened.
    fn opens(&self) -> io::Result<()> {
        if self.fails(|faults| faults.descriptors) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        Ok(())
    }

    async fn wait_for_device(&self) {
        let faults = self.faults.get();
        let pause = if self.fails(|faults| faults.stall) {
            faults.slow
        } else {
            Duration::from_micros(draw(|random| random.u64(..FLUSH_US_MAX)))
        };
        sleep(pause).await;
    }

    async fn flush(&self, dir: Option<&Path>, content: &Content) -> io::Result<()> {
        if self.held.starves(dir) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        self.opens()?;
        let work = content.begin_flush();
        self.flushing.set(self.flushing.get() + 1);
        self.held.pass(dir).await;
        self.wait_for_device().await;
        self.flushing.set(self.flushing.get() - 1);
        if self.fails(|faults| faults.flush) {
            draw(|random| content.fail_flush(&work, random));
            return Err(broken());
        }
        if !self.faults.get().lies {
            content.end_flush(&work);
        }
        Ok(())
    }
}

fn draw<T>(draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
    let simulation = simulated::current().expect("the disk of a simulation is used in one");
    simulation.draw(draw)
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

/// A directory of the disk.
#[derive(Debug)]
pub(crate) struct MemoryDir {
    path: PathBuf,
    names: Rc<Names>,
    disk: Rc<MemoryDisk>,
    temporary: Cell<u64>,
}

impl MemoryDir {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// All of it is one device.
    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(super) fn device(&self) -> u64 {
        0
    }

    fn file(&self, name: &str, content: &Rc<Content>) -> MemoryFile {
        MemoryFile {
            path: RefCell::new(self.path.join(name)),
            content: Rc::clone(content),
            disk: Rc::clone(&self.disk),
        }
    }

    /// As from [`super::Calls`], or from the core itself.
    fn asked(&self, what: &'static str) {
        self.disk.asked(Some(&self.path), what);
        self.disk.held.on_core(Some(&self.path), what);
    }

    fn find(&self, name: &str) -> Option<Rc<Content>> {
        self.names.cached.borrow().get(name).cloned()
    }

    pub(super) fn list(&self) -> io::Result<Vec<OsString>> {
        self.asked("list");
        if self.disk.fails(|faults| faults.list) {
            return Err(broken());
        }
        let mut names = self.names.cached.borrow_mut();
        names.retain(|name, _| !name.ends_with(TEMPORARY));
        Ok(names.keys().map(OsString::from).collect())
    }

    pub(super) async fn open_file(&self, name: &str) -> io::Result<Option<MemoryFile>> {
        self.disk.asked(Some(&self.path), "open");
        self.disk.held.pass(Some(&self.path)).await;
        Ok(self.find(name).map(|content| self.file(name, &content)))
    }

    pub(super) fn create_file(&self, name: &str) -> io::Result<MemoryFile> {
        self.asked("create");
        if self.find(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if self.disk.fails(|faults| faults.create) {
            return Err(broken());
        }
        self.disk.opens()?;
        let content: Rc<Content> = Rc::default();
        self.names.put(name, &content);
        Ok(self.file(name, &content))
    }

    pub(super) fn mark(&self, name: &str) -> io::Result<()> {
        self.asked("create");
        if self.find(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if self.disk.fails(|faults| faults.create) {
            return Err(broken());
        }
        self.names.put(name, &Rc::default());
        Ok(())
    }

    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        self.asked("remove");
        if self.disk.fails(|faults| faults.remove) {
            return Err(broken());
        }
        self.names.take(name);
        Ok(())
    }

    pub(super) fn cut_file(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.asked("cut");
        if self.disk.fails(|faults| faults.remove) {
            return Err(broken());
        }
        if let Some(content) = self.find(name) {
            content.resize(place(bytes));
        }
        Ok(())
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.asked("rename");
        let content = self.find(from).ok_or(io::ErrorKind::NotFound)?;
        if self.disk.fails(|faults| faults.names) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.names.take(from);
        self.names.put(to, &content);
        Ok(())
    }

    pub(super) async fn sync(&self) -> io::Result<()> {
        self.disk.asked(Some(&self.path), "sync");
        self.disk.opens()?;
        let changed: BTreeSet<String> = {
            let changed = self.names.changed().into_iter();
            changed.map(|(name, _)| name).collect()
        };
        self.pass_aside().await;
        self.disk.wait_for_device().await;
        if self.disk.fails(|faults| faults.sync) {
            let mut lost = self.names.lost.borrow_mut();
            lost.extend(changed);
            return Err(broken());
        }
        let lost = self.names.lost.borrow();
        if !self.disk.faults.get().lies {
            // Names that changed since it began stay behind.
            self.names
                .sync(|name| lost.contains(name) || !changed.contains(name));
        }
        Ok(())
    }

    pub(super) fn free(&self) -> Free {
        self.disk.free()
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn size_of(&self, name: &str) -> io::Result<Option<u64>> {
        self.asked("measure");
        Ok(self.find(name).map(|content| content.size() as u64))
    }

    pub(super) fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.asked("load");
        if self.disk.fails(|faults| faults.read) {
            return Err(broken());
        }
        Ok(self.find(name).map(|content| content.bytes()))
    }

    /// Resolves once the directory is not stuck.
    pub(super) async fn pass_aside(&self) {
        self.disk.held.pass_aside(Some(&self.path)).await;
    }

    pub(super) async fn replace(&self, name: &str, bytes: Vec<u8>) -> Result<(), ReplaceError> {
        self.pass_aside().await;
        let number = self.temporary.replace(self.temporary.get() + 1);
        let temporary = format!("{name}.{number}{TEMPORARY}");
        let file = self
            .create_file(&temporary)
            .map_err(ReplaceError::Unwritten)?;
        breathe().await;
        let written = match file.write_at(&bytes, 0) {
            Ok(()) => file.flush().await,
            Err(cause) => Err(cause),
        };
        if let Err(cause) = written {
            self.names.take(&temporary);
            return Err(ReplaceError::Unwritten(cause));
        }
        self.names.take(&temporary);
        self.names.put(name, &file.content);
        self.sync().await.map_err(ReplaceError::Unsynced)
    }
}

fn place(position: u64) -> usize {
    usize::try_from(position).expect("the disk fits in memory")
}
