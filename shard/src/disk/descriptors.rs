//! Which files of a core are open. A log may have more segments than the process may have files, so
//! those that were not used for a while are closed and opened again when they are wanted. A file with
//! writes that no flush has made durable stays open: the kernel reports a failed write-back to
//! whoever had the file open, and nobody else need ever hear of it.

use glommio::io::BufferedFile;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::rc::{Rc, Weak};

use super::sys;

/// Files of one core that are looked at in one go for one to close.
const LOOKS_MAX: usize = 64;

thread_local! {
    static DESCRIPTORS: Descriptors = Descriptors::default();
}

/// Keeps about this many files of this core open, from now on. More where more have writes that are
/// not durable.
pub(crate) fn keep_open(files_max: usize) {
    DESCRIPTORS.with(|descriptors| descriptors.files_max.set(files_max));
}

/// Files of this core that are open.
pub(crate) fn open_files() -> usize {
    DESCRIPTORS.with(|descriptors| descriptors.open.get())
}

/// Files of this core that were looked at because there were many.
#[cfg(test)]
pub(super) fn swept() -> usize {
    DESCRIPTORS.with(|descriptors| descriptors.swept.get())
}

/// Closes a file that is only read because there is no descriptor left for another. Whether one was.
pub(super) fn make_room() -> bool {
    DESCRIPTORS.with(|descriptors| descriptors.close_one(Slot::close_read))
}

/// The open files of a core, in the order in which they were opened.
struct Descriptors {
    files_max: Cell<usize>,
    open: Cell<usize>,
    /// Each once. Some are closed meanwhile, or gone.
    order: RefCell<VecDeque<Weak<Slot>>>,
    /// How many there are when those that are closed are taken out: twice as many as were left the last
    /// time, so that an opening costs the same however many files there are.
    swept_at: Cell<usize>,
    #[cfg(test)]
    swept: Cell<usize>,
}

impl Default for Descriptors {
    fn default() -> Self {
        Self {
            files_max: Cell::new(usize::MAX),
            open: Cell::new(0),
            order: RefCell::default(),
            swept_at: Cell::new(LOOKS_MAX),
            #[cfg(test)]
            swept: Cell::new(0),
        }
    }
}

impl Descriptors {
    fn opened(&self, slot: &Rc<Slot>) {
        self.open.set(self.open.get() + 1);
        if !slot.listed.replace(true) {
            self.sweep();
            self.order.borrow_mut().push_back(Rc::downgrade(slot));
        }
        self.trim();
    }

    /// Takes out files that are closed, where there are many in the list.
    fn sweep(&self) {
        let mut order = self.order.borrow_mut();
        if order.len() < self.swept_at.get() {
            return;
        }
        #[cfg(test)]
        self.swept.set(self.swept.get() + order.len());
        order.retain(|slot| {
            let slot = slot.upgrade();
            slot.is_some_and(|slot| {
                slot.listed.set(slot.is_open());
                slot.is_open()
            })
        });
        self.swept_at.set(2 * order.len() + LOOKS_MAX);
    }

    fn trim(&self) {
        while self.open.get() > self.files_max.get() && self.close_one(Slot::close) {}
    }

    /// Closes the file that was opened first, of those that nobody uses, that were not used since
    /// they were last passed over, and that have nothing to lose.
    fn close_one(&self, close: impl Fn(&Slot) -> bool) -> bool {
        for _ in 0..LOOKS_MAX {
            let first = self.order.borrow_mut().pop_front();
            let Some(first) = first else { return false };
            let Some(slot) = first.upgrade() else {
                continue;
            };
            slot.listed.set(false);
            if close(&slot) {
                return true;
            }
            if slot.is_open() {
                slot.listed.set(true);
                self.order.borrow_mut().push_back(first);
            }
        }
        false
    }
}

/// An open file, for the calls that wait and for those that do not.
#[derive(Debug)]
pub(super) struct Handle {
    // Before `ring`, which closes the descriptor both share.
    pub(super) view: ManuallyDrop<std::fs::File>,
    pub(super) ring: BufferedFile,
}

impl Handle {
    /// The handle of a file that the standard library opened.
    pub(super) fn new(file: std::fs::File) -> Self {
        Self::over(sys::to_ring(file))
    }

    /// The handle of a file that the executor opened.
    pub(super) fn over(ring: BufferedFile) -> Self {
        Self {
            view: sys::view(&ring),
            ring,
        }
    }
}

/// A file's place among those that are open.
#[derive(Debug, Default)]
pub(super) struct Slot {
    handle: RefCell<Option<Rc<Handle>>>,
    /// It is in the core's list.
    listed: Cell<bool>,
    used: Cell<bool>,
    /// It is open to be appended to.
    grows: Cell<bool>,
    /// Counts the changes that are not known to be durable.
    changes: Cell<u64>,
    durable: Cell<u64>,
}

impl Slot {
    /// Takes in the handle of a file that was just opened, and gives out the one that serves.
    pub(super) fn put(self: &Rc<Self>, handle: Handle) -> Rc<Handle> {
        // Another task may have been faster: two descriptors would each know half of what failed.
        if let Some(open) = self.get() {
            return open;
        }
        let handle = Rc::new(handle);
        *self.handle.borrow_mut() = Some(Rc::clone(&handle));
        DESCRIPTORS.with(|descriptors| descriptors.opened(self));
        handle
    }

    /// The handle, if the file is open.
    pub(super) fn get(&self) -> Option<Rc<Handle>> {
        self.used.set(true);
        self.handle.borrow().clone()
    }

    /// The handle; opens the file on the spot if it is not open.
    pub(super) fn open_now(self: &Rc<Self>, path: &Path) -> io::Result<Rc<Handle>> {
        if let Some(handle) = self.get() {
            return Ok(handle);
        }
        let open = || {
            std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
        };
        Ok(self.put(Handle::new(open()?)))
    }

    /// The file changes: it stays open until a flush has ended that began after this.
    pub(super) fn changes(&self) {
        self.grows.set(true);
        self.changes.set(self.changes.get() + 1);
    }

    /// What a flush that begins now covers.
    pub(super) fn changed(&self) -> u64 {
        self.changes.get()
    }

    /// A flush has ended well.
    pub(super) fn flushed(&self, covered: u64) {
        self.durable.set(self.durable.get().max(covered));
        DESCRIPTORS.with(Descriptors::trim);
    }

    /// Whether the file is open.
    pub(super) fn is_open(&self) -> bool {
        self.handle.borrow().is_some()
    }

    /// Closes the file, if nobody uses it and it has nothing to lose: it will not be used soon.
    pub(super) fn rest(&self) {
        self.used.set(false);
        self.close();
    }

    /// It will be appended to.
    pub(super) fn grows(&self) {
        self.grows.set(true);
    }

    /// It will not be appended to any more.
    pub(super) fn sealed(&self) {
        self.grows.set(false);
    }

    /// Closes the file, unless it is appended to: where no file can be opened it would not be opened
    /// again, and one read or roll is not worth all appends to another log.
    fn close_read(&self) -> bool {
        !self.grows.get() && self.close()
    }

    fn close(&self) -> bool {
        let is_busy = self.handle.borrow().as_ref().map(Rc::strong_count) != Some(1);
        let is_dirty = self.durable.get() < self.changes.get();
        if is_busy || is_dirty || self.used.replace(false) {
            return false;
        }
        self.shut();
        true
    }

    fn shut(&self) {
        let handle = self.handle.borrow_mut().take();
        self.grows.set(false);
        if handle.is_some() {
            drop(handle);
            // At the end of a thread there may be nobody left who counts.
            let counted = DESCRIPTORS
                .try_with(|descriptors| descriptors.open.set(descriptors.open.get() - 1));
            counted.ok();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shut();
    }
}
