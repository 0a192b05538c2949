//! TLS on the Kafka listener of one core: handshakes within their time, and a line for each that
//! fails.

use crate::executor;
use felix_core::metrics::{Kind, Metrics, Sample};
use felix_core::{Blocking, Clock, LogLimit, Monotonic};
use felix_kafka::Peer;
use felix_net::TcpStream;
use felix_net::tls::{
    Accepted, Refused, TlsAcceptor, TlsConfig, TlsFailure, TlsMetrics, TlsStream,
};
use futures_util::future::{Either, select};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

/// Lives on its core.
#[derive(Debug)]
pub(crate) struct Handshakes {
    acceptor: TlsAcceptor,
    metrics: Rc<TlsMetrics>,
    timeout: Duration,
    limit: LogLimit,
    clock: ClockHandle,
}

/// A peer that hands were not shaken with: counted and logged, and to be closed.
#[derive(Debug)]
pub(crate) enum Unshaken {
    /// It is to hear of it.
    Refused(TcpStream),
    /// Its time was over.
    Late,
}

/// A clock among what can be shown.
struct ClockHandle(Rc<dyn Clock>);

impl std::fmt::Debug for ClockHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Handshakes {
    /// Handshakes as `config` says, each done within `timeout` of the moment when the connection was
    /// accepted.
    pub(crate) fn new(
        config: TlsConfig,
        timeout: Duration,
        blocking: Rc<dyn Blocking>,
        clock: Rc<dyn Clock>,
    ) -> Self {
        let acceptor = TlsAcceptor::new(config, blocking, Rc::clone(&clock));
        Self {
            metrics: acceptor.metrics(),
            acceptor,
            timeout,
            limit: LogLimit::default(),
            clock: ClockHandle(clock),
        }
    }

    /// Has handshakes follow another configuration from now on.
    pub(crate) fn renew(&self, config: TlsConfig) {
        self.acceptor.replace(config);
    }

    /// Shakes hands with a peer; its stream, and who it is.
    ///
    /// # Errors
    /// It is to be closed.
    pub(crate) async fn shake_hands(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        accepted: Monotonic,
    ) -> Result<(TlsStream<TcpStream>, Peer), Unshaken> {
        let accept = Box::pin(self.acceptor.accept(stream));
        let waited = self.clock.0.monotonic().until(accepted);
        let patience = pin!(executor::pause(self.timeout.saturating_sub(waited)));
        match select(accept, patience).await {
            Either::Left((Ok(accepted), _)) => {
                let Accepted {
                    stream,
                    certificate,
                } = accepted;
                let mut peer = Peer::from(address);
                peer.certificate = certificate;
                Ok((stream, peer))
            }
            Either::Left((Err(refused), _)) => {
                let Refused { stream, error } = *refused;
                self.tell(address, error.failure(), &error.to_string());
                Err(Unshaken::Refused(stream))
            }
            Either::Right(_) => {
                let failure = TlsFailure::Timeout;
                self.metrics.fail(failure);
                let waited = self.timeout.as_millis();
                self.tell(
                    address,
                    failure,
                    &format!("the handshake is not done after {waited} ms"),
                );
                Err(Unshaken::Late)
            }
        }
    }

    fn tell(&self, peer: SocketAddr, failure: TlsFailure, reason: &str) {
        let kind = failure.label();
        if matches!(failure, TlsFailure::PeerClosed | TlsFailure::Broken) {
            // Probes of load balancers do it all day.
            tracing::debug!(%peer, kind, reason, "a TLS handshake failed");
        } else if let Some(left_out) = self.limit.admit(self.clock.0.monotonic()) {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::warn!(%peer, kind, reason, left_out, "a TLS handshake failed");
        }
    }

    /// What came of them.
    pub(crate) fn metrics(&self) -> Rc<TlsMetrics> {
        Rc::clone(&self.metrics)
    }
}

impl Metrics for Handshakes {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "scrapes carry floating-point numbers"
        )]
        take(Sample {
            name: "felix_log_left_out_total",
            help: "Lines left out of the log since there were too many of their kind.",
            kind: Kind::Counter,
            labels: vec![("kind", "tls_handshake".to_owned())],
            value: self.limit.left_out() as f64,
        });
    }
}
