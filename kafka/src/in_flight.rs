//! A connection's requests that await their answers, in the order they came.

use crate::answer::Outcome;
use crate::bill::Bill;
use crate::signal::Signal;
use felix_core::memory::Share;
use felix_core::shards::PollEnd;
use futures_util::future::{self, LocalBoxFuture};
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
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
    /// Bytes of the requests themselves.
    pub(crate) request_bytes: usize,
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
        self.request_bytes += other.request_bytes;
        self.produce_bytes += other.produce_bytes;
        self.fetch_bytes += other.fetch_bytes;
        self.answer_bytes += other.answer_bytes;
    }
}

impl SubAssign for Load {
    fn sub_assign(&mut self, other: Self) {
        self.requests -= other.requests;
        self.fetches -= other.fetches;
        self.request_bytes -= other.request_bytes;
        self.produce_bytes -= other.produce_bytes;
        self.fetch_bytes -= other.fetch_bytes;
        self.answer_bytes -= other.answer_bytes;
    }
}

/// The requests under way. Lives with its connection.
pub(crate) struct InFlight {
    answers: FuturesOrdered<Charged>,
    /// What each of them holds, and the bill of a Fetch.
    loads: VecDeque<(Load, Option<Rc<Bill>>)>,
    total: Load,
    outbound: Rc<Share>,
}

impl InFlight {
    /// None yet. `outbound` is charged with every answer as soon as it is there.
    pub(crate) fn new(outbound: Rc<Share>) -> Self {
        Self {
            answers: FuturesOrdered::new(),
            loads: VecDeque::new(),
            total: Load::default(),
            outbound,
        }
    }

    /// What all of them hold.
    pub(crate) fn load(&self) -> Load {
        self.total
    }

    /// Whether every request has been answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// Adds a request whose answer takes time.
    pub(crate) fn push(&mut self, answer: LocalBoxFuture<'static, Outcome>, load: Load) {
        self.push_billed(answer, load, None);
    }

    /// Adds a Fetch, which was promised what it may bring while it reads.
    pub(crate) fn push_fetch(
        &mut self,
        answer: LocalBoxFuture<'static, Outcome>,
        load: Load,
        bill: Rc<Bill>,
    ) {
        bill.promise(load.fetch_bytes);
        self.push_billed(answer, load, Some(bill));
    }

    fn push_billed(
        &mut self,
        answer: LocalBoxFuture<'static, Outcome>,
        load: Load,
        bill: Option<Rc<Bill>>,
    ) {
        self.answers.push_back(Charged {
            answer,
            bill: bill.clone(),
            outbound: Rc::clone(&self.outbound),
        });
        self.loads.push_back((load, bill));
        self.total += load;
    }

    /// Adds a request that has its answer and only waits for its turn.
    pub(crate) fn push_ready(&mut self, outcome: Outcome, mut load: Load) {
        load.answer_bytes += outcome.bytes();
        self.push(Box::pin(future::ready(outcome)), load);
    }

    /// The outcome of the oldest request, once it is there, and what the request held. All of them
    /// go on meanwhile.
    ///
    /// `turn_has_come` says that everything before the oldest has been sent. Only then is a Fetch's
    /// bill paid: an earlier answer held, or a later Fetch that has paid and waits for its turn,
    /// would hold what the oldest waits for.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        turn_has_come: bool,
    ) -> Poll<(Outcome, Load)> {
        let polled = self.poll_answers(cx);
        if polled.is_ready() || !turn_has_come {
            return polled;
        }
        let Some((_, Some(bill))) = self.loads.front() else {
            return Poll::Pending;
        };
        let Some(bytes) = bill.unpaid_bytes() else {
            return Poll::Pending;
        };
        ready!(self.outbound.poll_reserve_stuck(cx, bytes));
        bill.settle();
        self.poll_answers(cx)
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<(Outcome, Load)> {
        if self.answers.is_empty() {
            // An empty set is finished, which is not an outcome; the next push is followed by a
            // poll of the connection anyway.
            return Poll::Pending;
        }
        match self.answers.poll_next_unpin(cx) {
            Poll::Ready(outcome) => {
                let (load, _) = self.loads.pop_front().expect("every answer has its load");
                self.total -= load;
                Poll::Ready((outcome.expect("the set was not empty"), load))
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
}

impl Future for Charged {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = ready!(self.answer.poll_unpin(cx));
        self.outbound.overdraw(outcome.bytes());
        if let Some(bill) = self.bill.take() {
            bill.end_promise();
            self.outbound.release(bill.paid_bytes());
        }
        Poll::Ready(outcome)
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
