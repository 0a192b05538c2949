//! What the listener counts, per CPU core.

mod of_api;

use crate::codec::{ApiKey, Errors};
use felix_core::metrics::{Counter, Distribution, Gauge, Kind, Metrics, Sample};
use felix_core::{CpuId, Monotonic};
use of_api::OfApi;

/// Why a connection or request was refused before anything was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The listener serves as many connections as it may.
    ConnectionLimit,
    /// The address has as many connections as it may.
    PerIpLimit,
    /// Not authenticated in time.
    AuthTimeout,
    /// Credentials that are not accepted, or SASL in the wrong order or by another mechanism.
    Authentication,
    /// A request over 64 KiB before authentication.
    UnauthenticatedFrameSize,
    /// A request over the bound after authentication, or one of negative length.
    FrameSize,
    /// TLS at a listener without it.
    Tls,
    /// HTTP.
    Http,
    /// An API, or a version of one, that is not served.
    Version,
    /// Bytes that are not what their API and version say.
    Malformed,
}

impl Refused {
    /// Every reason, in the order of the counters.
    const ALL: [Self; 10] = [
        Self::ConnectionLimit,
        Self::PerIpLimit,
        Self::AuthTimeout,
        Self::Authentication,
        Self::UnauthenticatedFrameSize,
        Self::FrameSize,
        Self::Tls,
        Self::Http,
        Self::Version,
        Self::Malformed,
    ];

    /// The label value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ConnectionLimit => "connection_limit",
            Self::PerIpLimit => "per_ip_limit",
            Self::AuthTimeout => "auth_timeout",
            Self::Authentication => "authentication",
            Self::UnauthenticatedFrameSize => "unauthenticated_frame_size",
            Self::FrameSize => "frame_size",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Version => "version",
            Self::Malformed => "malformed",
        }
    }
}

/// The listener's counters on one CPU core.
#[derive(Debug)]
pub struct KafkaMetrics {
    core: CpuId,
    apis: [OfApi; ApiKey::ALL.len()],
    refused: [Counter; Refused::ALL.len()],
    /// Connections served now.
    pub connections: Gauge,
    /// Connections that have authenticated.
    pub authenticated: Counter,
    /// Bytes of requests received.
    pub request_bytes: Counter,
    /// Bytes of answers sent.
    pub response_bytes: Counter,
    /// Connections closed because the peer broke the protocol.
    pub protocol_errors: Counter,
    /// Connections closed because nothing was asked for too long.
    pub idle_closed: Counter,
    /// Connections closed because they held memory that others waited for, and did nothing.
    pub stalled_closed: Counter,
    /// Records acknowledged, or written with acks=0.
    pub produce_records: Counter,
    /// Bytes of batches acknowledged, or written with acks=0.
    pub produce_bytes: Counter,
    /// Bytes of records handed to consumers.
    pub fetch_bytes: Counter,
    /// Produces after which a connection was not read for a while.
    pub throttles: Counter,
    /// What these came to, as clients were told it.
    pub throttle_ms: Counter,
    /// Connections that are not read now, since their tenant is over its budget.
    pub throttled_connections: Gauge,
}

impl KafkaMetrics {
    /// Nothing was counted yet on this core.
    #[must_use]
    pub fn new(core: CpuId) -> Self {
        Self {
            core,
            apis: ApiKey::ALL.map(OfApi::new),
            refused: Default::default(),
            connections: Gauge::default(),
            authenticated: Counter::default(),
            request_bytes: Counter::default(),
            response_bytes: Counter::default(),
            protocol_errors: Counter::default(),
            idle_closed: Counter::default(),
            stalled_closed: Counter::default(),
            produce_records: Counter::default(),
            produce_bytes: Counter::default(),
            fetch_bytes: Counter::default(),
            throttles: Counter::default(),
            throttle_ms: Counter::default(),
            throttled_connections: Gauge::default(),
        }
    }

    /// One more request of this API.
    pub(crate) fn request(&self, api: ApiKey, version: i16) {
        self.of(api).request(version);
    }

    /// A request that was parsed at `begun` has its answer in line to be sent.
    pub(crate) fn answered(&self, api: ApiKey, errors: &Errors, begun: Monotonic, now: Monotonic) {
        self.of(api).answered(errors, begun, now);
    }

    fn of(&self, api: ApiKey) -> &OfApi {
        let mut apis = self.apis.iter();
        apis.find(|known| known.is(api))
            .expect("there is one for each API")
    }

    /// One more refusal.
    pub fn refuse(&self, reason: Refused) {
        let counters = Refused::ALL.iter().zip(&self.refused);
        for (_, counter) in counters.filter(|(known, _)| **known == reason) {
            counter.increment();
        }
    }

    /// What came of tenants that published more than they may.
    fn throttling(&self, take: &mut dyn FnMut(Sample)) {
        take(gauged(
            "felix_kafka_throttled_connections",
            "Connections not read now, since their tenant has published more than it may.",
            &self.throttled_connections,
        ));
        take(counted(
            "felix_kafka_throttles_total",
            "Produces by which a tenant went over its budget.",
            None,
            &self.throttles,
        ));
        take(counted(
            "felix_kafka_throttle_ms_total",
            "Milliseconds that clients were told to wait for it.",
            None,
            &self.throttle_ms,
        ));
    }

    /// Refusals for this reason so far.
    #[must_use]
    pub fn refused(&self, reason: Refused) -> u64 {
        let counters = Refused::ALL.iter().zip(&self.refused);
        counters
            .filter(|(known, _)| **known == reason)
            .map(|(_, counter)| counter.value())
            .sum()
    }
}

/// A counter as a sample. Counts above 2^53 lose their last digits in a scrape, which no rate
/// notices.
#[expect(
    clippy::cast_precision_loss,
    reason = "scrapes carry floating-point numbers"
)]
fn counted(
    name: &'static str,
    help: &'static str,
    label: Option<(&'static str, &str)>,
    counter: &Counter,
) -> Sample {
    let label = label.map(|(key, value)| (key, value.to_owned()));
    Sample {
        name,
        help,
        kind: Kind::Counter,
        labels: Vec::from_iter(label),
        value: counter.value() as f64,
    }
}

/// A gauge as a sample.
#[expect(
    clippy::cast_precision_loss,
    reason = "scrapes carry floating-point numbers"
)]
fn gauged(name: &'static str, help: &'static str, gauge: &Gauge) -> Sample {
    Sample {
        name,
        help,
        kind: Kind::Gauge,
        labels: Vec::new(),
        value: gauge.value() as f64,
    }
}

/// Parts of records that were not kept. Nothing is dropped today; the name is here so that an alert on
/// it can stand.
fn dropped(take: &mut dyn FnMut(Sample)) {
    for field in ["key", "headers"] {
        let help = "Parts of produced records that were not stored.";
        let label = Some(("field", field));
        take(counted(
            "felix_kafka_produce_dropped_total",
            help,
            label,
            &Counter::default(),
        ));
    }
}

impl Metrics for KafkaMetrics {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        for api in &self.apis {
            api.collect(take);
        }
        for (reason, counter) in Refused::ALL.iter().zip(&self.refused) {
            let help = "Connections and requests refused before anything was done.";
            let label = Some(("reason", reason.label()));
            take(counted("felix_kafka_refused_total", help, label, counter));
        }
        let help = "Connections served now.";
        take(gauged("felix_kafka_connections", help, &self.connections));
        for (name, help, counter) in [
            (
                "felix_kafka_authenticated_total",
                "Connections that have authenticated by SASL.",
                &self.authenticated,
            ),
            (
                "felix_kafka_request_bytes_total",
                "Bytes received.",
                &self.request_bytes,
            ),
            (
                "felix_kafka_response_bytes_total",
                "Bytes sent.",
                &self.response_bytes,
            ),
            (
                "felix_kafka_protocol_errors_total",
                "Connections closed because the peer broke the protocol.",
                &self.protocol_errors,
            ),
            (
                "felix_kafka_idle_closed_total",
                "Connections closed because nothing was asked for too long.",
                &self.idle_closed,
            ),
            (
                "felix_kafka_stalled_closed_total",
                "Connections closed because they held memory others waited for, and hardly went on.",
                &self.stalled_closed,
            ),
            (
                "felix_kafka_produce_records_total",
                "Records acknowledged, or written with acks=0.",
                &self.produce_records,
            ),
            (
                "felix_kafka_produce_bytes_total",
                "Bytes of batches acknowledged, or written with acks=0.",
                &self.produce_bytes,
            ),
            (
                "felix_kafka_fetch_bytes_total",
                "Bytes of records handed to consumers.",
                &self.fetch_bytes,
            ),
        ] {
            take(counted(name, help, None, counter));
        }
        dropped(take);
        self.throttling(take);
    }

    fn distributions(&self, now: Monotonic, take: &mut dyn FnMut(Distribution)) {
        for api in &self.apis {
            take(api.distribution(self.core, now));
        }
    }
}
