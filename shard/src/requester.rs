//! Where an owner's answer goes: to a task of the same core, or back over a lane.

use crate::event::Promise;
use crate::message::{Body, Reply};
use crate::port::Port;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// A slot at a peer, and the credit that its request still holds.
#[derive(Debug)]
pub(crate) struct PeerSlot {
    port: Rc<Port>,
    slot: u64,
    credit: Cell<bool>,
    /// Once it is known that the answer takes a while: whether the peer still waits for it.
    wanted: OnceCell<Rc<Cell<bool>>>,
}

impl PeerSlot {
    pub(crate) fn new(port: Rc<Port>, slot: u64) -> Self {
        Self {
            port,
            slot,
            credit: Cell::new(true),
            wanted: OnceCell::new(),
        }
    }

    fn is_wanted(&self) -> bool {
        self.wanted.get().is_none_or(|wanted| wanted.get())
    }

    /// Returns the credit, if it has not been: the answer takes a while.
    pub(crate) fn queue(&self) {
        if self.credit.get() {
            self.say(Body::Queued);
        }
    }

    /// Sends `body`; the first thing said returns the credit.
    pub(crate) fn say(&self, body: impl Into<Body>) {
        let credit = self.credit.replace(false);
        self.port.reply(Reply::Slot {
            slot: self.slot,
            credit,
            body: body.into(),
        });
    }
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        if self.wanted.get().is_some() {
            self.port.served(self.slot);
        }
    }
}

/// Who asked, for an answer of type `T`.
#[derive(Debug)]
pub(crate) enum Requester<T> {
    /// A task of this core.
    Own(Promise<T>),
    /// Another core.
    Peer(PeerSlot),
}

impl<T: Into<Body>> Requester<T> {
    /// The request is in line and its answer takes a while.
    pub(crate) fn queued(&self) {
        match self {
            Self::Own(_) => {}
            Self::Peer(slot) => {
                slot.wanted.get_or_init(|| slot.port.serving(slot.slot));
                slot.queue();
            }
        }
    }

    /// Whether somebody still waits for the answer. To be asked before each thing that costs.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            Self::Own(promise) => promise.is_wanted(),
            Self::Peer(slot) => slot.is_wanted(),
        }
    }

    /// Gives the answer.
    pub(crate) fn answer(self, value: T) {
        match self {
            Self::Own(promise) => promise.keep(value),
            Self::Peer(slot) => slot.say(value),
        }
    }
}
