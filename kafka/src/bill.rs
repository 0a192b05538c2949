//! What a Fetch may cost of the core's memory for answers, and how it pays.

use crate::charge::Charge;
use felix_core::memory::{Pool, Promise};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// What one Fetch was promised, and what it waits for beyond that. The Fetch says what it needs; the
/// connection gets it, once all that is to be sent before is sent. Lives with its connection.
#[derive(Debug)]
pub(crate) struct Bill {
    promise: Promise,
    /// Bytes that it cannot do without.
    owed: Cell<usize>,
    /// What the connection holds for the Fetch, until its answer is there.
    payment: RefCell<Option<Charge>>,
    waker: RefCell<Option<Waker>>,
}

impl Bill {
    /// Of a Fetch that begins.
    pub(crate) fn new(pool: &Rc<Pool>) -> Self {
        Self {
            promise: Promise::new(pool),
            owed: Cell::new(0),
            payment: RefCell::new(None),
            waker: RefCell::new(None),
        }
    }

    /// Promises so many bytes, instead of those before.
    pub(crate) fn promise(&self, bytes: usize) {
        self.promise.end();
        self.promise.add(bytes);
    }

    /// The Fetch has what there is, and waits for more, or is done.
    pub(crate) fn end_promise(&self) {
        self.promise.end();
    }

    /// Resolves once the connection holds so many bytes for the Fetch, for whose answer it keeps
    /// them. To be called once.
    pub(crate) async fn pay(&self, bytes: usize) {
        assert!(self.owed.replace(bytes) == 0, "a Fetch pays once");
        poll_fn(|cx| {
            if self.payment.borrow().is_some() {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Bytes that the Fetch waits for.
    pub(crate) fn unpaid_bytes(&self) -> Option<usize> {
        Some(self.owed.get()).filter(|bytes| *bytes > 0 && self.payment.borrow().is_none())
    }

    /// The connection holds what the Fetch waits for.
    pub(crate) fn settle(&self, payment: Charge) {
        *self.payment.borrow_mut() = Some(payment);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Its answer is there, and holds what it holds.
    pub(crate) fn close(&self) {
        self.promise.end();
        drop(self.payment.take());
    }
}
