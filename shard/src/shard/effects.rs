//! What a change to a shard asks of its core: whoever changes one returns them, and the owner applies
//! them.

use felix_core::Monotonic;

/// What a change to a shard asks of its core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub(crate) struct Effects {
    /// There is something to flush.
    pub(crate) dirty: bool,
    /// Something was written that is flushed where too much is dirty, and otherwise when the kernel
    /// pleases.
    pub(crate) written: bool,
    /// A round of flushes is to begin at once.
    pub(crate) presses: bool,
    /// An append was parked, to be refused by then.
    pub(crate) deadline: Option<Monotonic>,
    /// There is enough that is not flushed for the kernel to begin to write it.
    pub(crate) sends: bool,
    /// The visible end moved: watches fire.
    pub(crate) moved: bool,
    /// There is a batch to be cut.
    pub(crate) cut: bool,
    /// There is a batch to be written beside the core.
    pub(crate) aside: bool,
    /// There are parked appends and room for them.
    pub(crate) room: bool,
    /// Little is left of the space that was prepared for it.
    pub(crate) wants_space: bool,
    /// Appends wait for the generation table.
    pub(crate) unsaved: bool,
    /// A segment has begun that is to be sealed some time.
    pub(crate) begun: bool,
    /// The disk took no more.
    pub(crate) full: bool,
    /// The shard failed: its state changed.
    pub(crate) failed: bool,
    /// There are appends whose callers are to be told.
    pub(crate) settled: bool,
}
