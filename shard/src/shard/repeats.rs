//! Batches that were sent again while the ones they repeat await their commit.

use super::Waiting;
use felix_core::Offset;
use std::collections::BTreeMap;

/// Who waits, by the end of the records that were sent again: those commit, or fail, together with
/// the batch that holds them.
#[derive(Debug, Default)]
pub(crate) struct Repeats(BTreeMap<Offset, Vec<Waiting>>);

impl Repeats {
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.0.entry(waiting.end).or_default().push(waiting);
    }

    /// One of them.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let mut first = self.0.first_entry()?;
        let waiting = first.get_mut().pop();
        if first.get().is_empty() {
            first.remove();
        }
        waiting
    }

    /// One of those below the high watermark.
    pub(super) fn pop_committed(&mut self, mark: Offset) -> Option<Waiting> {
        if self.has_committed(mark) {
            self.pop()
        } else {
            None
        }
    }

    pub(super) fn has_committed(&self, mark: Offset) -> bool {
        self.0
            .first_key_value()
            .is_some_and(|(end, _)| *end <= mark)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
