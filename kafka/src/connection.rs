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
use crate::log::{Asked, Line};
use crate::metrics::{KafkaMetrics, Refused};
use crate::outbox::Outbox;
use crate::pulse::{Ending, Pulse};
use crate::request::{Request, RequestError};
use crate::session::Session;
use crate::signal::{Raised, Signal};
use bytes::BytesMut;
use felix_core::limits::{
    FETCH_BYTES_MAX, FETCHES_IN_FLIGHT_PER_CONNECTION_MAX, OUTBOUND_BYTES_PER_CONNECTION_MAX,
    PRODUCE_BYTES_IN_FLIGHT_PER_CONNECTION_MAX, REQUEST_BYTES_BEFORE_AUTH_MAX, REQUEST_BYTES_MAX,
    REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX,
};
use felix_core::memory::Share;
use felix_core::stalls::Work;
use felix_core::{ByteStream, Monotonic, Shards};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Bytes of requests handled before other tasks of the core get their turn.
const BYTES_PER_TURN_MAX: usize = 128 << 10;

/// Bytes of records that a Fetch may bring even where those before it leave less.
const FETCH_SHARE_BYTES_MIN: usize = 1 << 20;

/// Of the memory for answers that is free, the part that one Fetch may bring: so that many that
/// are begun at once share it.
const FETCH_SHARE_OF_FREE: usize = 16;

/// Bytes of records that a Fetch may bring where no memory for answers is left. It must bring
/// something, since those who hold the memory may be readers that never take their answers.
const FETCH_BYTES_WHEN_SHORT: usize = 64 << 10;

/// Rounds of receiving, handling and sending before other tasks of the core get their turn.
const ROUNDS_PER_TURN_MAX: usize = 8;

/// Serves one connection until either side ends it. `peer` is for the log.
///
/// Dropping the future drops everything the connection waits for, long polls included; batches
/// already handed to their shards are still written.
pub async fn serve<S: Shards, B: ByteStream>(context: Rc<Shared<S>>, stream: B, peer: String) {
    drop(serve_watched(context, stream, peer, Rc::default()).await);
}

/// [`serve`] for somebody who watches over it. Returns the stream where all that was owed has been
/// sent and its writing side is closed: its peer may still be sending, and whoever closes a socket
/// before reading that may cost the peer the last answer.
pub async fn serve_watched<S: Shards, B: ByteStream>(
    context: Rc<Shared<S>>,
    stream: B,
    peer: String,
    pulse: Rc<Pulse>,
) -> Option<B> {
    let stalls = Rc::clone(&context.stalls);
    let mut connection = Connection::new(context, stream, peer, pulse);
    let served = poll_fn(|cx| {
        let begun = stalls.begin();
        let polled = connection.poll(cx);
        stalls.end(begun, Work::Connection, || connection.name());
        polled
    })
    .await;
    served.is_clean().then_some(connection.stream)
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Everything owed was sent.
    Clean,
    /// It broke, or had to go.
    Broken,
}

impl End {
    fn is_clean(self) -> bool {
        match self {
            Self::Clean => true,
            Self::Broken => false,
        }
    }
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
    /// What its requests hold until they are answered.
    inbound: Share,
    /// What the frame under way holds of that, where it is large enough to be paid for first.
    reserved_bytes: usize,
    /// What its answers hold until they are sent.
    outbound: Rc<Share>,
    pulse: Rc<Pulse>,
    /// One for each request under way: when a Produce was parsed.
    produced: VecDeque<Option<Monotonic>>,
    /// What was asked last, for whoever wants to know what this connection does.
    last: Option<ApiKey>,
    _served: Served,
}

impl<S: Shards, B: ByteStream> Connection<S, B> {
    fn new(context: Rc<Shared<S>>, stream: B, peer: String, pulse: Rc<Pulse>) -> Self {
        let outbound = Rc::new(Share::new(&context.memory.outbound));
        Self {
            inbound: Share::new(&context.memory.inbound),
            reserved_bytes: 0,
            in_flight: InFlight::new(Rc::clone(&outbound)),
            outbound,
            pulse,
            _served: Served::new(&context.metrics),
            session: Session::new(&peer, context.auth.anonymous()),
            drained: context.drain.raised(),
            context,
            stream,
            reading: true,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            hand_over: None,
            polls: Vec::new(),
            produced: VecDeque::new(),
            last: None,
        }
    }

    /// Which connection it is, and what it is likely to be at.
    fn name(&self) -> String {
        let api = self.last.map_or("nothing yet", ApiKey::name);
        format!("{} last asked {api}", self.session.peer)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let ending = self.pulse.ending(cx);
        if let Some(ending) = ending
            && self.reading
        {
            tracing::debug!(peer = %self.session.peer, ?ending, "Kafka connection told to end");
        }
        if ending == Some(Ending::AtOnce) {
            return Poll::Ready(End::Broken);
        }
        if self.reading && (ending.is_some() || self.drained.poll_unpin(cx).is_ready()) {
            self.stop();
        }
        let polled = self.rounds(cx);
        let busy = !self.is_unburdened();
        let holding = self.reserved_bytes > 0 || !self.outbox.is_empty();
        self.pulse.show(busy, holding);
        polled
    }

    fn rounds(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        for _ in 0..ROUNDS_PER_TURN_MAX {
            match self.round(cx) {
                Ok(true) => {}
                Ok(false) if !self.reading && self.is_unburdened() => {
                    self.stream.close_write();
                    return Poll::Ready(End::Clean);
                }
                Ok(false) => return Poll::Pending,
                Err(error) => {
                    tracing::debug!(peer = %self.session.peer, %error, "Kafka connection broke");
                    return Poll::Ready(End::Broken);
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

    /// Whether every request begun is answered, and every answer sent.
    fn is_unburdened(&self) -> bool {
        self.hand_over.is_none() && self.in_flight.is_empty() && self.outbox.is_empty()
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
            && self.memory_has_room(bytes)
    }

    /// Whether the core's memory allows one more request of this size. Who holds none of it may
    /// always go on with one, so that there is progress whoever holds the rest; and who may not
    /// go on holds some, so that its own answer, or the sending of it, is what it waits for.
    fn memory_has_room(&self, bytes: usize) -> bool {
        let memory = &self.context.memory;
        let load = self.in_flight.load();
        let paid = self.reserved_bytes > 0;
        let inbound = load.requests == 0
            || paid
            || (bytes <= memory.inbound.free() && !memory.inbound.has_waiting());
        let holds_answers = load.fetches > 0 || load.answer_bytes > 0 || !self.outbox.is_empty();
        inbound && (!holds_answers || memory.outbound.free() > 0)
    }

    fn begin(&mut self, frame: BytesMut) {
        let bytes = frame.len();
        // What is there already is counted, whether or not there is room for it.
        let reserved_bytes = std::mem::take(&mut self.reserved_bytes);
        self.inbound.overdraw(bytes.saturating_sub(reserved_bytes));
        self.pulse.request();
        let request = match Request::parse(frame, &mut self.session) {
            Ok(request) => request,
            Err(error) => return self.refuse_request(&error),
        };
        let reply = request.reply;
        self.context.metrics.request(reply.api);
        self.last = Some(reply.api);
        let now = || self.context.clock.monotonic();
        self.produced
            .push_back((reply.api == ApiKey::Produce).then(now));
        if reply.api != ApiKey::Fetch {
            // What stands behind a long poll is answered behind it, so the poll must not wait.
            self.end_polls();
        }
        let poll_end = Signal::default();
        let mut load = Load {
            requests: 1,
            request_bytes: bytes,
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

    /// Bytes of records one more Fetch may bring: what the Fetches before it leave of the
    /// connection's bound, never so little that a reader crawls, and no more than its part of the
    /// core's memory.
    fn fetch_bytes_max(&self) -> usize {
        let load = self.in_flight.load();
        let held = load.fetch_bytes + load.answer_bytes + self.outbox.bytes();
        let of_core = self.context.memory.outbound.free() / FETCH_SHARE_OF_FREE;
        OUTBOUND_BYTES_PER_CONNECTION_MAX
            .saturating_sub(held)
            .clamp(FETCH_SHARE_BYTES_MIN, FETCH_BYTES_MAX)
            .min(of_core.max(FETCH_BYTES_WHEN_SHORT))
    }

    fn end_polls(&mut self) {
        for poll in self.polls.drain(..) {
            poll.raise();
        }
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> bool {
        let mut answered = false;
        while self.outbox.bytes() < OUTBOUND_BYTES_PER_CONNECTION_MAX {
            let Poll::Ready((outcome, load)) = self.in_flight.poll_next(cx) else {
                break;
            };
            self.inbound.release(load.request_bytes);
            let produced = self.produced.pop_front().flatten();
            match outcome {
                Outcome::Answer(pieces) => {
                    for piece in pieces {
                        self.outbox.push(piece);
                    }
                    if let Some(begun) = produced {
                        let now = self.context.clock.monotonic();
                        self.context.metrics.produce_us.record(begun, now);
                    }
                }
                Outcome::Silence => {}
                Outcome::Close => {
                    self.context.metrics.protocol_errors.increment();
                    self.stop();
                    self.hand_over = None;
                    self.in_flight = InFlight::new(Rc::clone(&self.outbound));
                    self.produced.clear();
                }
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
                self.pulse.moved(counted);
                self.outbound.release(sent);
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
        if self.poll_reserve(cx, request_bytes_max).is_pending() {
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
                self.pulse.moved(counted);
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }

    /// Pays for a large frame, all of it, before more of it is received. Whoever waits here holds
    /// nothing but requests that are answered without it, so nobody waits in a circle.
    fn poll_reserve(&mut self, cx: &mut Context<'_>, request_bytes_max: usize) -> Poll<()> {
        if self.reserved_bytes == 0
            && let Some(bytes) = self.inbox.large_frame(request_bytes_max)
        {
            ready!(self.inbound.poll_reserve(cx, bytes));
            self.reserved_bytes = bytes;
        }
        Poll::Ready(())
    }

    /// Takes no further request. What was begun is still answered.
    fn stop(&mut self) {
        self.reading = false;
        self.inbox = Inbox::default();
        self.inbound
            .release(std::mem::take(&mut self.reserved_bytes));
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
        self.context
            .log
            .tell(Line::Frame, &self.session, Asked::UNREAD, &error);
        self.refuse(reason);
    }

    fn refuse_request(&mut self, error: &RequestError) {
        self.context
            .log
            .tell(Line::Request, &self.session, error, &error.fault);
        self.refuse(error.fault.refused());
    }

    fn refuse(&mut self, reason: Refused) {
        self.context.metrics.refuse(reason);
        self.context.metrics.protocol_errors.increment();
        self.stop();
    }
}

/// Counts a connection as served for as long as it is.
struct Served(Rc<KafkaMetrics>);

impl Served {
    fn new(metrics: &Rc<KafkaMetrics>) -> Self {
        metrics.connections.add(1);
        Self(Rc::clone(metrics))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.connections.add(-1);
    }
}
