//! What is offered to each side.

use crate::client::request::{self, FetchBounds};
use crate::load::{Arrivals, Batches, Recipe, Timing, Waiting};
use crate::pin;
use crate::problem::Problem;
use std::time::Duration;

/// What is done, and until when it is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Producing, to the acknowledgement.
    Produce,
    /// Producing, to the arrival at each consumer, all of which wait for it.
    EndToEnd,
    /// Reading what is there, as fast as it comes.
    Fetch,
}

/// Bytes of an answer to Produce without the topic's name: length, correlation id, one topic, one
/// partition with its error, offset, time and log start, throttle time.
const PRODUCED_BYTES: usize = 4 + 4 + (4 + 2) + 4 + (4 + 2 + 8 + 8 + 8) + 4;

/// One load, the same for each side.
#[derive(Clone, Debug)]
pub struct Load {
    /// What is done.
    pub workload: Workload,
    /// Records a second, of all threads; without it each answer brings the next request.
    pub rate: Option<f64>,
    /// How far apart requests are.
    pub arrivals: Arrivals,
    /// How batches are made.
    pub recipe: Recipe,
    /// -1 for all in-sync replicas, 1 for the leader, 0 for no answer.
    pub acks: i16,
    /// Whether each connection is an idempotent producer.
    pub is_idempotent: bool,
    /// How many partitions are used.
    pub partitions: usize,
    /// Connections that produce, of all threads.
    pub connections: usize,
    /// How often each batch is delivered.
    pub consumers: usize,
    /// Requests of a connection that may be without an answer.
    pub in_flight_max: usize,
    /// How much a Fetch asks for.
    pub bounds: FetchBounds,
    /// How much there is to read, in bytes of batches, of each partition.
    pub fill_bytes: u64,
    /// One thread on each of these processors.
    pub cpus: Vec<usize>,
    /// What a thread does when there is nothing to do.
    pub waiting: Waiting,
    /// How long a turn takes.
    pub timing: Timing,
    /// Fixes what is left to chance.
    pub seed: u64,
}

impl Load {
    /// The simplest of its kind, for a second: one thread on the last processor that is allowed,
    /// one connection, one partition, one record a request, acks=all, each answer bringing the
    /// next.
    #[must_use]
    pub fn of(workload: Workload) -> Self {
        Self {
            workload,
            rate: None,
            arrivals: Arrivals::Even,
            recipe: Recipe::default(),
            acks: -1,
            is_idempotent: false,
            partitions: 1,
            connections: 1,
            consumers: 1,
            in_flight_max: usize::MAX,
            bounds: FetchBounds {
                max_wait_ms: 500,
                min_bytes: 1,
                max_bytes: 50 << 20,
                partition_max_bytes: 1 << 20,
            },
            fill_bytes: 256 << 20,
            cpus: pin::allowed().last().copied().into_iter().collect(),
            waiting: Waiting::Parked,
            timing: Timing::new(
                Duration::from_millis(300),
                Duration::from_secs(1),
                Duration::from_secs(5),
            ),
            seed: 1,
        }
    }

    /// A typical request: its batch is as long as they are on average.
    ///
    /// # Errors
    /// No batch can be made.
    pub(super) fn request(&self, topic: &str) -> Result<Vec<u8>, Problem> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let places: Vec<usize> = (0..self.partitions).collect();
        let batches = Batches::make(&self.recipe, &places, self.partitions, &mut random)?;
        let mut frame = Vec::new();
        let batch = vec![0; batches.bytes_mean()];
        request::produce(&mut frame, 0, self.acks, 0, topic, 0, &batch);
        Ok(frame)
    }

    /// Bytes of what comes back, its length in front included: what a floor should answer.
    ///
    /// # Errors
    /// No batch can be made.
    pub fn answer_bytes(&self, topic: &str) -> Result<usize, Problem> {
        match self.workload {
            // The record itself comes back.
            Workload::EndToEnd => Ok(self.request(topic)?.len()),
            Workload::Produce | Workload::Fetch => Ok(PRODUCED_BYTES + topic.len()),
        }
    }

    /// Requests a second, of all threads.
    pub(super) fn requests_per_second(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "batches are small")]
        self.rate.map(|rate| rate / self.recipe.records as f64)
    }

    /// The places of each thread. A partition that is read belongs to one thread, which writes
    /// and reads it.
    pub(super) fn shares(&self) -> Result<Vec<Vec<usize>>, Problem> {
        let threads = self.cpus.len();
        if self.partitions < threads && self.workload == Workload::EndToEnd {
            return Err(Problem::new(format!(
                "{threads} threads cannot share {} partitions, since a partition is written and \
                 read by one of them; use fewer --cpus or more --partitions",
                self.partitions
            )));
        }
        let places = |thread: usize| match self.partitions < threads {
            true => vec![thread % self.partitions],
            false => (thread..self.partitions).step_by(threads).collect(),
        };
        Ok((0..threads).map(places).collect())
    }
}
