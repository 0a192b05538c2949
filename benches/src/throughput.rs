//! As many records as one connection brings into one partition.

use crate::broker::{Broker, Stream};
use crate::connection::{Connection, Waiting};
use crate::latency::median;
use crate::pin::Pinned;
use crate::plan::{CLIENT_CPU, Plan};
use crate::produce::{self, RECORDS_PER_BATCH, VALUE_BYTES};
use felix_tests::Policy;
use std::path::Path;
use std::time::Instant;

/// Requests under way: what a Java producer has by default.
pub(crate) const IN_FLIGHT: usize = 5;

/// What one policy reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throughput {
    pub(crate) policy: Policy,
    /// Records of one turn.
    pub(crate) records: usize,
    pub(crate) records_per_s: f64,
    /// Bytes of values.
    pub(crate) bytes_per_s: f64,
    /// The slowest and fastest turn, in records per second.
    pub(crate) spread: [f64; 2],
}

impl Throughput {
    /// All policies.
    pub(crate) fn measure_all(plan: &Plan, binary: &Path, dir: &Path) -> Vec<Self> {
        let policies = [Policy::None, Policy::Periodic, Policy::OnCommit];
        let measure = |policy| Self::measure(plan, binary, dir, policy);
        policies.into_iter().map(measure).collect()
    }

    fn measure(plan: &Plan, binary: &Path, dir: &Path, policy: Policy) -> Self {
        let stream = Stream::of(policy);
        let broker = Broker::start(binary, dir, &[stream], &[]);
        let request = produce::request(&stream.topic(), &produce::batch(RECORDS_PER_BATCH));
        let mut connection = Connection::open(broker.port(), Waiting::Parked);
        let mut answer = connection.append(&request);
        let _pinned = Pinned::to(CLIENT_CPU);
        let records = plan.batches * RECORDS_PER_BATCH;
        let mut turns = Vec::new();
        for _ in 0..plan.rounds {
            let begun = Instant::now();
            turn(&mut connection, &request, &mut answer, plan.batches);
            let records = u32::try_from(records).expect("a turn is short");
            turns.push(f64::from(records) / begun.elapsed().as_secs_f64());
            let appended = usize::try_from(produce::base_offset(&answer));
            let before = RECORDS_PER_BATCH * plan.batches * turns.len();
            assert_eq!(appended, Ok(before), "every batch was appended");
        }
        turns.sort_by(f64::total_cmp);
        let spread = [turns[0], turns[turns.len() - 1]];
        let records_per_s = median(turns);
        let value_bytes = u32::try_from(VALUE_BYTES).expect("a record is small");
        Self {
            policy,
            records,
            records_per_s,
            bytes_per_s: records_per_s * f64::from(value_bytes),
            spread,
        }
    }
}

/// Sends so many batches, [`IN_FLIGHT`] at a time. The last answer stays in `answer`.
fn turn(connection: &mut Connection, request: &[u8], answer: &mut [u8], batches: usize) {
    for sent in 0..batches {
        if sent >= IN_FLIGHT {
            connection.receive(answer);
        }
        connection.send(request);
    }
    for _ in 0..IN_FLIGHT.min(batches) {
        connection.receive(answer);
    }
}
