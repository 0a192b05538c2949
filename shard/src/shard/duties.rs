//! What tasks of the core are at with a shard. Kept in the shard, so that being at it twice is
//! impossible.

use super::age::Age;
use crate::event::Event;
use felix_core::Monotonic;
use std::cell::Cell;
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Duties {
    /// It is in a flusher's list.
    pub(crate) dirty: Cell<bool>,
    /// It is in the flusher's list of those that have no interval.
    pub(crate) unhurried: Cell<bool>,
    /// A round has taken it from there, and its flush, which covers whatever is written until then, has not
    /// begun.
    pub(crate) in_round: Cell<bool>,
    /// What a flusher does with it.
    pub(crate) flushing: Cell<Flushing>,
    /// Batches written that no flush covers, be it under way.
    pub(crate) unflushed: Cell<u64>,
    /// Since when they wait.
    pub(crate) age: Age,
    /// It is in the keeper's list of those that are owed upkeep.
    pub(crate) owed: Cell<bool>,
    /// It is in the keeper's list of those that are behind.
    pub(crate) behind: Cell<bool>,
    /// It is in the keeper's list of those that age.
    pub(crate) aging: Cell<bool>,
    /// It is in the list of those whose segment is to be sealed for its age.
    pub(crate) rolls: Cell<bool>,
    /// Its index files and its checkpoint are being written.
    pub(crate) keeping_up: Cell<bool>,
    /// When they could not be written, if that is so.
    pub(crate) upkeep_failed: Cell<Option<Monotonic>>,
    /// It is in line to have its generation noted.
    pub(crate) unsaved: Cell<bool>,
    /// Word of its failure is being left beside its log.
    pub(crate) noting: Cell<bool>,
    /// Its generation table is being written.
    pub(crate) saving: Cell<bool>,
    /// A large batch is being written.
    pub(crate) writing: Cell<bool>,
    /// It is in line for space.
    pub(crate) in_line: Cell<bool>,
    /// Space, or its next segment, is being prepared.
    pub(crate) preparing: Cell<bool>,
    /// When none could be prepared, if that is so.
    pub(crate) preparing_failed: Cell<Option<Monotonic>>,
    /// The kernel is being asked to write what it has not flushed.
    pub(crate) sending: Cell<bool>,
    /// When it was last opened again after a failure, and the pause before the first attempt at that.
    pub(crate) reopened: Cell<Option<(Monotonic, Duration)>>,
    /// Its parked appends are being placed.
    pub(crate) unparking: Cell<bool>,
    /// Its parked appends are refused at their deadlines.
    pub(crate) deadlines: Deadlines,
    /// Those whose appends are settled are being told.
    pub(crate) settling: Cell<bool>,
}

/// The task that refuses parked appends at their deadlines.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// When it will look next; `None`: there is no such task.
    pub(crate) until: Cell<Option<Monotonic>>,
    /// Told where it is to look sooner.
    pub(crate) sooner: Event,
}

impl Duties {
    /// Whether a task is at work on the files of the log.
    pub(crate) fn is_at_the_log(&self) -> bool {
        self.flushing.get() != Flushing::No
            || self.keeping_up.get()
            || self.preparing.get()
            || self.noting.get()
            || self.saving.get()
            || self.writing.get()
    }
}

/// Whether a flush of a shard is under way.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Flushing {
    /// None is.
    #[default]
    No,
    /// One is.
    Now,
    /// One is, and something was written that it does not cover.
    AndAgain,
}
