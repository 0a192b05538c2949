//! What a connection shows of itself to whoever watches over all of a core's connections.

use felix_core::Monotonic;
use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// When a connection is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Once everything begun is answered and sent; nothing more is read.
    Cleanly,
    /// Now, whatever it owes.
    AtOnce,
    /// Now, since it has not authenticated in time.
    Unauthenticated,
}

/// How much memory a connection holds for something that only its peer can go on with.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Holding {
    /// Of a request that is paid for and has not arrived whole.
    pub request_bytes: usize,
    /// Of answers that the peer has not taken.
    pub answer_bytes: usize,
}

/// The signs of life of one connection, and the word that ends it. The connection writes them in
/// passing, so that watching ten thousand of them costs no timer each. Lives on one CPU core.
#[derive(Debug, Default)]
pub struct Pulse {
    accepted: Option<Monotonic>,
    requests: Cell<u64>,
    received_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
    busy: Cell<bool>,
    unauthenticated_since: Cell<Option<Monotonic>>,
    holding: Cell<Holding>,
    ending: Cell<Option<Ending>>,
    waker: RefCell<Option<Waker>>,
}

impl Pulse {
    /// That of a connection that was accepted then, and had something else to do before it is
    /// served: a TLS handshake, which is part of the time it has to authenticate.
    #[must_use]
    pub fn accepted_at(accepted: Monotonic) -> Self {
        Self {
            accepted: Some(accepted),
            ..Self::default()
        }
    }

    /// When it was accepted, as far as that is known.
    pub(crate) fn accepted(&self) -> Option<Monotonic> {
        self.accepted
    }

    /// Requests begun so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Bytes received so far.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.get()
    }

    /// Bytes sent so far.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.get()
    }

    /// Bytes received and sent so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.received_bytes().wrapping_add(self.sent_bytes())
    }

    /// Whether a request is under way, an answer not sent, or memory waited for. A Fetch that waits
    /// is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Since when it has spoken for nobody; `None`: it speaks for somebody.
    #[must_use]
    pub fn unauthenticated_since(&self) -> Option<Monotonic> {
        self.unauthenticated_since.get()
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

    /// It speaks for nobody from now on.
    pub fn unauthenticated(&self, now: Monotonic) {
        self.unauthenticated_since.set(Some(now));
    }

    /// It speaks for somebody.
    pub fn authenticated(&self) {
        self.unauthenticated_since.set(None);
    }

    /// A request was begun.
    pub fn request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// So many bytes were received.
    pub fn received(&self, bytes: u64) {
        self.received_bytes
            .set(self.received_bytes().wrapping_add(bytes));
    }

    /// So many bytes were sent.
    pub fn sent(&self, bytes: u64) {
        self.sent_bytes.set(self.sent_bytes().wrapping_add(bytes));
    }

    /// What came of a turn.
    pub fn show(&self, busy: bool, holding: Holding) {
        self.busy.set(busy);
        self.holding.set(holding);
    }
}
