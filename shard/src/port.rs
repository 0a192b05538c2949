//! One core's end of its lanes with one peer: what it asks the peer, and what the peer asks it.

use crate::event::{Answer, Credits, Event, Promise, promise};
use crate::lane::{Incoming, Outgoing, Received};
use crate::message::{Appends, Body, Offsets, Parts, ReadRequest, Reply, Request};
use felix_core::limits::LANE_CREDITS;
use felix_core::shards::{Append, OffsetQuery};
use felix_core::{CpuId, Monotonic};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The ends of the four rings a core shares with a peer, before it has a thread.
#[derive(Debug)]
pub(crate) struct PortSeed {
    pub(crate) peer: CpuId,
    pub(crate) requests_out: Outgoing<Request>,
    pub(crate) replies_in: Incoming<Reply>,
    pub(crate) requests_in: Incoming<Request>,
    pub(crate) replies_out: Outgoing<Reply>,
}

/// See the module. Lives on its core.
#[derive(Debug)]
pub(crate) struct Port {
    lanes: PortSeed,
    credits: Credits,
    pending: RefCell<HashMap<u64, Pending>>,
    slot_next: Cell<u64>,
    /// The peer's requests whose answers take a while: whether it still waits for each.
    serving: RefCell<HashMap<u64, Rc<Cell<bool>>>>,
    /// The peer said goodbye or is gone: it asks nothing more.
    parted: Cell<bool>,
    /// The peer's thread ended: it answers nothing more.
    gone: Cell<bool>,
    changed: Event,
}

/// A request under way.
#[derive(Debug)]
enum Pending {
    Append {
        admitted: Option<Promise<()>>,
        results: Promise<Appends>,
    },
    Fetch(Promise<Parts>),
    Offsets(Promise<Offsets>),
}

impl Port {
    pub(crate) fn new(lanes: PortSeed) -> Self {
        Self {
            lanes,
            credits: Credits::new(LANE_CREDITS),
            pending: RefCell::default(),
            slot_next: Cell::new(0),
            serving: RefCell::default(),
            parted: Cell::new(false),
            gone: Cell::new(false),
            changed: Event::default(),
        }
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> CpuId {
        self.lanes.peer
    }

    /// Takes a credit if there is one: false means that the caller has to wait for one.
    pub(crate) fn try_credit(&self) -> bool {
        self.credits.try_acquire()
    }

    /// Waits in line for a credit, which [`Port::append`], [`Port::fetch`] and [`Port::offsets`]
    /// spend.
    pub(crate) async fn credit(&self) {
        self.credits.acquire().await;
    }

    /// Sends appends, for a credit.
    pub(crate) fn append(
        &self,
        appends: Vec<Append>,
        deadline: Option<Monotonic>,
        sent: Monotonic,
    ) -> (Answer<()>, Answer<Appends>) {
        let (admitted, admission) = promise();
        let (results, answer) = promise();
        self.ask(
            Pending::Append {
                admitted: Some(admitted),
                results,
            },
            |slot| Request::Append {
                slot,
                sent,
                appends,
                deadline,
            },
        );
        (admission, answer)
    }

    /// Sends a read, for a credit.
    pub(crate) fn fetch(self: &Rc<Self>, read: ReadRequest, sent: Monotonic) -> Asked<Parts> {
        let (parts, answer) = promise();
        let slot = self.ask(Pending::Fetch(parts), |slot| Request::Fetch {
            slot,
            sent,
            read,
        });
        self.asked(slot, answer)
    }

    /// Sends offset queries, for a credit.
    pub(crate) fn offsets(
        self: &Rc<Self>,
        queries: Vec<OffsetQuery>,
        sent: Monotonic,
    ) -> Asked<Offsets> {
        let (offsets, answer) = promise();
        let slot = self.ask(Pending::Offsets(offsets), |slot| Request::Offsets {
            slot,
            sent,
            queries,
        });
        self.asked(slot, answer)
    }

    fn asked<T>(self: &Rc<Self>, slot: u64, answer: Answer<T>) -> Asked<T> {
        Asked {
            port: Rc::clone(self),
            slot,
            answer,
        }
    }

    fn ask(&self, pending: Pending, request: impl FnOnce(u64) -> Request) -> u64 {
        let slot = self.slot_next.get();
        self.slot_next.set(slot + 1);
        if self.gone.get() {
            // Dropping the promises says that nothing comes.
            return slot;
        }
        self.pending.borrow_mut().insert(slot, pending);
        self.lanes.requests_out.send(request(slot));
        slot
    }

    /// Nobody waits for the answer any more: the peer need not work on it. The slot and its credit
    /// are returned by the answer, as always.
    fn cancel(&self, slot: u64) {
        if self.pending.borrow().contains_key(&slot) {
            self.tell(Request::Cancel { slot });
        }
    }

    /// The answer to a request of the peer takes a while; tells whether the peer waits for it.
    pub(crate) fn serving(&self, slot: u64) -> Rc<Cell<bool>> {
        let wanted = Rc::new(Cell::new(true));
        self.serving.borrow_mut().insert(slot, Rc::clone(&wanted));
        wanted
    }

    /// The request has its answer.
    pub(crate) fn served(&self, slot: u64) {
        self.serving.borrow_mut().remove(&slot);
    }

    /// The peer does not wait for the answer any more; it may already be on its way.
    pub(crate) fn cancelled(&self, slot: u64) {
        if let Some(wanted) = self.serving.borrow().get(&slot) {
            wanted.set(false);
        }
    }

    /// Sends what needs no credit and gets no reply.
    pub(crate) fn tell(&self, request: Request) {
        debug_assert!(!matches!(
            request,
            Request::Append { .. } | Request::Fetch { .. } | Request::Offsets { .. }
        ));
        self.lanes.requests_out.send(request);
    }

    /// Sends a reply.
    pub(crate) fn reply(&self, reply: Reply) {
        self.lanes.replies_out.send(reply);
    }

    /// The peer's next request.
    pub(crate) fn next_request(&self) -> Option<Request> {
        match self.lanes.requests_in.receive() {
            Received::Message(Request::Goodbye) => {
                self.part();
                None
            }
            Received::Message(request) => Some(request),
            Received::Empty => None,
            Received::Gone => {
                self.part();
                None
            }
        }
    }

    /// Takes up to `budget` of the peer's replies and hands the watches they wake to `wake`.
    /// Whether there may be more.
    pub(crate) fn take_replies(&self, budget: usize, mut wake: impl FnMut(&[u64])) -> bool {
        for _ in 0..budget {
            match self.lanes.replies_in.receive() {
                Received::Message(Reply::Slot { slot, credit, body }) => {
                    if credit {
                        self.credits.release();
                    }
                    self.settle(slot, body);
                }
                Received::Message(Reply::Wake(watches)) => wake(&watches),
                Received::Empty => return false,
                Received::Gone => {
                    self.lose_peer();
                    return false;
                }
            }
        }
        true
    }

    /// To be called after each look at the lanes: sends what waited, and tells the peer of room.
    pub(crate) fn turn(&self) {
        self.lanes.requests_in.made_room();
        self.lanes.replies_in.made_room();
        self.lanes.requests_out.flush();
        self.lanes.replies_out.flush();
    }

    /// Resolves when nothing that this core asked is under way.
    pub(crate) async fn idle(&self) {
        self.changed
            .until(|| self.pending.borrow().is_empty())
            .await;
    }

    /// Resolves when the peer asks nothing more and has everything that was sent to it.
    pub(crate) async fn parted(&self) {
        self.changed.until(|| self.is_parted()).await;
    }

    fn is_parted(&self) -> bool {
        let kept = self.lanes.requests_out.kept() + self.lanes.replies_out.kept();
        self.parted.get() && (kept == 0 || self.gone.get())
    }

    /// Tells those who wait in [`Port::parted`] that outboxes may have emptied.
    pub(crate) fn turned_while_closing(&self) {
        self.changed.notify();
    }

    fn part(&self) {
        if !self.parted.replace(true) {
            self.changed.notify();
        }
    }

    fn lose_peer(&self) {
        if self.gone.replace(true) {
            return;
        }
        self.part();
        for wanted in self.serving.borrow().values() {
            wanted.set(false);
        }
        let lost = std::mem::take(&mut *self.pending.borrow_mut());
        drop(lost);
        self.credits.release_all_waiting();
        self.changed.notify();
    }

    fn settle(&self, slot: u64, body: Body) {
        let mut pending = self.pending.borrow_mut();
        match body {
            Body::Queued => {}
            Body::Admitted => {
                if let Some(Pending::Append { admitted, .. }) = pending.get_mut(&slot)
                    && let Some(admitted) = admitted.take()
                {
                    admitted.keep(());
                }
            }
            Body::Appended(value) => match pending.remove(&slot) {
                Some(Pending::Append { admitted, results }) => {
                    if let Some(admitted) = admitted {
                        admitted.keep(());
                    }
                    results.keep(value);
                }
                Some(Pending::Fetch(_) | Pending::Offsets(_)) | None => mismatch(slot),
            },
            Body::Fetched(value) => match pending.remove(&slot) {
                Some(Pending::Fetch(parts)) => parts.keep(value),
                Some(Pending::Append { .. } | Pending::Offsets(_)) | None => mismatch(slot),
            },
            Body::Found(value) => match pending.remove(&slot) {
                Some(Pending::Offsets(offsets)) => offsets.keep(value),
                Some(Pending::Append { .. } | Pending::Fetch(_)) | None => mismatch(slot),
            },
        }
        if pending.is_empty() {
            drop(pending);
            self.changed.notify();
        }
    }
}

/// The answer to a request. Dropping it before it came tells the peer.
#[derive(Debug)]
pub(crate) struct Asked<T> {
    port: Rc<Port>,
    slot: u64,
    answer: Answer<T>,
}

impl<T> Future for Asked<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.answer).poll(cx)
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        self.port.cancel(self.slot);
    }
}

fn mismatch(slot: u64) -> ! {
    panic!("the reply to slot {slot} is not one to its request")
}
