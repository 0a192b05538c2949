//! A connection's requests that await their answers, in the order they came.

use crate::answer::Outcome;
use crate::bill::Bill;
use crate::charge::Charge;
use crate::signal::Signal;
use felix_core::memory::Share;
use felix_core::shards::PollEnd;
use futures_util::future::{self, LocalBoxFuture};
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::{AddAssign, SubAssign};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// What one request, or all of them together, hold while they await their answers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Load {
    /// Requests.
    pub(crate) requests: usize,
    /// Fetches among them.
    pub(crate) fetches: usize,
    /// Bytes of produce requests among them.
    pub(crate) produce_bytes: usize,
    /// Bytes of records that Fetches may still bring.
    pub(crate) fetch_bytes: usize,
    /// Bytes of answers that are ready and wait for their turn.
    pub(crate) answer_bytes: usize,
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.fetches += other.fetches;
        self.produce_bytes += other.produce_bytes;
        self.fetch_bytes += other.fetch_bytes;
        self.answer_bytes += other.answer_bytes;
    }
}

impl SubAssign for Load {
    fn sub_assign(&mut self, other: Self) {
        self.requests -= other.requests;
        self.fetches -= other.fetches;
        self.produce_bytes -= other.produce_bytes;
        self.fetch_bytes -= other.fetch_bytes;
        self.answer_bytes -= other.answer_bytes;
    }
}

/// The requests under way. Lives with its connection.
pub(crate) struct InFlight {
    answers: FuturesOrdered<Charged>,
    entries: VecDeque<Entry>,
    total: Load,
    outbound: Rc<Share>,
    ready_bytes: Rc<Cell<usize>>,
}

/// What one of them holds.
struct Entry {
    load: Load,
    /// Of a Fetch.
    bill: Option<Rc<Bill>>,
    /// The request's own memory.
    _request: Charge,
}

impl InFlight {
    /// None yet. `outbound` is charged with every answer as soon as it is there.
    pub(crate) fn new(outbound: Rc<Share>) -> Self {
        Self {
            answers: FuturesOrdered::new(),
            entries: VecDeque::new(),
            total: Load::default(),
            outbound,
            ready_bytes: Rc::default(),
        }
    }

    /// What all of them hold.
    pub(crate) fn load(&self) -> Load {
        self.total
    }

    /// Whether every request has been answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of answers that are there and wait for one before them.
    pub(crate) fn ready_bytes(&self) -> usize {
        self.ready_bytes.get()
    }

    /// Adds a request whose answer takes time, and what it holds itself.
    pub(crate) fn push(
        &mut self,
        answer: LocalBoxFuture<'static, Outcome>,
        load: Load,
        request: Charge,
    ) {
        self.push_billed(answer, load, request, None);
    }

    /// Adds a Fetch, which was promised what it may bring while it reads.
    pub(crate) fn push_fetch(
        &mut self,
        answer: LocalBoxFuture<'static, Outcome>,
        load: Load,
        request: Charge,
        bill: Rc<Bill>,
    ) {
        bill.promise(load.fetch_bytes);
        self.push_billed(answer, load, request, Some(bill));
    }

    fn push_billed(
        &mut self,
        answer: LocalBoxFuture<'static, Outcome>,
        load: Load,
        request: Charge,
        bill: Option<Rc<Bill>>,
    ) {
        self.answers.push_back(Charged {
            answer,
            bill: bill.clone(),
            outbound: Rc::clone(&self.outbound),
            ready_bytes: Rc::clone(&self.ready_bytes),
        });
        self.entries.push_back(Entry {
            load,
            bill,
            _request: request,
        });
        self.total += load;
    }

    /// Adds a request that has its answer and only waits for its turn.
    pub(crate) fn push_ready(&mut self, outcome: Outcome, mut load: Load, request: Charge) {
        load.answer_bytes += outcome.bytes();
        self.push(Box::pin(future::ready(outcome)), load, request);
    }

    /// The outcome of the oldest request, once it is there, and what its answer holds. All of them
    /// go on meanwhile.
    ///
    /// `turn_has_come` says that everything before the oldest has been sent. Only then is a Fetch's
    /// bill paid: an earlier answer held, or a later Fetch that has paid and waits for its turn,
    /// would hold what the oldest waits for.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        turn_has_come: bool,
    ) -> Poll<(Outcome, Charge)> {
        let polled = self.poll_answers(cx);
        if polled.is_ready() || !turn_has_come {
            return polled;
        }
        let Some(Entry {
            bill: Some(bill), ..
        }) = self.entries.front()
        else {
            return Poll::Pending;
        };
        let Some(bytes) = bill.unpaid_bytes() else {
            return Poll::Pending;
        };
        ready!(self.outbound.poll_reserve_stuck(cx, bytes));
        bill.settle(Charge::of_held(&self.outbound, bytes));
        self.poll_answers(cx)
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<(Outcome, Charge)> {
        if self.answers.is_empty() {
            // An empty set is finished, which is not an outcome; the next push is followed by a
            // poll of the connection anyway.
            return Poll::Pending;
        }
        match self.answers.poll_next_unpin(cx) {
            Poll::Ready(outcome) => {
                let entry = self.entries.pop_front();
                self.total -= entry.expect("every answer has its entry").load;
                let (outcome, charge) = outcome.expect("the set was not empty");
                let waiting = self.ready_bytes.get() - outcome.bytes();
                self.ready_bytes.set(waiting);
                Poll::Ready((outcome, charge))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// An answer that is paid for by its size from when it is there, even while it waits for its turn.
struct Charged {
    answer: LocalBoxFuture<'static, Outcome>,
    bill: Option<Rc<Bill>>,
    outbound: Rc<Share>,
    ready_bytes: Rc<Cell<usize>>,
}

impl Future for Charged {
    type Output = (Outcome, Charge);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(Outcome, Charge)> {
        let outcome = ready!(self.answer.poll_unpin(cx));
        let bytes = outcome.bytes();
        let charge = Charge::overdrawn(&self.outbound, bytes);
        self.ready_bytes.set(self.ready_bytes.get() + bytes);
        if let Some(bill) = self.bill.take() {
            bill.close();
        }
        Poll::Ready((outcome, charge))
    }
}

/// What a Fetch is told its end by. It is asked for once the Fetch has read all there is and waits
/// for more, so that is when its promise ends: what it brings when it is woken was written
/// meanwhile, and a thousand polls that wait leave a reader all there is.
#[derive(Clone, Debug)]
pub(crate) struct FetchEnd {
    signal: Signal,
    bill: Rc<Bill>,
}

impl FetchEnd {
    /// Of a Fetch that begins. `signal` is raised when it is to answer with what it has.
    pub(crate) fn new(signal: &Signal, bill: &Rc<Bill>) -> Self {
        Self {
            signal: signal.clone(),
            bill: Rc::clone(bill),
        }
    }

    /// What it costs.
    pub(crate) fn bill(&self) -> &Bill {
        &self.bill
    }
}

impl PollEnd for FetchEnd {
    fn ended(&self) -> impl Future<Output = ()> + 'static {
        let raised = self.signal.raised();
        let bill = Rc::clone(&self.bill);
        async move {
            bill.end_promise();
            raised.await;
        }
    }
}
