//! What peers do wrong, in the broker's log: one line with who, what and why, and never a flood,
//! since any peer can cause as many as it likes.

use crate::metrics::Refused;
use crate::request::{Api, Reply, RequestError};
use crate::session::Session;
use felix_core::metrics::{Kind, Metrics, Sample};
use felix_core::{Clock, LogLimit};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

/// Bytes of a reason that are written: a reason may hold what a peer called a topic, and that may
/// be as long as the peer likes.
const REASON_BYTES_MAX: usize = 1 << 10;

/// Kinds of lines. Each has its own bound, so that a flood of one hides none of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// A connection beyond the limits.
    Arrival,
    /// Bytes that are no request.
    Frame,
    /// A request that cannot be answered.
    Request,
    /// Records that were not taken, and the producer was told.
    Records,
    /// Records that were not taken, and the connection was closed to tell the producer.
    Lost,
    /// A producer that asks for what there is not.
    Producer,
    /// A client that asks for what there is not.
    Coordinator,
    /// A peer that has not shown who it is.
    Authentication,
    /// A peer that holds what others wait for.
    Stalled,
}

impl Line {
    const ALL: [Self; 9] = [
        Self::Arrival,
        Self::Frame,
        Self::Request,
        Self::Records,
        Self::Lost,
        Self::Producer,
        Self::Coordinator,
        Self::Authentication,
        Self::Stalled,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Arrival => "kafka_arrival",
            Self::Frame => "kafka_frame",
            Self::Request => "kafka_request",
            Self::Records => "kafka_records",
            Self::Lost => "kafka_lost",
            Self::Producer => "kafka_producer",
            Self::Coordinator => "kafka_coordinator",
            Self::Authentication => "kafka_authentication",
            Self::Stalled => "kafka_stalled",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Arrival => "a Kafka connection was closed on arrival",
            Self::Frame => "closing a Kafka connection: not a request",
            Self::Request => "closing a Kafka connection: request refused",
            Self::Records => "refused records of a Kafka producer",
            Self::Lost => "closing a Kafka connection: records were lost",
            Self::Producer => "refused a Kafka producer",
            Self::Coordinator => "refused a Kafka client",
            Self::Authentication => "refused to authenticate a Kafka client",
            Self::Stalled => "closing a Kafka connection: it holds up others",
        }
    }
}

/// What a peer asked for, as far as it could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    /// The API.
    pub(crate) api: Api,
    /// The version; `None` where it named none.
    pub(crate) version: Option<i16>,
}

impl Asked {
    /// Nothing that could be read.
    pub(crate) const UNREAD: Self = Self {
        api: Api::Unread,
        version: None,
    };
}

impl From<&Reply> for Asked {
    fn from(reply: &Reply) -> Self {
        Self {
            api: Api::Known(reply.api),
            version: Some(reply.version),
        }
    }
}

impl From<&RequestError> for Asked {
    fn from(error: &RequestError) -> Self {
        Self {
            api: error.api,
            version: error.version,
        }
    }
}

/// See the module. Lives on one CPU core; clones write with the same bounds.
#[derive(Clone)]
pub struct ProtocolLog(Rc<Inner>);

struct Inner {
    clock: Rc<dyn Clock>,
    limits: [LogLimit; Line::ALL.len()],
}

impl ProtocolLog {
    /// A log that has been told nothing yet.
    #[must_use]
    pub fn new(clock: Rc<dyn Clock>) -> Self {
        Self(Rc::new(Inner {
            clock,
            limits: Default::default(),
        }))
    }

    /// A connection was closed before anything was read from it.
    pub fn closed_on_arrival(&self, peer: &SocketAddr, reason: Refused) {
        if let Some(left_out) = self.admit(Line::Arrival) {
            let message = Line::Arrival.message();
            tracing::warn!(%peer, reason = reason.label(), left_out, "{message}");
        }
    }

    /// `session`'s peer did something that gets `line`.
    pub(crate) fn tell(
        &self,
        line: Line,
        session: &Session,
        asked: impl Into<Asked>,
        reason: &dyn fmt::Display,
    ) {
        let Asked { api, version } = asked.into();
        let Some(left_out) = self.admit(line) else {
            return;
        };
        // As text, which is quoted and escaped: a reason may hold what a peer called a topic.
        let reason = cut(reason.to_string());
        // A level is part of a call site, not a value.
        macro_rules! write {
            ($level:ident) => {
                tracing::$level!(
                    peer = %session.peer,
                    client_id = &*session.client_id,
                    software = session.software.get().map(String::as_str),
                    %api,
                    version,
                    reason,
                    left_out,
                    "{}",
                    line.message()
                )
            };
        }
        match line {
            Line::Coordinator => write!(info),
            Line::Arrival
            | Line::Frame
            | Line::Request
            | Line::Records
            | Line::Lost
            | Line::Producer
            | Line::Authentication
            | Line::Stalled => write!(warn),
        }
    }

    /// `Some`: a line may be written, and tells how many of its kind before it were left out.
    fn admit(&self, line: Line) -> Option<Option<u64>> {
        let mut all = Line::ALL.iter().zip(&self.0.limits);
        let (_, limit) = all
            .find(|(known, _)| **known == line)
            .expect("every kind has its limit");
        let left_out = limit.admit(self.0.clock.monotonic())?;
        // Only where there is something to tell: most lines stand alone.
        Some((left_out > 0).then_some(left_out))
    }
}

/// At most [`REASON_BYTES_MAX`] bytes of a reason, and how many more it had.
fn cut(mut reason: String) -> String {
    let bytes = reason.len();
    if bytes > REASON_BYTES_MAX {
        let ends = reason.char_indices().map(|(at, _)| at);
        let end = ends.take_while(|at| *at <= REASON_BYTES_MAX).last();
        reason.truncate(end.unwrap_or(0));
        let left_out = bytes - reason.len();
        reason += &format!("... and {left_out} bytes more");
    }
    reason
}

impl Metrics for ProtocolLog {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        for (line, limit) in Line::ALL.iter().zip(&self.0.limits) {
            #[expect(
                clippy::cast_precision_loss,
                reason = "scrapes carry floating-point numbers"
            )]
            take(Sample {
                name: "felix_log_left_out_total",
                help: "Lines left out of the log since there were too many of their kind.",
                kind: Kind::Counter,
                labels: vec![("kind", line.label().to_owned())],
                value: limit.left_out() as f64,
            });
        }
    }
}

impl fmt::Debug for ProtocolLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtocolLog")
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}
