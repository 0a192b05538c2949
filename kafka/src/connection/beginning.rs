//! From a whole frame to a request that is under way.

use super::Connection;
use crate::answer::Handled;
use crate::bill::Bill;
use crate::charge::Charge;
use crate::codec::{ApiKey, DecodeError};
use crate::handler::{self, Scope};
use crate::in_flight::{FetchEnd, Load};
use crate::request::{Request, RequestError};
use crate::room::Room;
use crate::signal::Signal;
use crate::turn::BYTES_PER_TURN_MAX;
use bytes::BytesMut;
use felix_core::limits::PRODUCE_BYTES_IN_FLIGHT_PER_CONNECTION_MAX;
use felix_core::{ByteStream, Shards};
use futures_util::future::LocalBoxFuture;
use std::rc::Rc;

/// A request that is to come further before a later one is begun.
pub(super) struct Underway {
    pub(super) more: LocalBoxFuture<'static, Handled>,
    pub(super) begun: Begun,
}

/// What belongs to a request that has been begun.
pub(super) struct Begun {
    load: Load,
    poll_end: Signal,
    bill: Rc<Bill>,
    request: Charge,
}

impl<S: Shards, B: ByteStream> Connection<S, B> {
    pub(super) fn begin_requests(&mut self) -> bool {
        let mut bytes = 0;
        let mut begun = false;
        while bytes < BYTES_PER_TURN_MAX
            && self.underway.is_none()
            && !self.mute.is_on()
            && !self.turn.is_spent()
        {
            // Who has just authenticated may send more than before.
            let bytes_max = self.request_bytes_max();
            let Some(frame_bytes) = self.inbox.whole_frame(bytes_max) else {
                break;
            };
            if !self.room().has(frame_bytes) {
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

    /// What it may begin.
    pub(super) fn room(&self) -> Room<'_> {
        Room {
            memory: &self.context.memory,
            load: self.in_flight.load(),
            outbox_bytes: self.outbox.bytes(),
            produce_bytes_max: self.produce_bytes_max(),
            paid: self.reserved_bytes > 0,
        }
    }

    /// Where the tenant has a budget, little is under way that is not charged: it would be written
    /// before anybody knew that it is too much.
    fn produce_bytes_max(&self) -> usize {
        let bytes_max = PRODUCE_BYTES_IN_FLIGHT_PER_CONNECTION_MAX;
        let (Some(quota), Some(principal)) = (&self.context.quota, &self.session.principal) else {
            return bytes_max;
        };
        let uncharged = quota.uncharged_bytes_max(&principal.tenant);
        usize::try_from(uncharged).map_or(bytes_max, |uncharged| bytes_max.min(uncharged))
    }

    fn begin(&mut self, frame: BytesMut) {
        let bytes = frame.len();
        // What is there already is counted, whether or not there is room for it.
        let reserved_bytes = std::mem::take(&mut self.reserved_bytes);
        self.inbound.overdraw(bytes.saturating_sub(reserved_bytes));
        let charge = Charge::of_held(&self.inbound, bytes.max(reserved_bytes));
        self.pulse.request();
        if self.awaits_raw() {
            return self.begin_raw(&frame, charge);
        }
        let request = match Request::parse(frame, &mut self.session) {
            Ok(request) => request,
            Err(error) => return self.refuse_request(&error),
        };
        let reply = request.reply;
        self.context.metrics.request(reply.api, reply.version);
        self.last = Some(reply.api);
        let now = self.context.clock.monotonic();
        self.asked.push_back((reply.api, now));
        if reply.api != ApiKey::Fetch {
            // What stands behind a long poll is answered behind it, so the poll must not wait.
            self.end_polls();
        }
        let poll_end = Signal::default();
        let bill = Rc::new(Bill::new(&self.context.memory.outbound));
        let mut load = Load {
            requests: 1,
            ..Load::default()
        };
        if reply.api == ApiKey::Produce {
            load.produce_bytes = bytes;
        }
        let fetch_bytes_max = self.room().fetch_bytes_max();
        if reply.api == ApiKey::Fetch {
            // At once, or others that begin meanwhile were promised the same.
            bill.promise(fetch_bytes_max);
        }
        let begun = Begun {
            load,
            poll_end,
            bill,
            request: charge,
        };
        let handled = match reply.api {
            ApiKey::SaslHandshake => self.shake_hands(&request),
            ApiKey::SaslAuthenticate => self.authenticate(&request),
            _ => self.handle(request, fetch_bytes_max, &begun),
        };
        match handled {
            Ok(handled) => self.go_on(handled, begun),
            Err(error) => self.refuse_request(&RequestError::body(reply, error)),
        }
    }

    fn handle(
        &self,
        request: Request,
        fetch_bytes_max: usize,
        begun: &Begun,
    ) -> Result<Handled, DecodeError> {
        let scope = Scope {
            context: &self.context,
            session: &self.session,
            reply: request.reply,
            fetch_bytes_max,
            poll_end: &FetchEnd::new(&begun.poll_end, &begun.bill),
            turn: &self.turn,
        };
        handler::begin(&scope, request)
    }

    /// A frame that is a message of the SASL mechanism and nothing else.
    fn begin_raw(&mut self, message: &[u8], request: Charge) {
        let api = ApiKey::SaslAuthenticate;
        self.context.metrics.request(api, 0);
        self.last = Some(api);
        let now = self.context.clock.monotonic();
        self.asked.push_back((api, now));
        self.end_polls();
        let load = Load {
            requests: 1,
            ..Load::default()
        };
        let handled = self.authenticate_raw(message);
        let begun = Begun {
            load,
            poll_end: Signal::default(),
            bill: Rc::new(Bill::new(&self.context.memory.outbound)),
            request,
        };
        self.go_on(handled, begun);
    }

    pub(super) fn go_on(&mut self, handled: Handled, begun: Begun) {
        match handled {
            Handled::Done(outcome) => {
                self.in_flight
                    .push_ready(outcome, begun.load, begun.request);
            }
            Handled::Waiting(answer) => self.in_flight.push(answer, begun.load, begun.request),
            Handled::Polling { answer, bytes_max } => {
                let load = Load {
                    fetches: 1,
                    fetch_bytes: bytes_max,
                    ..begun.load
                };
                self.polls.retain(|poll| !poll.is_alone());
                self.polls.push(begun.poll_end);
                self.in_flight
                    .push_fetch(answer, load, begun.request, begun.bill);
                if !self.reading {
                    // It was begun before it was said to stop, and takes what there is.
                    self.end_polls();
                }
            }
            Handled::First(more) => self.underway = Some(Underway { more, begun }),
        }
    }

    pub(super) fn end_polls(&mut self) {
        for poll in self.polls.drain(..) {
            poll.raise();
        }
    }
}
