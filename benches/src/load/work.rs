//! What one thread does in a turn.

use super::batches::Batches;
use super::chance::PartitionChooser;
use super::link::Link;
use super::pace::Pace;
use super::reader::Reader;
use super::recorder::Recorder;
use super::waits::Waiting;
use std::collections::VecDeque;
use std::time::Duration;

/// What a duration is measured to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// The broker's acknowledgement.
    Acknowledged,
    /// The arrival at each consumer.
    Delivered,
    /// The answer to a Fetch.
    Fetched,
}

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answers {
    /// A broker that speaks Kafka.
    Kafka,
    /// A floor, which sends the request's correlation id back and says nothing.
    Echo,
    /// Nobody: acks=0.
    Nobody,
}

/// A partition that is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Its topic.
    pub(crate) topic: String,
    /// Its number in the topic.
    pub(crate) partition: i32,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    /// The partitions, by place.
    pub(crate) places: Vec<Place>,
    /// -1, 0 or 1.
    pub(crate) acks: i16,
    /// Who answers.
    pub(crate) answers: Answers,
    /// What is measured.
    pub(crate) until: Until,
    /// Requests of one connection that may be without an answer.
    pub(crate) in_flight_max: usize,
}

/// An idempotent producer's identity on one connection.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// As the broker gave it.
    pub(crate) id: i64,
    /// As the broker gave it.
    pub(crate) epoch: i16,
}

/// A connection that produces.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(super) link: Link,
    /// The places of the partitions whose leader is at the other end.
    pub(super) places: Vec<usize>,
    pub(super) chooser: PartitionChooser,
    pub(super) identity: Option<Identity>,
    /// By place: the next sequence number.
    pub(super) sequences: Vec<i32>,
    /// Due, and not sent for want of answers.
    pub(super) backlog: VecDeque<(Duration, usize)>,
}

impl Asker {
    /// For these places; `chooser` decides among them where nobody else does.
    pub(crate) fn new(
        link: Link,
        places: Vec<usize>,
        chooser: PartitionChooser,
        identity: Option<Identity>,
    ) -> Self {
        let sequences = vec![0; places.iter().max().map_or(0, |place| place + 1)];
        Self {
            link,
            places,
            chooser,
            identity,
            sequences,
            backlog: VecDeque::new(),
        }
    }
}

/// All that one thread does in a turn.
#[derive(Debug)]
pub(crate) struct Work {
    /// Its processor.
    pub(crate) cpu: usize,
    /// What it does when there is nothing to do.
    pub(crate) waiting: Waiting,
    /// When requests are due.
    pub(crate) pace: Option<Pace>,
    /// Whether only the pace brings requests; otherwise each answer brings the next.
    pub(crate) is_paced: bool,
    /// What is asked for.
    pub(crate) asking: Asking,
    /// Connections that produce.
    pub(crate) askers: Vec<Asker>,
    /// Connections that consume.
    pub(crate) readers: Vec<Reader>,
    /// Connections on which bytes flow unasked.
    pub(crate) sinks: Vec<Link>,
    /// What is sent.
    pub(crate) batches: Batches,
    /// The places of this thread, and who chooses among them.
    pub(crate) chooser: Option<(Vec<usize>, PartitionChooser)>,
    /// Fixes what is left to chance.
    pub(crate) random: fastrand::Rng,
}

/// What a thread brings home.
#[derive(Debug)]
pub struct Brought {
    pub(crate) recorder: Recorder,
    /// When load ended, from its start.
    pub(crate) until: Duration,
    /// The part of the measured time in which it had something to do.
    pub(crate) busy: f64,
    /// The part of the time in which it could have run and others did.
    pub(crate) waited: f64,
    /// The part of the answers that found it awake though it was to sleep.
    pub(crate) awake: f64,
}
