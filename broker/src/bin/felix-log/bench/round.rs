//! What one side did in one round, and several rounds together.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::time::Duration;

/// Below so many samples p99.9 is indicative.
const SAMPLES_MIN: u64 = 1_000_000;

/// What is told of latencies, with its name in JSON and in tables.
pub(crate) const QUANTILES: [(f64, &str, &str); 5] = [
    (0.5, "p50_us", "p50"),
    (0.9, "p90_us", "p90"),
    (0.99, "p99_us", "p99"),
    (0.999, "p999_us", "p99.9"),
    (1.0, "max_us", "max"),
];

/// One side's turn.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    nanos: Histogram<u64>,
    /// How long it took to do what counts.
    took: Duration,
    /// Flushes meanwhile.
    flushes: u64,
}

impl Default for Round {
    fn default() -> Self {
        Self {
            nanos: Histogram::new_with_max(3_600_000_000_000, 3).expect("an hour is a bound"),
            took: Duration::ZERO,
            flushes: 0,
        }
    }
}

impl Round {
    /// An append took so long.
    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.saturating_record(nanos);
    }

    /// All that counts is done, after so long and with so many flushes.
    pub(crate) fn end(&mut self, took: Duration, flushes: u64) {
        self.took = took;
        self.flushes = flushes;
    }

    /// Another core's share of the same round.
    pub(crate) fn add(&mut self, other: &Self) {
        self.nanos
            .add(&other.nanos)
            .expect("their bounds are equal");
        self.took = self.took.max(other.took);
        self.flushes += other.flushes;
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds are told to a tenth"
    )]
    fn quantile_us(&self, quantile: f64) -> f64 {
        self.nanos.value_at_quantile(quantile) as f64 / 1000.0
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate is told whole")]
    fn rate(&self) -> f64 {
        self.nanos.len() as f64 / self.took.as_secs_f64().max(1e-9)
    }

    #[expect(clippy::cast_precision_loss, reason = "told to a tenth")]
    fn fan_in(&self) -> Option<f64> {
        (self.flushes > 0).then(|| self.nanos.len() as f64 / self.flushes as f64)
    }
}

/// A side's rounds. Each figure is the median of the rounds' own.
#[derive(Clone, Debug)]
pub(crate) struct Rounds(Vec<Round>);

impl Rounds {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// One more.
    pub(crate) fn push(&mut self, round: Round) {
        self.0.push(round);
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Appends that counted, in all of them.
    pub(crate) fn samples(&self) -> u64 {
        self.0.iter().map(|round| round.nanos.len()).sum()
    }

    /// Whether p99.9 is no more than indicative.
    pub(crate) fn is_indicative(&self) -> bool {
        self.samples() < SAMPLES_MIN
    }

    /// A quantile of the latencies, microseconds.
    pub(crate) fn quantile_us(&self, quantile: f64) -> f64 {
        median(self.0.iter().map(|round| round.quantile_us(quantile))).unwrap_or(f64::NAN)
    }

    /// Appends a second.
    pub(crate) fn rate(&self) -> f64 {
        median(self.0.iter().map(Round::rate)).unwrap_or(f64::NAN)
    }

    /// Appends for each flush.
    pub(crate) fn fan_in(&self) -> Option<f64> {
        median(self.0.iter().filter_map(Round::fan_in))
    }

    /// For JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut value = json!({
            "rounds": self.count(),
            "samples": self.samples(),
            "p999_is_indicative": self.is_indicative(),
            "appends_per_second": self.rate(),
            "appends_per_flush": self.fan_in(),
        });
        for (quantile, name, _) in QUANTILES {
            value[name] = json!(self.quantile_us(quantile));
        }
        value
    }
}

/// The middle one; of an even number, the lower of the two. None of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_the_rounds_so_one_that_was_disturbed_does_not_count() {
        let mut rounds = Rounds::new();
        for micros in [10, 9000, 12] {
            let mut round = Round::default();
            (0..100).for_each(|_| round.record(Duration::from_micros(micros)));
            round.end(Duration::from_secs(1), 50);
            rounds.push(round);
        }
        assert!((rounds.quantile_us(0.999) - 12.0).abs() < 0.1);
        assert!((rounds.rate() - 100.0).abs() < 0.1);
        assert_eq!(rounds.fan_in(), Some(2.0));
        assert_eq!(rounds.samples(), 300);
        assert!(rounds.is_indicative());
    }

    #[test]
    fn nothing_measured_is_not_a_number_and_no_panic() {
        assert!(Rounds::new().quantile_us(0.5).is_nan());
        assert_eq!(median([]), None);
        assert_eq!(Round::default().fan_in(), None);
    }
}
