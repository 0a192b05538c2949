//! What one connection may do before other tasks of its core get their turn.

use felix_core::limits::BATCH_BYTES_ON_CORE_MAX;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// Bytes of requests handled before other tasks of the core get their turn.
pub(crate) const BYTES_PER_TURN_MAX: usize = 128 << 10;

/// Bytes of batches parsed, as sent and decompressed, after which no further one is begun in the
/// same turn. Half of the largest that a core parses: of those, each has a turn to itself.
const PARSED_BYTES_PER_TURN_MAX: usize = BATCH_BYTES_ON_CORE_MAX / 2;

/// Bytes that a connection has parsed in the turn it has now. Clones are the same turn. Lives with
/// its connection, whose polls each begin a new one: only that gives other tasks theirs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn(Rc<Cell<usize>>);

impl Turn {
    /// A new turn begins.
    pub(crate) fn begin(&self) {
        self.0.set(0);
    }

    /// So much of it is used.
    pub(crate) fn spend(&self, bytes: usize) {
        self.0.set(self.0.get().saturating_add(bytes));
    }

    /// Whether it is used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.get() >= PARSED_BYTES_PER_TURN_MAX
    }

    /// Waits for the next turn where this one is used up.
    pub(crate) async fn room(&self) {
        poll_fn(|cx| {
            if !self.is_spent() {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn who_has_used_up_a_turn_waits_for_the_next_however_often_it_asks() {
        let turn = Turn::default();
        let same = turn.clone();
        turn.spend(PARSED_BYTES_PER_TURN_MAX - 1);
        assert!(turn.room().now_or_never().is_some());
        turn.spend(1);
        for _ in 0..3 {
            assert!(turn.room().now_or_never().is_none());
        }
        same.begin();
        assert!(turn.room().now_or_never().is_some());
    }
}
