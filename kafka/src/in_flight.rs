//! A connection's requests that await their answers, in the order they came.

use crate::answer::Outcome;
use felix_core::memory::Share;
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
    loads: VecDeque<Load>,
    total: Load,
    outbound: Rc<Share>,
}

impl InFlight {
    /// None yet. `outbound` is charged with what Fetches may bring, and with every answer as soon
    /// as it is there.
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
        self.outbound.overdraw(load.fetch_bytes);
        self.answers.push_back(Charged {
            answer,
            promised: load.fetch_bytes,
            outbound: Rc::clone(&self.outbound),
        });
        self.loads.push_back(load);
        self.total += load;
    }

    /// Adds a request that has its answer and only waits for its turn.
    pub(crate) fn push_ready(&mut self, outcome: Outcome, mut load: Load) {
        load.answer_bytes += outcome.bytes();
        self.push(Box::pin(future::ready(outcome)), load);
    }

    /// The outcome of the oldest request, once it is there, and what the request held. All of them
    /// go on meanwhile.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<(Outcome, Load)> {
        if self.answers.is_empty() {
            // An empty set is finished, which is not an outcome; the next push is followed by a
            // poll of the connection anyway.
            return Poll::Pending;
        }
        match self.answers.poll_next_unpin(cx) {
            Poll::Ready(outcome) => {
                let load = self.loads.pop_front().expect("every answer has its load");
                self.total -= load;
                Poll::Ready((outcome.expect("the set was not empty"), load))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// An answer that is paid for: by a promise until it is there, by its size from then on, even
/// while it waits for its turn.
struct Charged {
    answer: LocalBoxFuture<'static, Outcome>,
    promised: usize,
    outbound: Rc<Share>,
}

impl Future for Charged {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = ready!(self.answer.poll_unpin(cx));
        self.outbound.overdraw(outcome.bytes());
        self.outbound.release(self.promised);
        Poll::Ready(outcome)
    }
}
