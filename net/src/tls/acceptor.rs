//! Handshakes on one core, their heavy steps beside it.

use super::certificate;
use super::config::TlsConfig;
use super::failure::{NotTls, TlsError};
use super::metrics::TlsMetrics;
use super::session::{HEADER_BYTES, RECORD_BYTES_MAX, Session};
use super::stream::{TlsStream, poll_flush};
use bytes::BytesMut;
use felix_core::limits::HANDSHAKE_JOBS_PER_CORE_MAX;
use felix_core::memory::{Pool, Share};
use felix_core::{Blocking, ByteStream, CertificateNames, Clock, blocking};
use rustls::HandshakeKind;
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;

/// The longest record that any version allows (RFC 5246, section 6.2.3).
const RECORD_WIRE_BYTES_MAX: usize = HEADER_BYTES + RECORD_BYTES_MAX + 2048;

/// The content type of a handshake, with which every client begins.
const HANDSHAKE: u8 = 22;

/// The major version that all of SSL 3.0 to TLS 1.3 write into records.
const MAJOR: u8 = 3;

/// Steps beside the core that one handshake may take. Clients send two or three flights; a client
/// certificate with a long chain may come in some more records.
const STEPS_MAX: usize = 32;

/// Shakes hands with peers of one CPU core, on which it lives.
///
/// A step of a handshake that exchanges keys, signs or checks signatures takes from a fifth of a
/// millisecond to some milliseconds, so each step is done beside the core; a core has
/// [`HANDSHAKE_JOBS_PER_CORE_MAX`] of them there at once, and further ones wait in line.
pub struct TlsAcceptor {
    config: RefCell<TlsConfig>,
    places: Rc<Pool>,
    blocking: Rc<dyn Blocking>,
    clock: Rc<dyn Clock>,
    metrics: Rc<TlsMetrics>,
}

/// A peer that hands were shaken with.
#[derive(Debug)]
pub struct Accepted<S> {
    /// Its connection.
    pub stream: TlsStream<S>,
    /// The names of its certificate, where it was asked for one. The chain has been checked.
    pub certificate: Option<Rc<CertificateNames>>,
}

/// A peer that hands were not shaken with.
#[derive(Debug)]
pub struct Refused<S> {
    /// Its connection, with which nothing more can be done than to close it.
    pub stream: S,
    /// Why.
    pub error: TlsError,
}

impl TlsAcceptor {
    /// Shakes hands as `config` says.
    #[must_use]
    pub fn new(config: TlsConfig, blocking: Rc<dyn Blocking>, clock: Rc<dyn Clock>) -> Self {
        Self {
            config: RefCell::new(config),
            places: Rc::new(Pool::new(HANDSHAKE_JOBS_PER_CORE_MAX)),
            blocking,
            clock,
            metrics: Rc::default(),
        }
    }

    /// Has handshakes that begin from now on follow another configuration. Connections that are
    /// there keep theirs.
    pub fn replace(&self, config: TlsConfig) {
        self.config.replace(config);
    }

    /// What came of the handshakes of this core.
    #[must_use]
    pub fn metrics(&self) -> Rc<TlsMetrics> {
        Rc::clone(&self.metrics)
    }

    /// Shakes hands. There is no bound on the time it takes: whoever drops the future gives the
    /// peer up, and counts that.
    ///
    /// # Errors
    /// The peer is to be closed; it has been told why where it can understand it.
    pub async fn accept<S: ByteStream>(
        &self,
        mut stream: S,
    ) -> Result<Accepted<S>, Box<Refused<S>>> {
        let began = self.clock.monotonic();
        let session = match self.shake_hands(&mut stream).await {
            Ok(session) => session,
            Err(error) => {
                self.metrics.fail(error.failure());
                return Err(Box::new(Refused { stream, error }));
            }
        };
        let connection = session.connection();
        match connection.handshake_kind() {
            Some(HandshakeKind::Resumed) => self.metrics.resumed.increment(),
            Some(HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest) | None => {
                self.metrics.full.increment();
            }
        }
        self.metrics
            .handshake_us
            .record(began, self.clock.monotonic());
        let shown = connection.peer_certificates().and_then(<[_]>::first);
        let certificate = shown.map(|shown| Rc::new(certificate::names(shown)));
        Ok(Accepted {
            stream: TlsStream::new(stream, session),
            certificate,
        })
    }

    async fn shake_hands<S: ByteStream>(&self, stream: &mut S) -> Result<Session, TlsError> {
        let config = self.config.borrow().server.clone();
        let mut session = Session::new(config).map_err(TlsError::Rustls)?;
        let mut first = true;
        for _ in 0..STEPS_MAX {
            receive(stream, &mut session.incoming, first).await?;
            first = false;
            let (stepped, came) = self.step(session).await;
            session = stepped;
            let flushed = poll_fn(|cx| poll_flush(stream, &mut session.outgoing, cx)).await;
            // The reason counts for more than that the peer did not stay to hear it.
            came.map_err(TlsError::Rustls)?;
            flushed.map_err(TlsError::Broken)?;
            if !session.connection().is_handshaking() {
                return Ok(session);
            }
        }
        Err(TlsError::TooManySteps)
    }

    /// One step beside the core.
    async fn step(&self, mut session: Session) -> (Session, Result<(), rustls::Error>) {
        let place = Share::new(&self.places);
        poll_fn(|cx| place.poll_reserve(cx, 1)).await;
        blocking::run(&*self.blocking, move || {
            let came = session.shake_hands();
            (session, came)
        })
        .await
    }
}

impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsAcceptor")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Receives until a whole record is there, so that a peer that drips costs no steps.
async fn receive<S: ByteStream>(
    stream: &mut S,
    incoming: &mut BytesMut,
    first: bool,
) -> Result<(), TlsError> {
    let mut received_any = !incoming.is_empty();
    loop {
        if first && let Some(other) = other_protocol(incoming) {
            return Err(TlsError::NotTls(other));
        }
        if received_any && has_whole_record(incoming) {
            return Ok(());
        }
        let room = RECORD_WIRE_BYTES_MAX.saturating_sub(incoming.len()).max(1);
        let received = poll_fn(|cx| stream.poll_recv(cx, incoming, room)).await;
        match received {
            Ok(0) => return Err(TlsError::PeerClosed),
            Ok(_) => received_any = true,
            Err(error) => return Err(TlsError::Broken(error)),
        }
    }
}

/// Whether rustls can go on with it: a whole record, or one that is too long to be one.
fn has_whole_record(incoming: &[u8]) -> bool {
    let Some([_, _, _, high, low]) = incoming.first_chunk() else {
        return false;
    };
    let wire_bytes = HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
    incoming.len() >= wire_bytes.min(RECORD_WIRE_BYTES_MAX)
}

/// What the first bytes begin, if it is not TLS.
fn other_protocol(incoming: &[u8]) -> Option<NotTls> {
    match incoming {
        [] | [HANDSHAKE] | [HANDSHAKE, MAJOR, ..] => None,
        // The length of a request below 16 MiB.
        [0, ..] => Some(NotTls::Kafka),
        [letter, ..] if letter.is_ascii_uppercase() => Some(NotTls::Http),
        _ => Some(NotTls::Unknown),
    }
}
