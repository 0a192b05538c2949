//! Durations, and what is said of them.

use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// The durations of one turn, within 0.1 %.
#[derive(Debug)]
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    /// Of nothing yet.
    pub(crate) fn new() -> Self {
        Self(Histogram::new(3).expect("three digits are possible"))
    }

    /// Adds the time since `begun`.
    pub(crate) fn record(&mut self, begun: Instant) {
        self.add(begun.elapsed());
    }

    fn add(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.0.record(nanos).expect("the histogram grows");
    }

    /// What is said of them.
    pub(crate) fn quantiles(&self) -> Quantiles {
        let us = |quantile| {
            let nanos = Duration::from_nanos(self.0.value_at_quantile(quantile));
            nanos.as_secs_f64() * 1e6
        };
        Quantiles {
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
        }
    }
}

/// Microseconds that a half, 99 % and 99.9 % of samples do not pass.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Quantiles {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

impl Quantiles {
    /// The median of each over several turns, so that one disturbed turn does not count.
    pub(crate) fn median(turns: &[Self]) -> Self {
        let of = |pick: fn(&Self) -> f64| median(turns.iter().map(pick).collect());
        Self {
            p50_us: of(|turn| turn.p50_us),
            p99_us: of(|turn| turn.p99_us),
            p999_us: of(|turn| turn.p999_us),
        }
    }

    /// How many times the floor's each is.
    pub(crate) fn over(&self, floor: &Self) -> [f64; 3] {
        [
            self.p50_us / floor.p50_us,
            self.p99_us / floor.p99_us,
            self.p999_us / floor.p999_us,
        ]
    }
}

/// The middle one. Panics if there is none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Two sides that took turns under the same conditions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    /// Samples of each side.
    pub(crate) samples: usize,
    /// What the machine does at least.
    pub(crate) floor: Quantiles,
    /// What the broker does.
    pub(crate) broker: Quantiles,
}

impl Compared {
    /// Lets both take turns, each once unmeasured to warm up.
    pub(crate) fn alternate(
        rounds: usize,
        samples: usize,
        mut floor: impl FnMut(usize) -> Latency,
        mut broker: impl FnMut(usize) -> Latency,
    ) -> Self {
        floor(samples / 10);
        broker(samples / 10);
        let mut turns = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            turns[0].push(floor(samples).quantiles());
            turns[1].push(broker(samples).quantiles());
        }
        let [floor, broker] = turns.map(|turns| Quantiles::median(&turns));
        Self {
            samples: rounds * samples,
            floor,
            broker,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_samples() {
        let mut latency = Latency::new();
        for us in 1..=1000 {
            latency.add(Duration::from_micros(us));
        }
        let Quantiles {
            p50_us,
            p99_us,
            p999_us,
        } = latency.quantiles();
        for (is, should) in [(p50_us, 500.0), (p99_us, 990.0), (p999_us, 999.0)] {
            assert!((is / should - 1.0_f64).abs() < 0.002, "{is} for {should}");
        }
    }

    #[test]
    fn one_disturbed_turn_does_not_count() {
        let turn = |us| Quantiles {
            p50_us: us,
            p99_us: 2.0 * us,
            p999_us: 3.0 * us,
        };
        let turns = [turn(1.0), turn(900.0), turn(2.0), turn(3.0), turn(1.5)];
        assert_eq!(Quantiles::median(&turns), turn(2.0));
        assert_eq!(turn(4.0).over(&turn(2.0)), [2.0; 3]);
    }
}
