//! Directories of a disk in memory that are stuck: what is asked of them aside, or flushed, goes on once
//! they are let go of.

use crate::event::Event;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Held {
    dirs: RefCell<BTreeSet<PathBuf>>,
    waiting: Cell<usize>,
    /// Directories whose flushes find no descriptor.
    starved: RefCell<BTreeSet<PathBuf>>,
    /// What was asked on the core's own thread of one that was stuck: the core would hang there.
    hung: RefCell<BTreeSet<&'static str>>,
    let_go: Event,
}

impl Held {
    /// The directory is stuck from now on.
    pub(crate) fn hold(&self, dir: &Path) {
        self.dirs.borrow_mut().insert(dir.to_owned());
    }

    /// Flushes of files in the directory find no descriptor from now on.
    pub(crate) fn starve(&self, dir: &Path) {
        self.starved.borrow_mut().insert(dir.to_owned());
    }

    pub(super) fn starves(&self, dir: Option<&Path>) -> bool {
        dir.is_some_and(|dir| self.starved.borrow().contains(dir))
    }

    /// Nothing is stuck any more, and there are descriptors.
    pub(crate) fn let_go(&self) {
        self.starved.borrow_mut().clear();
        self.dirs.borrow_mut().clear();
        self.let_go.notify();
    }

    /// Work on blocking threads that is stuck.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// What was asked so far, by the core itself, of a directory that was stuck.
    pub(crate) fn hung(&self) -> Vec<&'static str> {
        self.hung.borrow().iter().copied().collect()
    }

    /// The core itself asks that of the directory.
    pub(super) fn on_core(&self, dir: Option<&Path>, what: &'static str) {
        if dir.is_some_and(|dir| self.dirs.borrow().contains(dir)) {
            self.hung.borrow_mut().insert(what);
        }
    }

    /// Resolves once the directory is not stuck.
    pub(super) async fn pass(&self, dir: Option<&Path>) {
        let is_free = || !dir.is_some_and(|dir| self.dirs.borrow().contains(dir));
        self.let_go.until(is_free).await;
    }

    /// The same for what takes a blocking thread meanwhile.
    pub(in crate::disk) async fn pass_aside(&self, dir: Option<&Path>) {
        self.waiting.set(self.waiting.get() + 1);
        self.pass(dir).await;
        self.waiting.set(self.waiting.get() - 1);
    }
}
