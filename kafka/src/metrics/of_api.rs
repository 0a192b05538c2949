//! What is counted of one API on one CPU core.

use crate::codec::{ApiKey, ErrorCode, Errors};
use felix_core::metrics::{Counter, Distribution, Kind, Sample, Unit};
use felix_core::{CpuId, Histogram, Monotonic};

/// One API's numbers. Lives on one CPU core.
#[derive(Debug)]
pub(super) struct OfApi {
    api: ApiKey,
    /// By version, from the lowest served on.
    versions: Box<[Counter]>,
    /// Requests of a version that is not served and is answered all the same: ApiVersions only.
    unserved: Counter,
    errors: [Counter; ErrorCode::ALL.len()],
    /// From a request parsed to its answer in line to be sent, behind those before it.
    answer_us: Histogram,
}

impl OfApi {
    pub(super) fn new(api: ApiKey) -> Self {
        let versions = api.versions();
        Self {
            api,
            versions: (versions.min..=versions.max)
                .map(|_| Counter::default())
                .collect(),
            unserved: Counter::default(),
            errors: std::array::from_fn(|_| Counter::default()),
            answer_us: Histogram::default(),
        }
    }

    pub(super) fn is(&self, api: ApiKey) -> bool {
        self.api == api
    }

    pub(super) fn request(&self, version: i16) {
        let index = usize::try_from(version - self.api.versions().min).ok();
        let counter = index.and_then(|index| self.versions.get(index));
        counter.unwrap_or(&self.unserved).increment();
    }

    pub(super) fn answered(&self, errors: &Errors, begun: Monotonic, now: Monotonic) {
        self.answer_us.record(begun, now);
        for (code, count) in errors.iter() {
            let counters = ErrorCode::ALL.iter().zip(&self.errors);
            for (_, counter) in counters.filter(|(known, _)| **known == code) {
                counter.add(count);
            }
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "scrapes carry floating-point numbers"
    )]
    pub(super) fn collect(&self, take: &mut dyn FnMut(Sample)) {
        let api = || ("api", self.api.name().to_owned());
        let served = (self.api.versions().min..).zip(&self.versions);
        let served = served.map(|(version, counter)| (version.to_string(), counter));
        // So that the name of each is there from the beginning.
        let is_asked_first = self.api == ApiKey::ApiVersions;
        let unserved = is_asked_first.then(|| ("other".to_owned(), &self.unserved));
        for (version, counter) in served.chain(unserved) {
            take(Sample {
                name: "felix_kafka_requests_total",
                help: "Requests received, by API and version.",
                kind: Kind::Counter,
                labels: vec![api(), ("version", version)],
                value: counter.value() as f64,
            });
        }
        for (code, counter) in ErrorCode::ALL.iter().zip(&self.errors) {
            let is_named = is_asked_first && *code == ErrorCode::UnsupportedVersion;
            if counter.value() > 0 || is_named {
                take(Sample {
                    name: "felix_kafka_errors_total",
                    help: "Error codes in answers, by API and code; a series begins with its first error.",
                    kind: Kind::Counter,
                    labels: vec![api(), ("code", code.name())],
                    value: counter.value() as f64,
                });
            }
        }
    }

    pub(super) fn distribution(&self, core: CpuId, now: Monotonic) -> Distribution {
        Distribution {
            name: "felix_kafka_request_us",
            help: "From a request parsed to its answer in line to be sent, by API and core; of a Fetch with its wait for records.",
            unit: Unit::Microseconds,
            labels: vec![
                ("api", self.api.name().to_owned()),
                ("core", core.0.to_string()),
            ],
            values: self.answer_us.snapshot(now),
        }
    }
}
