//! Which files of a core are open. A log may have more segments than the process may have files, so
//! those that were not used for a while are closed and opened again when they are wanted. A file with
//! writes that no flush has made durable stays open: the kernel reports a failed write-back to
//! whoever had the file open, and nobody else need ever hear of it.
//!
//! Where the process may open no more, another is closed for the one that is wanted, but none that was
//! appended to lately: it could not be opened again either, and one read or roll is not worth all
//! appends to another log.

use felix_core::{Clock, Monotonic};
use glommio::io::BufferedFile;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::{is_out_of_files, sys};
use crate::runtime;

/// Files of one core that are looked at in one go for one to close.
const LOOKS_MAX: usize = 64;

/// The same where there is no descriptor left: some ten microseconds.
const WANT_LOOKS_MAX: usize = 1024;

/// What the ring may take to close a file.
const CLOSING: Duration = Duration::from_millis(1);

/// A file that was not appended to for so long may be closed for the want of a descriptor.
const LATELY: Duration = Duration::from_secs(60);

thread_local! {
    static DESCRIPTORS: Descriptors = Descriptors::default();
}

/// Keeps about this many files of this core open, from now on. More where more have writes that are
/// not durable.
pub(crate) fn keep_open(files_max: usize) {
    DESCRIPTORS.with(|descriptors| descriptors.files_max.set(files_max));
}

/// What time it is on this core, from now on. Without a clock no file is known to be idle.
pub(crate) fn keep_time(clock: Rc<dyn Clock>) {
    DESCRIPTORS.with(|descriptors| *descriptors.clock.borrow_mut() = Some(clock));
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

/// Closes a file, because there is no descriptor left for another. Whether one was.
pub(super) fn make_room() -> bool {
    DESCRIPTORS.with(Descriptors::close_for_want)
}

/// Does what takes a descriptor, and again each time that none is left and a file could be closed for
/// it. `wanted` says whether that is what it failed at, and then nothing may have come of it.
pub(super) async fn with_room<T, E>(
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
    wanted: impl Fn(&E) -> bool,
) -> Result<T, E> {
    loop {
        match attempt().await {
            Err(error) if wanted(&error) && make_room() => {
                // The descriptor is free once the ring has closed it.
                runtime::sleep(CLOSING).await;
            }
            done => return done,
        }
    }
}

/// What came of something that took a descriptor on the spot. Where none was left a file is closed, so
/// that whoever tries again finds one.
pub(super) fn noting_want<T>(done: io::Result<T>) -> io::Result<T> {
    if done.as_ref().is_err_and(is_out_of_files) {
        make_room();
    }
    done
}

/// What a file is open for, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Purpose {
    #[default]
    Reads,
    Appends,
}

/// The open files of a core.
struct Descriptors {
    files_max: Cell<usize>,
    open: Cell<usize>,
    /// In the order in which they were opened or passed over; one that has got another purpose is in
    /// both. Some are closed meanwhile, or gone.
    reads: RefCell<VecDeque<Weak<Slot>>>,
    appends: RefCell<VecDeque<Weak<Slot>>>,
    /// How many there are when those that are closed are taken out: twice as many as were left the last
    /// time, so that an opening costs the same however many files there are.
    swept_at: Cell<usize>,
    clock: RefCell<Option<Rc<dyn Clock>>>,
    #[cfg(test)]
    swept: Cell<usize>,
}

impl Default for Descriptors {
    fn default() -> Self {
        Self {
            files_max: Cell::new(usize::MAX),
            open: Cell::new(0),
            reads: RefCell::default(),
            appends: RefCell::default(),
            swept_at: Cell::new(LOOKS_MAX),
            clock: RefCell::default(),
            #[cfg(test)]
            swept: Cell::new(0),
        }
    }
}

impl Descriptors {
    fn opened(&self, slot: &Rc<Slot>) {
        self.open.set(self.open.get() + 1);
        if slot.listed.get() != Some(slot.purpose.get()) {
            self.list(slot);
        }
        self.trim();
    }

    fn of(&self, purpose: Purpose) -> &RefCell<VecDeque<Weak<Slot>>> {
        match purpose {
            Purpose::Reads => &self.reads,
            Purpose::Appends => &self.appends,
        }
    }

    fn list(&self, slot: &Rc<Slot>) {
        self.sweep();
        let purpose = slot.purpose.get();
        slot.listed.set(Some(purpose));
        let mut list = self.of(purpose).borrow_mut();
        list.push_back(Rc::downgrade(slot));
    }

    /// Takes out files that are closed, where there are many in the lists.
    fn sweep(&self) {
        let listed = self.reads.borrow().len() + self.appends.borrow().len();
        if listed < self.swept_at.get() {
            return;
        }
        #[cfg(test)]
        self.swept.set(self.swept.get() + listed);
        let mut left = 0;
        for purpose in [Purpose::Reads, Purpose::Appends] {
            let mut list = self.of(purpose).borrow_mut();
            list.retain(|slot| {
                let listed = slot
                    .upgrade()
                    .filter(|slot| slot.listed.get() == Some(purpose));
                listed.is_some_and(|slot| {
                    if !slot.is_open() {
                        slot.listed.set(None);
                    }
                    slot.is_open()
                })
            });
            left += list.len();
        }
        self.swept_at.set(2 * left + LOOKS_MAX);
    }

    /// A slot's purpose has changed.
    fn moved(&self, slot: &Rc<Slot>) {
        if slot.is_open() {
            self.list(slot);
        }
    }

    fn now(&self) -> Monotonic {
        let clock = self.clock.borrow();
        clock
            .as_ref()
            .map_or(Monotonic::default(), |clock| clock.monotonic())
    }

    fn trim(&self) {
        let unused =
            || self.close_one(Purpose::Reads, &UNUSED) || self.close_one(Purpose::Appends, &UNUSED);
        // The second time finds those that were used before the first.
        while self.open.get() > self.files_max.get() && (unused() || unused()) {}
    }

    /// One that is only read, one of a log that is idle, or one that is read much.
    fn close_for_want(&self) -> bool {
        let idle = Choice {
            idle_at: Some(self.now()),
            ..ANY
        };
        self.close_one(Purpose::Reads, &UNUSED)
            || self.close_one(Purpose::Appends, &idle)
            || self.close_one(Purpose::Reads, &ANY)
    }

    /// Closes the file that was opened first, of those that are open for this, that nobody uses, that
    /// have nothing to lose, and that are of the choice.
    fn close_one(&self, purpose: Purpose, choice: &Choice) -> bool {
        let list = self.of(purpose);
        let looks = list.borrow().len().min(choice.looks_max);
        for _ in 0..looks {
            let first = list.borrow_mut().pop_front();
            let slot = first.as_ref().and_then(Weak::upgrade);
            let Some(slot) = slot.filter(|slot| slot.listed.get() == Some(purpose)) else {
                continue;
            };
            if slot.is(choice) && slot.close() {
                slot.listed.set(None);
                return true;
            }
            if slot.is_open() {
                list.borrow_mut().extend(first);
            } else {
                slot.listed.set(None);
            }
        }
        false
    }
}

/// Which files may be closed.
struct Choice {
    /// So many are looked at.
    looks_max: usize,
    /// Also those that were used since they were last passed over.
    used: bool,
    /// Only those that were not appended to lately, as of then.
    idle_at: Option<Monotonic>,
}

const UNUSED: Choice = Choice {
    looks_max: LOOKS_MAX,
    used: false,
    idle_at: None,
};

const ANY: Choice = Choice {
    looks_max: WANT_LOOKS_MAX,
    used: true,
    idle_at: None,
};

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
    /// In which of the core's lists it is.
    listed: Cell<Option<Purpose>>,
    purpose: Cell<Purpose>,
    used: Cell<bool>,
    /// When it was made, or what was appended last was flushed. No append asks what time it is: until
    /// it is flushed its file stays open anyway.
    appended: Cell<Monotonic>,
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
        let mut options = std::fs::OpenOptions::new();
        let opened = options.read(true).write(true).open(path);
        Ok(self.put(Handle::new(noting_want(opened)?)))
    }

    /// The file changes: it stays open until a flush has ended that began after this.
    pub(super) fn changes(self: &Rc<Self>) {
        self.will_grow();
        self.changes.set(self.changes.get() + 1);
    }

    /// What a flush that begins now covers.
    pub(super) fn changed(&self) -> u64 {
        self.changes.get()
    }

    /// A flush has ended well.
    pub(super) fn flushed(&self, covered: u64) {
        self.durable.set(self.durable.get().max(covered));
        DESCRIPTORS.with(|descriptors| {
            self.appended.set(descriptors.now());
            descriptors.trim();
        });
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

    /// It is appended to, or about to be.
    pub(super) fn will_grow(self: &Rc<Self>) {
        DESCRIPTORS.with(|descriptors| {
            if self.purpose.replace(Purpose::Appends) != Purpose::Appends {
                self.appended.set(descriptors.now());
                descriptors.moved(self);
            }
        });
    }

    /// It will not be appended to any more.
    pub(super) fn seal(self: &Rc<Self>) {
        if self.purpose.replace(Purpose::Reads) != Purpose::Reads {
            DESCRIPTORS.with(|descriptors| descriptors.moved(self));
        }
    }

    /// Whether it is one of these. One that was used is not one that was not, the next time.
    fn is(&self, choice: &Choice) -> bool {
        let is_idle = choice
            .idle_at
            .is_none_or(|now| now.until(self.appended.get()) >= LATELY);
        let was_used = is_idle && self.used.replace(false);
        is_idle && (choice.used || !was_used)
    }

    fn close(&self) -> bool {
        let is_busy = self.handle.borrow().as_ref().map(Rc::strong_count) != Some(1);
        let is_dirty = self.durable.get() < self.changes.get();
        if is_busy || is_dirty {
            return false;
        }
        self.shut();
        true
    }

    fn shut(&self) {
        let handle = self.handle.borrow_mut().take();
        self.purpose.set(Purpose::Reads);
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
