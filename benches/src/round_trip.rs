//! One record out, one acknowledgement back, nothing else under way.

use crate::broker::{Broker, Stream};
use crate::connection::{Connection, Waiting};
use crate::echo::Echo;
use crate::latency::{Compared, Latency};
use crate::pin::Pinned;
use crate::plan::{CLIENT_CPU, Plan};
use crate::produce;
use felix_tests::Policy;
use std::path::Path;
use std::time::Instant;

/// The produce round trip over the floor's, for one policy and way to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    pub(crate) policy: Policy,
    pub(crate) waiting: Waiting,
    /// Bytes on the wire, there and back.
    pub(crate) request_bytes: usize,
    pub(crate) response_bytes: usize,
    pub(crate) compared: Compared,
}

impl RoundTrip {
    /// All policies that do not wait for a device, parked and spinning.
    pub(crate) fn measure_all(plan: &Plan, binary: &Path, dir: &Path) -> Vec<Self> {
        let policies = [Policy::None, Policy::Periodic];
        let mut measured = Vec::new();
        for waiting in [Waiting::Parked, Waiting::Spinning] {
            for policy in policies {
                measured.push(Self::measure(plan, binary, dir, policy, waiting));
            }
        }
        measured
    }

    fn measure(plan: &Plan, binary: &Path, dir: &Path, policy: Policy, waiting: Waiting) -> Self {
        let stream = Stream::of(policy);
        let settings = [("FELIX_SPIN_US", waiting.spin_us().to_string())];
        let broker = Broker::start(binary, dir, &[stream], &settings);
        let request = produce::request(&stream.topic(), &produce::batch(1));
        let mut to_broker = Appender::open(&broker, request.clone(), waiting);
        let response_bytes = to_broker.answer.len();
        let echo = Echo::start(request.len(), response_bytes, waiting);
        let mut to_echo = Connection::open(echo.port(), waiting);
        let mut answer = vec![0; response_bytes];
        let _pinned = Pinned::to(CLIENT_CPU);
        let compared = Compared::alternate(
            plan.rounds,
            plan.round_trips,
            |samples| round_trips(&mut to_echo, &request, &mut answer, samples),
            |samples| to_broker.appends(samples),
        );
        Self {
            policy,
            waiting,
            request_bytes: request.len(),
            response_bytes,
            compared,
        }
    }
}

/// A connection that appends one record at a time, and checks that all of them were appended.
#[derive(Debug)]
pub(crate) struct Appender {
    connection: Connection,
    request: Vec<u8>,
    answer: Vec<u8>,
    appended: usize,
}

impl Appender {
    /// Connects to a broker whose stream is empty, and appends once.
    pub(crate) fn open(broker: &Broker, request: Vec<u8>, waiting: Waiting) -> Self {
        let mut connection = Connection::open(broker.port(), waiting);
        let answer = connection.append(&request);
        Self {
            connection,
            request,
            answer,
            appended: 1,
        }
    }

    /// Appends so often.
    pub(crate) fn appends(&mut self, samples: usize) -> Latency {
        let (request, answer) = (&self.request, &mut self.answer);
        let latency = round_trips(&mut self.connection, request, answer, samples);
        self.appended += samples;
        // Offsets count, so the last one vouches for all before it.
        let last = usize::try_from(produce::base_offset(&self.answer));
        assert_eq!(last, Ok(self.appended - 1), "every record was appended");
        latency
    }
}

fn round_trips(
    connection: &mut Connection,
    request: &[u8],
    answer: &mut [u8],
    samples: usize,
) -> Latency {
    let mut latency = Latency::new();
    for _ in 0..samples {
        let begun = Instant::now();
        connection.send(request);
        connection.receive(answer);
        latency.record(begun);
    }
    latency
}
