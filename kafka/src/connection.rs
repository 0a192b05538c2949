//! One connection with a Kafka client, from accept to close.
//!
//! Requests are parsed, validated and handed to their shards strictly in the order they came, and
//! answered in that order. Only the wait for an answer is pipelined, so a second Produce does not
//! wait for the first one's commit. While a batch awaits its place in a shard's queue nothing
//! further is read: that is how a busy shard slows the connections that feed it, and no other.

use crate::answer::{Handled, Outcome};
use crate::codec::ApiKey;
use crate::context::Context as Shared;
use crate::frame::{FrameError, Inbox};
use crate::handler::{self, Scope};
use crate::in_flight::{InFlight, Load};
use crate::metrics::Refused;
use crate::outbox::Outbox;
use crate::request::{Request, RequestError};
use crate::session::Session;
use crate::signal::{Raised, Signal};
use bytes::BytesMut;
use felix_core::limits::{
    FETCH_BYTES_MAX, FETCHES_IN_FLIGHT_PER_CONNECTION_MAX, OUTBOUND_BYTES_PER_CONNECTION_MAX,
    PRODUCE_BYTES_IN_FLIGHT_PER_CONNECTION_MAX, REQUEST_BYTES_BEFORE_AUTH_MAX, REQUEST_BYTES_MAX,
    REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX,
};
use felix_core::{ByteStream, Shards};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Bytes of requests handled before other tasks of the core get their turn.
const BYTES_PER_TURN_MAX: usize = 128 << 10;

/// Bytes of records that a Fetch may bring even where those before it leave less.
const FETCH_SHARE_BYTES_MIN: usize = 1 << 20;

/// Rounds of receiving, handling and sending before other tasks of the core get their turn.
const ROUNDS_PER_TURN_MAX: usize = 8;

/// Serves one connection until either side ends it. `peer` is for the log.
///
/// Dropping the future drops everything the connection waits for, long polls included; batches
/// already handed to their shards are still written.
pub async fn serve<S: Shards, B: ByteStream>(context: Rc<Shared<S>>, stream: B, peer: String) {
    let mut connection = Connection::new(context, stream, peer);
    poll_fn(|cx| connection.poll(cx)).await;
}

type HandOver = LocalBoxFuture<'static, LocalBoxFuture<'static, Outcome>>;

/// The state between two polls. Lives on one CPU core.
struct Connection<S, B> {
    context: Rc<Shared<S>>,
    stream: B,
    session: Session,
    /// Whether requests are taken. What was begun is answered in any case.
    reading: bool,
    inbox: Inbox,
    outbox: Outbox,
    /// A request that is being handed to its shards. Those behind it wait.
    hand_over: Option<(HandOver, Load)>,
    in_flight: InFlight,
    /// The ends of long polls that may still wait.
    polls: Vec<Signal>,
    drained: Raised,
}

impl<S: Shards, B: ByteStream> Connection<S, B> {
    fn new(context: Rc<Shared<S>>, stream: B, peer: String) -> Self {
        context.metrics.connections.add(1);
        Self {
            session: Session::new(&peer, context.auth.anonymous()),
            drained: context.drain.raised(),
            context,
            stream,
            reading: true,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            hand_over: None,
            in_flight: InFlight::default(),
            polls: Vec::new(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.reading && self.drained.poll_unpin(cx).is_ready() {
            self.stop();
        }
        for _ in 0..ROUNDS_PER_TURN_MAX {
            match self.round(cx) {
                Ok(true) => {}
                Ok(false) if self.is_finished() => {
                    self.stream.close_write();
                    return Poll::Ready(());
                }
                Ok(false) => return Poll::Pending,
                Err(error) => {
                    tracing::debug!(peer = %self.session.peer, %error, "Kafka connection broke");
                    return Poll::Ready(());
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Does what can be done without waiting; whether anything was. Where it was not, every source
    /// of progress holds the waker.
    fn round(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let handed_over = self.poll_hand_over(cx);
        let begun = self.begin_requests();
        let answered = self.poll_answers(cx);
        let sent = self.poll_send(cx)?;
        let received = self.poll_recv(cx)?;
        Ok(handed_over || begun || answered || sent || received)
    }

    fn is_finished(&self) -> bool {
        !self.reading
            && self.hand_over.is_none()
            && self.in_flight.is_empty()
            && self.outbox.is_empty()
    }

    fn poll_hand_over(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((hand_over, load)) = &mut self.hand_over else {
            return false;
        };
        let Poll::Ready(answer) = hand_over.poll_unpin(cx) else {
            return false;
        };
        self.in_flight.push(answer, *load);
        self.hand_over = None;
        true
    }

    fn begin_requests(&mut self) -> bool {
        let bytes_max = self.request_bytes_max();
        let mut bytes = 0;
        let mut begun = false;
        while bytes < BYTES_PER_TURN_MAX && self.hand_over.is_none() {
            let Some(frame_bytes) = self.inbox.whole_frame(bytes_max) else {
                break;
            };
            if !self.has_room(frame_bytes) {
                // Whatever waits for room stands behind the polls, so they must not wait for it.
                self.end_polls();
                break;
            }
            begun = true;
            match self.inbox.next(bytes_max) {
                Ok(Some(frame)) => {
                    bytes += frame.len();
                    self.begin(frame);
                }
                Ok(None) => break,
                Err(error) => self.refuse_frame(error),
            }
        }
        begun
    }

    /// Whether a request of this size may be begun.
    fn has_room(&self, bytes: usize) -> bool {
        let load = self.in_flight.load();
        load.requests < REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
            && load.fetches < FETCHES_IN_FLIGHT_PER_CONNECTION_MAX
            && load.answer_bytes + self.outbox.bytes() < OUTBOUND_BYTES_PER_CONNECTION_MAX
            && (load.produce_bytes == 0
                || load.produce_bytes + bytes <= PRODUCE_BYTES_IN_FLIGHT_PER_CONNECTION_MAX)
    }

    fn begin(&mut self, frame: BytesMut) {
        let bytes = frame.len();
        let request = match Request::parse(frame, &mut self.session) {
            Ok(request) => request,
            Err(error) => return self.refuse_request(&error),
        };
        let reply = request.reply;
        self.context.metrics.request(reply.api);
        if reply.api != ApiKey::Fetch {
            // What stands behind a long poll is answered behind it, so the poll must not wait.
            self.end_polls();
        }
        let poll_end = Signal::default();
        let mut load = Load {
            requests: 1,
            ..Load::default()
        };
        if reply.api == ApiKey::Produce {
            load.produce_bytes = bytes;
        }
        let scope = Scope {
            context: &self.context,
            session: &self.session,
            reply,
            fetch_bytes_max: self.fetch_bytes_max(),
            poll_end: &poll_end,
        };
        match handler::begin(&scope, request) {
            Ok(Handled::Done(outcome)) => self.in_flight.push_ready(outcome, load),
            Ok(Handled::Waiting(answer)) => self.in_flight.push(answer, load),
            Ok(Handled::Polling { answer, bytes_max }) => {
                load.fetches = 1;
                load.fetch_bytes = bytes_max;
                self.polls.retain(|poll| !poll.is_alone());
                self.polls.push(poll_end);
                self.in_flight.push(answer, load);
            }
            Ok(Handled::HandOver(hand_over)) => self.hand_over = Some((hand_over, load)),
            Err(error) => self.refuse_request(&RequestError::body(reply, error)),
        }
    }

    /// Bytes of records one more Fetch may bring: what the Fetches before it leave of the bound,
    /// and never so little that a reader crawls.
    fn fetch_bytes_max(&self) -> usize {
        let load = self.in_flight.load();
        let held = load.fetch_bytes + load.answer_bytes + self.outbox.bytes();
        OUTBOUND_BYTES_PER_CONNECTION_MAX
            .saturating_sub(held)
            .clamp(FETCH_SHARE_BYTES_MIN, FETCH_BYTES_MAX)
    }

    fn end_polls(&mut self) {
        for poll in self.polls.drain(..) {
            poll.raise();
        }
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> bool {
        let mut answered = false;
        while self.outbox.bytes() < OUTBOUND_BYTES_PER_CONNECTION_MAX {
            match self.in_flight.poll_next(cx) {
                Poll::Ready(Outcome::Answer(pieces)) => {
                    for piece in pieces {
                        self.outbox.push(piece);
                    }
                }
                Poll::Ready(Outcome::Silence) => {}
                Poll::Ready(Outcome::Close) => {
                    self.context.metrics.protocol_errors.increment();
                    self.stop();
                    self.hand_over = None;
                    self.in_flight = InFlight::default();
                }
                Poll::Pending => break,
            }
            answered = true;
        }
        answered
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        match self.outbox.poll_flush(&mut self.stream, cx) {
            Poll::Ready(sent) => {
                let sent = sent?;
                let counted = u64::try_from(sent).expect("a size fits 64 bits");
                self.context.metrics.response_bytes.add(counted);
                Ok(sent > 0)
            }
            Poll::Pending => Ok(false),
        }
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let request_bytes_max = self.request_bytes_max();
        if !self.reading
            || self.hand_over.is_some()
            || self.inbox.whole_frame(request_bytes_max).is_some()
            || self.outbox.bytes() >= OUTBOUND_BYTES_PER_CONNECTION_MAX
        {
            return Ok(false);
        }
        let bytes_max = self.inbox.recv_bytes(request_bytes_max);
        match self.stream.poll_recv(cx, self.inbox.buffer(), bytes_max) {
            Poll::Ready(received) => {
                let received = received?;
                if received == 0 {
                    // All whole frames have been begun, or nothing would have been received. The
                    // peer may be gone, so polls that nobody may read do not wait.
                    self.stop();
                }
                let counted = u64::try_from(received).expect("a size fits 64 bits");
                self.context.metrics.request_bytes.add(counted);
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }

    /// Takes no further request. What was begun is still answered.
    fn stop(&mut self) {
        self.reading = false;
        self.inbox = Inbox::default();
        self.end_polls();
    }

    fn request_bytes_max(&self) -> usize {
        if self.session.principal.is_some() {
            REQUEST_BYTES_MAX
        } else {
            REQUEST_BYTES_BEFORE_AUTH_MAX
        }
    }

    fn refuse_frame(&mut self, error: FrameError) {
        let reason = match (error, self.session.principal.is_some()) {
            (FrameError::TooLarge { .. }, false) => Refused::UnauthenticatedFrameSize,
            (FrameError::TooLarge { .. }, true) | (FrameError::Negative(_), _) => {
                Refused::FrameSize
            }
        };
        tracing::warn!(
            peer = %self.session.peer,
            reason = %error,
            "closing a Kafka connection: not a request"
        );
        self.refuse(reason);
    }

    fn refuse_request(&mut self, error: &RequestError) {
        tracing::warn!(
            peer = %self.session.peer,
            client_id = &*self.session.client_id,
            api = %error.api,
            version = error.version,
            reason = %error.fault,
            "closing a Kafka connection: request refused"
        );
        self.refuse(error.fault.refused());
    }

    fn refuse(&mut self, reason: Refused) {
        self.context.metrics.refuse(reason);
        self.context.metrics.protocol_errors.increment();
        self.stop();
    }
}

impl<S, B> Drop for Connection<S, B> {
    fn drop(&mut self) {
        self.context.metrics.connections.add(-1);
    }
}
