//! A disk in memory, for simulations. It keeps what is in the page cache and what is on the device
//! apart: a power loss leaves the second.

use super::real_dir::TEMPORARY;
use super::{Patience, ReplaceError};
use crate::runtime::{breathe, simulated};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The disk of the simulation that this thread runs, if it runs one.
pub(crate) fn current() -> Option<Rc<MemoryDisk>> {
    simulated::current().map(|simulation| Rc::clone(simulation.disk()))
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MemoryDisk {
    dirs: RefCell<BTreeMap<PathBuf, Rc<Names>>>,
}

/// The names in a directory: those that the kernel knows, and those on the device.
#[derive(Debug, Default)]
struct Names {
    cached: RefCell<BTreeMap<String, Rc<Content>>>,
    durable: RefCell<BTreeMap<String, Rc<Content>>>,
}

/// What a file holds: in the page cache, and on the device.
#[derive(Debug, Default)]
struct Content {
    cached: RefCell<Vec<u8>>,
    durable: RefCell<Vec<u8>>,
}

impl Content {
    fn sync(&self) {
        self.durable.borrow_mut().clone_from(&self.cached.borrow());
    }
}

impl MemoryDisk {
    /// The power fails: what was not synced is gone.
    pub(crate) fn lose_power(&self) {
        for names in self.dirs.borrow().values() {
            let durable = names.durable.borrow().clone();
            for content in durable.values() {
                content
                    .cached
                    .borrow_mut()
                    .clone_from(&content.durable.borrow());
            }
            *names.cached.borrow_mut() = durable;
        }
    }

    pub(super) async fn open_dir(&self, path: &Path) -> io::Result<MemoryDir> {
        breathe().await;
        let names = Rc::clone(self.dirs.borrow_mut().entry(path.to_owned()).or_default());
        Ok(MemoryDir {
            path: path.to_owned(),
            names,
            temporary: Cell::default(),
        })
    }
}

/// A directory of the disk.
#[derive(Debug)]
pub(crate) struct MemoryDir {
    path: PathBuf,
    names: Rc<Names>,
    temporary: Cell<u64>,
}

impl MemoryDir {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &str, content: &Rc<Content>) -> MemoryFile {
        MemoryFile {
            path: self.path.join(name),
            content: Rc::clone(content),
        }
    }

    fn find(&self, name: &str) -> Option<Rc<Content>> {
        self.names.cached.borrow().get(name).cloned()
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn list(&self) -> io::Result<Vec<OsString>> {
        let mut names = self.names.cached.borrow_mut();
        names.retain(|name, _| !name.ends_with(TEMPORARY));
        Ok(names.keys().map(OsString::from).collect())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn open_file(&self, name: &str) -> io::Result<Option<MemoryFile>> {
        Ok(self.find(name).map(|content| self.file(name, &content)))
    }

    pub(super) fn create_file(&self, name: &str) -> io::Result<MemoryFile> {
        let mut names = self.names.cached.borrow_mut();
        if names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content: Rc<Content> = Rc::default();
        names.insert(name.to_owned(), Rc::clone(&content));
        Ok(self.file(name, &content))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        self.names.cached.borrow_mut().remove(name);
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn cut_file(&self, name: &str, bytes: u64) -> io::Result<()> {
        if let Some(content) = self.find(name) {
            content.cached.borrow_mut().resize(place(bytes), 0);
        }
        Ok(())
    }

    pub(super) async fn sync(&self) -> io::Result<()> {
        breathe().await;
        let cached = self.names.cached.borrow().clone();
        *self.names.durable.borrow_mut() = cached;
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn size_of(&self, name: &str) -> io::Result<Option<u64>> {
        let found = self.find(name);
        Ok(found.map(|content| content.cached.borrow().len() as u64))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self
            .find(name)
            .map(|content| content.cached.borrow().clone()))
    }

    pub(super) async fn replace(&self, name: &str, bytes: Vec<u8>) -> Result<(), ReplaceError> {
        let number = self.temporary.replace(self.temporary.get() + 1);
        let temporary = format!("{name}.{number}{TEMPORARY}");
        let content: Rc<Content> = Rc::default();
        self.names
            .cached
            .borrow_mut()
            .insert(temporary.clone(), Rc::clone(&content));
        breathe().await;
        *content.cached.borrow_mut() = bytes;
        breathe().await;
        content.sync();
        {
            let mut names = self.names.cached.borrow_mut();
            names.remove(&temporary);
            names.insert(name.to_owned(), content);
        }
        self.sync().await.map_err(ReplaceError::Unsynced)
    }
}

/// An open file of the disk.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    path: PathBuf,
    content: Rc<Content>,
}

impl MemoryFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn size(&self) -> u64 {
        self.content.cached.borrow().len() as u64
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut cached = self.content.cached.borrow_mut();
        let start = place(position);
        let end = start + bytes.len();
        if cached.len() < end {
            cached.resize(end, 0);
        }
        cached[start..end].copy_from_slice(bytes);
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.content.cached.borrow_mut().resize(place(bytes), 0);
        Ok(())
    }

    pub(super) async fn flush(&self) -> io::Result<()> {
        breathe().await;
        self.content.sync();
        Ok(())
    }

    pub(super) async fn read(
        &self,
        position: u64,
        bytes_max: usize,
        patience: Patience,
    ) -> io::Result<Bytes> {
        if patience == Patience::Wait {
            breathe().await;
        }
        let cached = self.content.cached.borrow();
        let start = place(position).min(cached.len());
        let end = start.saturating_add(bytes_max).min(cached.len());
        Ok(Bytes::copy_from_slice(&cached[start..end]))
    }
}

fn place(position: u64) -> usize {
    usize::try_from(position).expect("the disk fits in memory")
}
