//! A word said once on a CPU core: to a waiting Fetch, that it is to answer with what it has; to
//! all connections, that the broker is shutting down.

use felix_core::shards::PollEnd;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Can be raised once; whoever waits for it then goes on. Clones are the same signal. Lives on one
/// CPU core.
#[derive(Clone, Debug, Default)]
pub struct Signal(Rc<State>);

#[derive(Debug, Default)]
struct State {
    raised: Cell<bool>,
    next_waiter: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
}

impl Signal {
    /// Raises it. Again is nothing new.
    pub fn raise(&self) {
        self.0.raised.set(true);
        let waiting = std::mem::take(&mut *self.0.waiting.borrow_mut());
        for waker in waiting.into_values() {
            waker.wake();
        }
    }

    /// Whether it has been raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.raised.get()
    }

    /// Resolves when it is raised, at once if it has been.
    #[must_use]
    pub fn raised(&self) -> Raised {
        Raised {
            state: Rc::clone(&self.0),
            waiter: None,
        }
    }

    /// Whether no clone is left: whoever was told to listen to it has finished.
    pub(crate) fn is_alone(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }
}

impl PollEnd for Signal {
    fn ended(&self) -> impl Future<Output = ()> + 'static {
        self.raised()
    }
}

/// The wait for a [`Signal`].
#[derive(Debug)]
pub struct Raised {
    state: Rc<State>,
    waiter: Option<u64>,
}

impl Future for Raised {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.state.raised.get() {
            return Poll::Ready(());
        }
        let waiter = match self.waiter {
            Some(waiter) => waiter,
            None => {
                let waiter = self.state.next_waiter.get();
                self.state.next_waiter.set(waiter + 1);
                self.waiter = Some(waiter);
                waiter
            }
        };
        self.state
            .waiting
            .borrow_mut()
            .insert(waiter, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.state.waiting.borrow_mut().remove(&waiter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn whoever_waits_goes_on_when_it_is_raised_and_later_waiters_at_once() {
        let signal = Signal::default();
        let mut before = signal.raised();
        assert!((&mut before).now_or_never().is_none());
        signal.raise();
        assert!(before.now_or_never().is_some());
        assert!(signal.raised().now_or_never().is_some());
    }

    #[test]
    fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let signal = Signal::default();
        let mut wait = signal.raised();
        assert!((&mut wait).now_or_never().is_none());
        assert!(!signal.is_alone());
        drop(wait);
        assert!(signal.is_alone());
        assert!(signal.0.waiting.borrow().is_empty());
    }
}
