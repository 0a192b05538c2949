//! Where an owner's answer goes: to a task of the same core, or back over a lane.

use crate::event::Promise;
use crate::message::{Body, Reply};
use crate::port::Port;
use std::cell::Cell;
use std::rc::Rc;

/// A slot at a peer, and the credit that its request still holds.
#[derive(Debug)]
pub(crate) struct PeerSlot {
    port: Rc<Port>,
    slot: u64,
    credit: Cell<bool>,
}

impl PeerSlot {
    pub(crate) fn new(port: Rc<Port>, slot: u64) -> Self {
        Self {
            port,
            slot,
            credit: Cell::new(true),
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
            Self::Peer(slot) => slot.say(Body::Queued),
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
