//! What a disk in memory does wrong, and how often.

use std::time::Duration;

/// Chances are in ten thousand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Faults {
    /// A write fails, and part of it is there.
    pub(crate) write: u32,
    /// A file is not made.
    pub(crate) create: u32,
    /// A file is not removed, or not cut.
    pub(crate) remove: u32,
    /// A directory is not listed.
    pub(crate) list: u32,
    /// A read fails.
    pub(crate) read: u32,
    /// A flush of a file fails.
    pub(crate) flush: u32,
    /// The sync of a directory fails.
    pub(crate) sync: u32,
    /// A flush takes `slow`.
    pub(crate) stall: u32,
    /// How long a slow flush takes.
    pub(crate) slow: Duration,
    /// What a write beside the core takes, between the first half and the second.
    pub(crate) slow_write: Duration,
    /// What opens a file finds no descriptor left for it. Files that are open may be closed, here, at
    /// any time, also where something of them is not flushed.
    pub(crate) descriptors: u32,
    /// A file is not given another name, for want of space in the directory.
    pub(crate) names: u32,
    /// Bytes of all files together; `None`: no bound.
    pub(crate) capacity: Option<usize>,
    /// Flushes say that they have flushed, and do not: no engine is safe on such a disk, and
    /// whoever checks one is to notice.
    pub(crate) lies: bool,
}

impl Faults {
    /// A disk that does what it is asked to.
    pub(crate) const NONE: Self = Self {
        write: 0,
        create: 0,
        remove: 0,
        list: 0,
        read: 0,
        flush: 0,
        sync: 0,
        stall: 0,
        slow: Duration::ZERO,
        slow_write: Duration::ZERO,
        descriptors: 0,
        names: 0,
        capacity: None,
        lies: false,
    };
}
