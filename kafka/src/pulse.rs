//! What a connection shows of itself to whoever watches over all of a core's connections.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// When a connection is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Once everything begun is answered and sent; nothing more is read.
    Cleanly,
    /// Now, whatever it owes.
    AtOnce,
}

/// Of what a connection holds memory for something that only its peer can go on with.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Holding {
    /// A request that is paid for and has not arrived whole.
    pub request: bool,
    /// Answers that the peer has not taken.
    pub answers: bool,
}

/// The signs of life of one connection, and the word that ends it. The connection writes them in
/// passing, so that watching ten thousand of them costs no timer each. Lives on one CPU core.
#[derive(Debug, Default)]
pub struct Pulse {
    requests: Cell<u64>,
    bytes: Cell<u64>,
    busy: Cell<bool>,
    holding: Cell<Holding>,
    ending: Cell<Option<Ending>>,
    waker: RefCell<Option<Waker>>,
}

impl Pulse {
    /// Requests begun so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Bytes received and sent so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Whether a request is under way or an answer not sent. A Fetch that waits is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// What it holds that only its peer can go on with.
    #[must_use]
    pub fn holding(&self) -> Holding {
        self.holding.get()
    }

    /// Ends the connection.
    pub fn end(&self, ending: Ending) {
        self.ending.set(Some(ending));
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether it is to end; the task is woken when it is.
    pub(crate) fn ending(&self, cx: &Context<'_>) -> Option<Ending> {
        let mut waker = self.waker.borrow_mut();
        match waker.as_mut() {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
        self.ending.get()
    }

    /// A request was begun.
    pub fn request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// So many bytes were received, or sent.
    pub fn moved(&self, bytes: u64) {
        self.bytes.set(self.bytes.get().wrapping_add(bytes));
    }

    /// What came of a turn.
    pub fn show(&self, busy: bool, holding: Holding) {
        self.busy.set(busy);
        self.holding.set(holding);
    }
}
