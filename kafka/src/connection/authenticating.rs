//! From a peer that nobody knows to a principal, by SASL/PLAIN.
//!
//! What is asked before is answered for whom the peer was then: nobody, or the anonymous tenant. A
//! peer that begins SASL is nobody until it has succeeded (design section 7). What comes behind the
//! credentials waits for the outcome, since requests are begun one after another; where they are
//! refused, none of it is begun.

use super::Connection;
use super::parting::Parting;
use crate::answer::{Handled, Outcome};
use crate::codec::{
    ApiKey, DecodeError, ErrorCode, Errors, sasl_authenticate as authenticate,
    sasl_handshake as handshake,
};
use crate::log::{Asked, Line};
use crate::metrics::Refused;
use crate::mute::Throttle;
use crate::request::{Api, Reply, Request};
use crate::sasl::{Exchange, NO_REAUTHENTICATION, PLAIN, Plain, Step};
use bytes::Bytes;
use felix_core::limits::AUTHENTICATION_FAILURE_DELAY;
use felix_core::{ByteStream, Credentials, Principal, Shards};
use std::fmt;

/// What every sentence about refused credentials begins with (claim 211).
const REJECTED: &str = "Felix: token rejected: ";

/// The answer to a message without a header that was accepted: PLAIN has nothing to say.
const RAW_SUCCESS: Bytes = Bytes::from_static(&[0; 4]);

/// A request that came as a bare message of the mechanism.
const RAW: Asked = Asked {
    api: Api::Known(ApiKey::SaslAuthenticate),
    version: None,
};

impl<S: Shards, B: ByteStream> Connection<S, B> {
    /// Whether the next frame is a message of the mechanism, without a header.
    pub(super) fn awaits_raw(&self) -> bool {
        self.session.exchange == Exchange::AwaitsRaw
    }

    pub(super) fn shake_hands(&mut self, request: &Request) -> Result<Handled, DecodeError> {
        let reply = request.reply;
        let body = handshake::Request::decode(reply.version, &mut request.cursor())?;
        let error_code = match self.session.exchange.on_handshake() {
            Step::Again => {
                let line = Line::Authentication;
                self.context
                    .log
                    .tell(line, &self.session, &reply, &NO_REAUTHENTICATION);
                ErrorCode::IllegalSaslState
            }
            Step::OutOfOrder(fault) => {
                self.fail((&reply).into(), &fault);
                ErrorCode::IllegalSaslState
            }
            Step::Go if body.mechanism != PLAIN => {
                self.forget_anonymous();
                let fault = format!(
                    "the SASL mechanism {:?} is not offered; use {PLAIN}",
                    body.mechanism
                );
                self.fail((&reply).into(), &fault);
                ErrorCode::UnsupportedSaslMechanism
            }
            Step::Go => {
                self.forget_anonymous();
                self.session.exchange = if reply.version == 0 {
                    Exchange::AwaitsRaw
                } else {
                    Exchange::Awaits
                };
                ErrorCode::None
            }
        };
        let response = handshake::Response {
            error_code,
            mechanisms: &[PLAIN],
        };
        Ok(Handled::Done(
            reply.answer(|version, to| response.encode(version, to)),
        ))
    }

    pub(super) fn authenticate(&mut self, request: &Request) -> Result<Handled, DecodeError> {
        let reply = request.reply;
        let body = authenticate::Request::decode(reply.version, &mut request.cursor())?;
        match self.session.exchange.on_authenticate() {
            Step::Again => {
                let line = Line::Authentication;
                self.context
                    .log
                    .tell(line, &self.session, &reply, &NO_REAUTHENTICATION);
                let code = ErrorCode::IllegalSaslState;
                Ok(Handled::Done(refusal(reply, code, NO_REAUTHENTICATION)))
            }
            Step::OutOfOrder(fault) => {
                self.forget_anonymous();
                self.fail((&reply).into(), &fault);
                let code = ErrorCode::IllegalSaslState;
                Ok(Handled::Done(refusal(reply, code, fault)))
            }
            Step::Go => {
                let message = request.frame.get(body.auth_bytes).unwrap_or_default();
                Ok(match self.check(message) {
                    Ok(principal) => {
                        self.succeed(principal);
                        Handled::Done(success(reply))
                    }
                    Err(cause) => {
                        self.fail((&reply).into(), &cause);
                        let code = ErrorCode::SaslAuthenticationFailed;
                        let answer = refusal(reply, code, &format!("{REJECTED}{cause}"));
                        self.held_back(answer)
                    }
                })
            }
        }
    }

    /// Takes a message without a header. Where it is refused there is no room for a reason, and the
    /// connection is closed (T97); the log has it.
    pub(super) fn authenticate_raw(&mut self, message: &[u8]) -> Handled {
        match self.check(message) {
            Ok(principal) => {
                self.succeed(principal);
                Handled::Done(Outcome::Answer {
                    pieces: vec![RAW_SUCCESS],
                    errors: Errors::default(),
                    throttle: Throttle::default(),
                })
            }
            Err(cause) => {
                self.fail(RAW, &cause);
                self.held_back(Outcome::Silence(Throttle::default()))
            }
        }
    }

    /// Whom a PLAIN message speaks for, or why for nobody.
    fn check(&self, message: &[u8]) -> Result<Principal, String> {
        let plain = Plain::parse(message).map_err(|fault| fault.to_string())?;
        let credentials = Credentials {
            tenant: plain.tenant,
            token: plain.token,
            certificate: self.session.certificate.as_deref(),
        };
        let now = self.context.clock.wall();
        let accepted = self.context.auth.authenticate(credentials, now);
        accepted.map_err(|rejection| rejection.to_string())
    }

    fn succeed(&mut self, principal: Principal) {
        tracing::debug!(
            peer = &*self.session.peer,
            tenant = &*principal.tenant,
            subject = principal.subject.as_deref(),
            "Kafka client authenticated"
        );
        self.session.exchange = Exchange::Succeeded;
        self.session.principal = Some(principal);
        self.context.metrics.authenticated.increment();
        self.pulse.authenticated();
    }

    /// Takes nothing more from a peer that has not shown who it is. What it was owed before, and
    /// the answer that says why, is still sent.
    fn fail(&mut self, asked: Asked, cause: &dyn fmt::Display) {
        self.session.exchange = Exchange::Failed;
        let context = &self.context;
        context
            .log
            .tell(Line::Authentication, &self.session, asked, cause);
        context.metrics.refuse(Refused::Authentication);
        self.stop();
        // A bare message is not answered, so there is nothing to hear.
        if asked != RAW {
            self.parting = Parting::Due;
        }
    }

    /// From here on the peer is nobody, until it has shown who it is.
    fn forget_anonymous(&mut self) {
        if self.session.principal.take().is_some() {
            self.pulse.unauthenticated(self.context.clock.monotonic());
        }
    }

    /// An answer that is given after a while: guessing is to take time.
    fn held_back(&self, answer: Outcome) -> Handled {
        let wait = self.context.timer.sleep(AUTHENTICATION_FAILURE_DELAY);
        Handled::First(Box::pin(async move {
            wait.await;
            Handled::Done(answer)
        }))
    }
}

fn success(reply: Reply) -> Outcome {
    let response = authenticate::Response {
        error_code: ErrorCode::None,
        error_message: None,
        auth_bytes: &[],
        // For ever: expiry cuts no connection (claim 212), and nobody is to authenticate anew.
        session_lifetime_ms: 0,
    };
    reply.answer(|version, to| response.encode(version, to))
}

fn refusal(reply: Reply, error_code: ErrorCode, sentence: &str) -> Outcome {
    let response = authenticate::Response {
        error_code,
        error_message: Some(sentence.into()),
        auth_bytes: &[],
        session_lifetime_ms: 0,
    };
    reply.answer(|version, to| response.encode(version, to))
}
