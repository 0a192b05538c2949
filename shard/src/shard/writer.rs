//! What an append needs of its core.

use super::Effects;
use crate::call::Unplaced;
use crate::log::LogError;
use crate::metrics::CoreMetrics;
use crate::space::Space;
use crate::spec::ShardSpec;
use crate::tail::Tail;
use felix_core::stalls::Work;
use felix_core::{Monotonic, ShardError, Stalls, Timestamp};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A write to the page cache that takes longer is counted: the device or the kernel is in the way.
const LONG_WRITE: Duration = Duration::from_millis(1);

/// What an append needs of its core.
#[derive(Debug)]
pub(crate) struct Writer<'core> {
    pub(crate) tail: &'core RefCell<Tail>,
    pub(crate) metrics: &'core CoreMetrics,
    pub(crate) stalls: &'core Stalls,
    pub(crate) space: &'core Space,
    pub(crate) now: Timestamp,
    /// What is larger is written beside the core.
    pub(crate) on_core_bytes_max: usize,
    /// When the next batch is begun with: the clock is read once for each, at its end.
    pub(crate) begun: Cell<Monotonic>,
}

impl Writer<'_> {
    /// A batch has been written to a shard's log; when that began, and the time.
    pub(super) fn wrote(&self, spec: &ShardSpec) -> [Monotonic; 2] {
        let begun = self.begun.get();
        let now = self.stalls.end(begun, Work::Append, || spec.name.clone());
        if now.until(begun) > LONG_WRITE {
            self.metrics.long_writes.increment();
        }
        self.begun.set(now);
        [begun, now]
    }

    /// A batch is refused for want of space.
    pub(super) fn refuse(&self, caller: Unplaced, full: ShardError) {
        self.metrics.refused_appends.increment();
        caller.refuse(full);
    }

    /// A batch was not written. An error is one of the log that fails it.
    pub(super) fn not_placed(
        &self,
        caller: Unplaced,
        error: LogError,
    ) -> Result<Effects, LogError> {
        if error.is_full() {
            self.refuse(caller, self.space.refusal());
            return Ok(Effects {
                full: true,
                ..Effects::default()
            });
        }
        let is_refusal = error.is_refusal();
        caller.refuse(ShardError::Storage(error.to_string()));
        if is_refusal {
            self.metrics.tell_refusal(self.begun.get(), &error);
            return Ok(Effects::default());
        }
        Err(error)
    }
}
