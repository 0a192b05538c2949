//! A connection's requests that await their answers, in the order they came.

use crate::answer::Outcome;
use futures_util::StreamExt;
use futures_util::future::{self, LocalBoxFuture};
use futures_util::stream::FuturesOrdered;
use std::collections::VecDeque;
use std::ops::{AddAssign, SubAssign};
use std::task::{Context, Poll};

/// What one request, or all of them together, hold while they await their answers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Load {
    /// Requests.
    pub(crate) requests: usize,
    /// Fetches among them.
    pub(crate) fetches: usize,
    /// Bytes of produce requests.
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
#[derive(Default)]
pub(crate) struct InFlight {
    answers: FuturesOrdered<LocalBoxFuture<'static, Outcome>>,
    loads: VecDeque<Load>,
    total: Load,
}

impl InFlight {
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
        self.answers.push_back(answer);
        self.loads.push_back(load);
        self.total += load;
    }

    /// Adds a request that has its answer and only waits for its turn.
    pub(crate) fn push_ready(&mut self, outcome: Outcome, mut load: Load) {
        load.answer_bytes += outcome.bytes();
        self.push(Box::pin(future::ready(outcome)), load);
    }

    /// The outcome of the oldest request, once it is there. All of them go on meanwhile.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        if self.answers.is_empty() {
            // An empty set is finished, which is not an outcome; the next push is followed by a
            // poll of the connection anyway.
            return Poll::Pending;
        }
        match self.answers.poll_next_unpin(cx) {
            Poll::Ready(outcome) => {
                let load = self.loads.pop_front().expect("every answer has its load");
                self.total -= load;
                Poll::Ready(outcome.expect("the set was not empty"))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
