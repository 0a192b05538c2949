//! One append message at its owner core: several batches, admitted and committed one by one,
//! answered together.

use crate::event::Promise;
use crate::message::{Appends, Body};
use crate::requester::PeerSlot;
use felix_core::ShardError;
use felix_core::shards::Appended;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Who waits for an append message.
#[derive(Debug)]
pub(crate) enum Caller {
    /// A task of this core.
    Own {
        /// Kept once all batches are placed.
        admitted: RefCell<Option<Promise<()>>>,
        /// Kept once all are committed.
        results: RefCell<Option<Promise<Appends>>>,
    },
    /// Another core.
    Peer(PeerSlot),
}

/// See the module. Lives on the owner core.
#[derive(Debug)]
pub(crate) struct AppendCall {
    caller: Caller,
    results: RefCell<Vec<Option<Result<Appended, ShardError>>>>,
    unadmitted: Cell<usize>,
    unsettled: Cell<usize>,
    /// Set once the whole message has been gone through: until then nothing is said, so that a
    /// message that is settled at once costs one reply.
    handed_over: Cell<bool>,
}

impl AppendCall {
    /// A message of `count` batches.
    pub(crate) fn new(caller: Caller, count: usize) -> Self {
        Self {
            caller,
            results: RefCell::new(vec![None; count]),
            unadmitted: Cell::new(count),
            unsettled: Cell::new(count),
            handed_over: Cell::new(false),
        }
    }

    /// Every batch has been gone through.
    pub(crate) fn hand_over(&self) {
        self.handed_over.set(true);
        if self.unsettled.get() == 0 {
            self.answer();
        } else if self.unadmitted.get() == 0 {
            self.say_admitted();
        } else if let Caller::Peer(slot) = &self.caller {
            slot.queue();
        }
    }

    /// Not every batch has been gone through yet, and it takes a while: the peer's credit is needed
    /// for nothing more.
    pub(crate) fn take_a_while(&self) {
        if let Caller::Peer(slot) = &self.caller {
            slot.queue();
        }
    }

    fn admit(&self) {
        self.unadmitted.set(self.unadmitted.get() - 1);
        if self.handed_over.get() && self.unadmitted.get() == 0 {
            self.say_admitted();
        }
    }

    fn settle(&self, place: usize, result: Result<Appended, ShardError>) {
        let earlier = self.results.borrow_mut()[place].replace(result);
        assert!(earlier.is_none(), "a batch is settled once");
        self.unsettled.set(self.unsettled.get() - 1);
        if self.handed_over.get() && self.unsettled.get() == 0 {
            self.answer();
        }
    }

    fn say_admitted(&self) {
        match &self.caller {
            Caller::Own { admitted, .. } => {
                if let Some(admitted) = admitted.borrow_mut().take() {
                    admitted.keep(());
                }
            }
            Caller::Peer(slot) => slot.say(Body::Admitted),
        }
    }

    fn answer(&self) {
        let settled = std::mem::take(&mut *self.results.borrow_mut());
        let results = settled
            .into_iter()
            .map(|result| result.expect("none is unsettled"))
            .collect();
        match &self.caller {
            Caller::Own {
                results: promise, ..
            } => {
                self.say_admitted();
                promise
                    .take()
                    .expect("a message is answered once")
                    .keep(results);
            }
            Caller::Peer(slot) => slot.say(Body::Appended(results)),
        }
    }
}

/// One batch of a message, until it is placed.
#[derive(Debug)]
pub(crate) struct Unplaced {
    call: Rc<AppendCall>,
    place: usize,
}

/// One batch of a message, placed and awaiting its commit.
#[derive(Debug)]
pub(crate) struct Uncommitted {
    call: Rc<AppendCall>,
    place: usize,
}

impl Unplaced {
    pub(crate) fn new(call: Rc<AppendCall>, place: usize) -> Self {
        Self { call, place }
    }

    /// The batch is placed: the connection may go on.
    pub(crate) fn placed(self) -> Uncommitted {
        self.call.admit();
        Uncommitted {
            call: self.call,
            place: self.place,
        }
    }

    /// The batch is refused.
    pub(crate) fn refuse(self, error: ShardError) {
        self.placed().settle(Err(error));
    }
}

impl Uncommitted {
    /// The batch is committed, or will never be.
    pub(crate) fn settle(self, result: Result<Appended, ShardError>) {
        self.call.settle(self.place, result);
    }
}
