//! One connection with a Kafka client, from accept to close.
//!
//! Requests are parsed, validated and handed to their shards strictly in the order they came, and
//! answered in that order. Only the wait for an answer is pipelined, so a second Produce does not
//! wait for the first one's commit. While a batch awaits its place in a shard's queue nothing
//! further is read: that is how a busy shard slows the connections that feed it, and no other.

mod authenticating;
mod beginning;
mod parting;

use crate::answer::Outcome;
use crate::codec::ApiKey;
use crate::context::Context as Shared;
use crate::frame::{FrameError, Inbox, OtherProtocol};
use crate::in_flight::InFlight;
use crate::log::{Asked, Line};
use crate::metrics::{KafkaMetrics, Refused};
use crate::mute::{Mute, Throttle};
use crate::outbox::Outbox;
use crate::pulse::{Ending, Holding, Pulse};
use crate::request::RequestError;
use crate::session::{Peer, Session};
use crate::signal::{Raised, Signal};
use crate::turn::Turn;
use beginning::Underway;
use felix_core::limits::{
    OUTBOUND_BYTES_PER_CONNECTION_MAX, REQUEST_BYTES_BEFORE_AUTH_MAX, REQUEST_BYTES_MAX,
};
use felix_core::memory::Share;
use felix_core::stalls::Work;
use felix_core::{ByteStream, Monotonic, Shards};
use futures_util::FutureExt;
use parting::Parting;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Rounds of receiving, handling and sending before other tasks of the core get their turn.
const ROUNDS_PER_TURN_MAX: usize = 8;

/// Why a connection is closed that has not authenticated in time (claim 218).
const TOO_LATE: &str = "it has not authenticated in time (FELIX_KAFKA_AUTH_TIMEOUT_MS)";

/// Serves one connection until either side ends it. `peer` is for the log.
///
/// Dropping the future drops everything the connection waits for, long polls included; batches
/// already handed to their shards are still written.
pub async fn serve<S: Shards, B: ByteStream>(
    context: Rc<Shared<S>>,
    stream: B,
    peer: impl Into<Peer>,
) {
    drop(serve_watched(context, stream, peer, Rc::default()).await);
}

/// [`serve`] for somebody who watches over it. Returns the stream where all that was owed has been
/// sent and its writing side is closed: its peer may still be sending, and whoever closes a socket
/// before reading that may cost the peer the last answer.
pub async fn serve_watched<S: Shards, B: ByteStream>(
    context: Rc<Shared<S>>,
    stream: B,
    peer: impl Into<Peer>,
    pulse: Rc<Pulse>,
) -> Option<B> {
    let stalls = Rc::clone(&context.stalls);
    let mut connection = Connection::new(context, stream, &peer.into(), pulse);
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

/// The state between two polls. Lives on one CPU core.
struct Connection<S, B> {
    context: Rc<Shared<S>>,
    stream: B,
    session: Session,
    /// Whether requests are taken. What was begun is answered in any case.
    reading: bool,
    parting: Parting,
    inbox: Inbox,
    outbox: Outbox,
    /// A request that those behind it wait for, as while it is handed to its shards.
    underway: Option<Underway>,
    in_flight: InFlight,
    /// Whether the tenant has to pay first for what it has published.
    mute: Mute,
    /// The ends of long polls that may still wait.
    polls: Vec<Signal>,
    drained: Raised,
    /// What its requests hold until they are answered.
    inbound: Rc<Share>,
    /// What the frame under way holds of that, where it is large enough to be paid for first.
    reserved_bytes: usize,
    /// What its answers hold until they are sent.
    outbound: Rc<Share>,
    pulse: Rc<Pulse>,
    turn: Turn,
    /// One for each request under way: what is asked, and when it was parsed.
    asked: VecDeque<(ApiKey, Monotonic)>,
    /// What was asked last, for whoever wants to know what this connection does.
    last: Option<ApiKey>,
    _served: Served,
}

impl<S: Shards, B: ByteStream> Connection<S, B> {
    fn new(context: Rc<Shared<S>>, stream: B, peer: &Peer, pulse: Rc<Pulse>) -> Self {
        let session = Session::new(peer, context.auth.anonymous());
        if session.principal.is_none() {
            let accepted = pulse.accepted();
            pulse.unauthenticated(accepted.unwrap_or_else(|| context.clock.monotonic()));
        }
        let outbound = Rc::new(Share::of(&context.memory.outbound, peer.origin));
        Self {
            inbound: Rc::new(Share::of(&context.memory.inbound, peer.origin)),
            reserved_bytes: 0,
            in_flight: InFlight::new(Rc::clone(&outbound)),
            outbound,
            pulse,
            turn: Turn::default(),
            _served: Served::new(&context.metrics),
            session,
            drained: context.drain.raised(),
            context,
            stream,
            reading: true,
            parting: Parting::default(),
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            underway: None,
            mute: Mute::default(),
            polls: Vec::new(),
            asked: VecDeque::new(),
            last: None,
        }
    }

    /// Which connection it is, and what it is likely to be at.
    fn name(&self) -> String {
        let api = self.last.map_or("nothing yet", ApiKey::name);
        format!("{} last asked {api}", self.session.peer)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.turn.begin();
        let ending = self.pulse.ending(cx);
        if let Some(ending) = ending
            && self.reading
        {
            tracing::debug!(peer = %self.session.peer, ?ending, "Kafka connection told to end");
        }
        if ending == Some(Ending::Unauthenticated) {
            self.context.log.tell(
                Line::Authentication,
                &self.session,
                Asked::UNREAD,
                &TOO_LATE,
            );
            return Poll::Ready(End::Broken);
        }
        if ending == Some(Ending::AtOnce) {
            let held = Held {
                request_bytes: self.reserved_bytes,
                answer_bytes: self.outbox.held_bytes() + self.in_flight.ready_bytes(),
            };
            self.context
                .log
                .tell(Line::Stalled, &self.session, Asked::UNREAD, &held);
            return Poll::Ready(End::Broken);
        }
        if self.reading && (ending.is_some() || self.drained.poll_unpin(cx).is_ready()) {
            self.stop();
        }
        let polled = self.rounds(cx);
        // Waiting for memory, or muted, it is not read, so it cannot go on.
        let busy = !self.is_unburdened() || self.inbound.is_waiting() || self.mute.is_on();
        self.pulse.show(busy, self.holding());
        polled
    }

    /// What it holds for its peer to go on with. A request that is here whole waits for others. One
    /// that is muted, whole or half way, waits because of its own tenant, which those who wait for
    /// the memory have nothing to do with. An answer that waits for one before it is held, whoever
    /// that one waits for.
    fn holding(&self) -> Holding {
        let whole = self.inbox.whole_frame(self.request_bytes_max());
        let is_awaited = whole.is_none() || self.mute.is_on();
        Holding {
            request_bytes: if is_awaited { self.reserved_bytes } else { 0 },
            answer_bytes: self.outbox.held_bytes() + self.in_flight.ready_bytes(),
        }
    }

    fn rounds(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        for _ in 0..ROUNDS_PER_TURN_MAX {
            match self.round(cx) {
                Ok(true) if self.turn.is_spent() => break,
                Ok(true) => {}
                Ok(false) if !self.reading && self.is_unburdened() => {
                    ready!(self.poll_parting(cx));
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
        let unmuted = self.mute.poll_end(cx);
        let came_further = self.poll_underway(cx);
        let begun = self.begin_requests();
        let answered = self.poll_answers(cx);
        let sent = self.poll_send(cx)?;
        let received = self.poll_recv(cx)?;
        Ok(unmuted || came_further || begun || answered || sent || received)
    }

    /// Whether every request begun is answered, and every answer sent.
    fn is_unburdened(&self) -> bool {
        self.underway.is_none() && self.in_flight.is_empty() && self.outbox.is_empty()
    }

    fn poll_underway(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(underway) = &mut self.underway else {
            return false;
        };
        let Poll::Ready(handled) = underway.more.poll_unpin(cx) else {
            return false;
        };
        let Underway { begun, .. } = self.underway.take().expect("it was there");
        self.go_on(handled, begun);
        true
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> bool {
        let mut answered = false;
        while self.outbox.bytes() < OUTBOUND_BYTES_PER_CONNECTION_MAX {
            let turn_has_come = self.outbox.is_empty();
            let Poll::Ready((outcome, charge)) = self.in_flight.poll_next(cx, turn_has_come) else {
                break;
            };
            let asked = self.asked.pop_front();
            match outcome {
                Outcome::Answer {
                    pieces,
                    errors,
                    throttle,
                } => {
                    // Given back as it is sent.
                    charge.hand_over();
                    for piece in pieces {
                        self.outbox.push(piece);
                    }
                    let (api, begun) = asked.expect("every answer is one to a request");
                    let now = self.context.clock.monotonic();
                    self.context.metrics.answered(api, &errors, begun, now);
                    self.hold_back(throttle);
                }
                Outcome::Silence(throttle) => self.hold_back(throttle),
                Outcome::Close => {
                    self.context.metrics.protocol_errors.increment();
                    self.stop();
                    self.underway = None;
                    self.in_flight = InFlight::new(Rc::clone(&self.outbound));
                    self.outbound.stop_waiting();
                    self.asked.clear();
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
                let counted = u64::try_from(sent.bytes).expect("a size fits 64 bits");
                self.context.metrics.response_bytes.add(counted);
                self.pulse.sent(counted);
                self.outbound.release(sent.freed_bytes);
                Ok(sent.bytes > 0)
            }
            Poll::Pending => Ok(false),
        }
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let request_bytes_max = self.request_bytes_max();
        if !self.reading
            || self.mute.is_on()
            || self.underway.is_some()
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
                self.pulse.received(counted);
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }

    /// Pays for a large frame, all of it, before more of it is received than every connection may
    /// hold. Whoever waits here holds nothing but requests that are answered without it, so nobody
    /// waits in a circle. What could not be begun before a produce is charged is not paid for either:
    /// that may mute the connection, and others would wait for what it holds.
    fn poll_reserve(&mut self, cx: &mut Context<'_>, request_bytes_max: usize) -> Poll<()> {
        if self.reserved_bytes == 0
            && let Some(bytes) = self.inbox.large_frame(request_bytes_max)
        {
            let is_charged = self.context.quota.is_some();
            if is_charged && !self.room().has_beside_produces(bytes) {
                // Whatever is answered makes another round.
                return Poll::Pending;
            }
            ready!(self.inbound.poll_reserve(cx, bytes));
            self.reserved_bytes = bytes;
            self.inbox.reserve(bytes);
        }
        Poll::Ready(())
    }

    /// Reads and begins nothing for as long as an answer has said, from when it is in line to be sent
    /// (claim 172). What was begun is still answered. What the peer sends meanwhile stays with the
    /// kernel, and a connection that is to end ends at once.
    fn hold_back(&mut self, throttle: Throttle) {
        if !self.reading {
            return;
        }
        self.mute.extend(throttle, &self.context);
        if self.mute.is_on() {
            self.inbound.stop_waiting();
            if self.reserved_bytes > 0 && self.inbox.take_back() {
                self.inbound
                    .release(std::mem::take(&mut self.reserved_bytes));
            }
        }
    }

    /// Takes no further request. What was begun is still answered.
    fn stop(&mut self) {
        self.reading = false;
        self.mute = Mute::default();
        self.inbox = Inbox::default();
        self.inbound
            .release(std::mem::take(&mut self.reserved_bytes));
        self.inbound.stop_waiting();
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
            (FrameError::Other(OtherProtocol::Tls), _) => Refused::Tls,
            (FrameError::Other(OtherProtocol::Http), _) => Refused::Http,
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

/// What a connection holds that has to go, for the log.
struct Held {
    request_bytes: usize,
    answer_bytes: usize,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            request_bytes,
            answer_bytes,
        } = self;
        write!(
            f,
            "it holds {request_bytes} bytes for a request and {answer_bytes} of answers, which \
             others wait for, and hardly goes on"
        )
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
