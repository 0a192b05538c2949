//! What one core's handshakes come to.

use super::failure::TlsFailure;
use felix_core::metrics::{Counter, Distribution, Kind, Metrics, Sample, Unit};
use felix_core::{Histogram, Monotonic};

/// Counters of one CPU core's [`TlsAcceptor`](super::TlsAcceptor).
#[derive(Debug, Default)]
pub struct TlsMetrics {
    /// Handshakes in which keys were exchanged and certificates shown.
    pub full: Counter,
    /// Handshakes that went on with an earlier session.
    pub resumed: Counter,
    failures: [Counter; TlsFailure::ALL.len()],
    /// From the connection being accepted to the handshake being done, waiting for the peer
    /// included.
    pub handshake_us: Histogram,
}

impl TlsMetrics {
    /// One more failed handshake.
    pub fn fail(&self, failure: TlsFailure) {
        let all = TlsFailure::ALL.iter().zip(&self.failures);
        for (_, counter) in all.filter(|(known, _)| **known == failure) {
            counter.increment();
        }
    }
}

/// Counts above 2^53 lose their last digits in a scrape, which no rate notices.
#[expect(
    clippy::cast_precision_loss,
    reason = "scrapes carry floating-point numbers"
)]
fn counted(
    name: &'static str,
    help: &'static str,
    label: (&'static str, &str),
    counter: &Counter,
) -> Sample {
    let (key, value) = label;
    Sample {
        name,
        help,
        kind: Kind::Counter,
        labels: vec![(key, value.to_owned())],
        value: counter.value() as f64,
    }
}

impl Metrics for TlsMetrics {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        for (kind, counter) in [("full", &self.full), ("resumed", &self.resumed)] {
            take(counted(
                "felix_tls_handshakes_total",
                "TLS handshakes done: full, or resumed from an earlier session.",
                ("kind", kind),
                counter,
            ));
        }
        for (failure, counter) in TlsFailure::ALL.iter().zip(&self.failures) {
            take(counted(
                "felix_tls_handshake_failures_total",
                "TLS handshakes that failed, and connections closed for it.",
                ("reason", failure.label()),
                counter,
            ));
        }
    }

    fn distributions(&self, now: Monotonic, take: &mut dyn FnMut(Distribution)) {
        take(Distribution {
            name: "felix_tls_handshake_us",
            help: "From a connection accepted to its TLS handshake done, the peer's share included.",
            unit: Unit::Microseconds,
            labels: Vec::new(),
            values: self.handshake_us.snapshot(now),
        });
    }
}
