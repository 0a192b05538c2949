//! Samples without a label.

use felix_core::metrics::{Kind, Sample};

/// A number that only grows.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sample is a float; 2^53 is precise enough"
)]
pub(super) fn counter_sample(name: &'static str, help: &'static str, value: u64) -> Sample {
    Sample {
        name,
        help,
        kind: Kind::Counter,
        labels: Vec::new(),
        value: value as f64,
    }
}

/// A number that goes up and down.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sample is a float; 2^53 is precise enough"
)]
pub(super) fn gauge_sample(name: &'static str, help: &'static str, value: i64) -> Sample {
    Sample {
        name,
        help,
        kind: Kind::Gauge,
        labels: Vec::new(),
        value: value as f64,
    }
}
