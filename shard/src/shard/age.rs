//! How long what was appended to a shard has waited to be durable.

use felix_core::Monotonic;
use std::cell::Cell;

/// See the module. Kept for shards that are flushed every interval.
#[derive(Debug, Default)]
pub(crate) struct Age {
    /// The oldest append that no flush covers, be it under way.
    unflushed: Cell<Option<Monotonic>>,
    /// The oldest append that the flush under way covers.
    flushing: Cell<Option<Monotonic>>,
    /// Nobody watches `unflushed` yet.
    is_new: Cell<bool>,
    /// The latest append of which was told that it waits for too long.
    told: Cell<Option<Monotonic>>,
}

impl Age {
    /// Something was appended.
    pub(crate) fn appended(&self, now: Monotonic) {
        if self.unflushed.get().is_none() {
            self.unflushed.set(Some(now));
            self.is_new.set(true);
        }
    }

    /// Since when the oldest append waits that no flush covers.
    pub(crate) fn unflushed(&self) -> Option<Monotonic> {
        self.unflushed.get()
    }

    /// The same, once for each such append.
    pub(crate) fn take_new(&self) -> Option<Monotonic> {
        self.unflushed.get().filter(|_| self.is_new.take())
    }

    /// A flush begins, and covers everything.
    pub(crate) fn begin_flush(&self) {
        let oldest = self.unflushed.take();
        self.flushing.set(oldest);
    }

    /// It has ended. Since when what it covers has waited.
    pub(crate) fn end_flush(&self) -> Option<Monotonic> {
        self.flushing.take()
    }

    /// It has ended, and covers nothing.
    pub(crate) fn flush_was_refused(&self) {
        if let Some(oldest) = self.flushing.take() {
            self.unflushed.set(Some(oldest));
        }
    }

    /// Nothing waits any more: it is durable, or will never be.
    pub(crate) fn forget(&self) {
        self.unflushed.set(None);
        self.flushing.set(None);
    }

    /// Whether the append of that moment still waits.
    pub(crate) fn is_waiting(&self, since: Monotonic) -> bool {
        self.unflushed.get() == Some(since) || self.flushing.get() == Some(since)
    }

    /// It is told that the append of that moment waits for too long. Whether that is news.
    pub(crate) fn tell(&self, since: Monotonic) -> bool {
        let is_news = self.told.get() < Some(since);
        if is_news {
            self.told.set(Some(since));
        }
        is_news
    }
}
