//! What is told of the sides of a comparison: medians over the rounds, spreads, multiples.

use super::quantile::{Quantile, count};
use super::steal::Steal;
use crate::found::{Comparison, Figure, Round, Side, Spread};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Below this part of what was due, a side did not keep up.
const REACHED_PART_MIN: f64 = 0.97;

/// A comparison in figures.
#[derive(Debug)]
pub(super) struct Figures<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) sides: Vec<SideFigures<'a>>,
}

/// A side in figures.
#[derive(Debug)]
pub(super) struct SideFigures<'a> {
    pub(super) side: &'a Side,
    pub(super) rounds: Vec<RoundFigures<'a>>,
    /// In microseconds, in the order of [`Quantile::ALL`].
    quantiles: [Option<Spread>; 6],
    pub(super) records_per_second: Option<Spread>,
    pub(super) bytes_per_second: Option<Spread>,
    pub(super) client_busy: Option<Spread>,
    pub(super) client_waited: Option<Spread>,
    pub(super) client_awake: Option<Spread>,
    pub(super) lateness_p99_us: Option<Spread>,
    pub(super) unanswered: u64,
    pub(super) errors: BTreeMap<&'a str, u64>,
    pub(super) steal: Steal,
}

/// A turn in figures.
#[derive(Debug)]
pub(super) struct RoundFigures<'a> {
    pub(super) round: &'a Round,
    pub(super) latencies: Histogram<u64>,
    /// Without the samples that touch a slot with stolen time; none if no slot had any.
    pub(super) undisturbed: Option<Histogram<u64>>,
}

/// How many times a floor's figures a side's are: its median over the floor's median.
#[derive(Clone, PartialEq, Debug)]
pub struct Multiples {
    /// The side.
    pub side: String,
    /// The floor.
    pub floor: String,
    quantiles: [Option<f64>; 6],
    /// Bytes a second over the floor's; none where latencies are compared.
    pub throughput: Option<f64>,
}

impl Multiples {
    /// That of a quantile, if both sides have one. Not told where rates are compared.
    #[must_use]
    pub fn of(&self, quantile: Quantile) -> Option<f64> {
        self.quantiles[quantile as usize]
    }
}

/// For each side that is no floor over each floor, in the order of the sides.
#[must_use]
pub fn multiples(comparison: &Comparison) -> Vec<Multiples> {
    Figures::of(comparison).multiples()
}

impl<'a> Figures<'a> {
    pub(super) fn of(comparison: &'a Comparison) -> Self {
        Self {
            comparison,
            sides: comparison.sides.iter().map(SideFigures::of).collect(),
        }
    }

    pub(super) fn multiples(&self) -> Vec<Multiples> {
        let mut multiples = Vec::new();
        for side in self.sides.iter().filter(|side| !side.side.is_floor) {
            for floor in self.sides.iter().filter(|side| side.side.is_floor) {
                multiples.push(side.over(floor, self.comparison.figure));
            }
        }
        multiples
    }

    /// Samples in the shortest round of any side.
    pub(super) fn samples_least(&self) -> Option<u64> {
        let samples = self.sides.iter().filter_map(SideFigures::samples_least);
        samples.min()
    }

    /// Whether a round is too short for this quantile to be quoted without a mark.
    pub(super) fn is_indicative(&self, quantile: Quantile) -> bool {
        let samples = self.samples_least();
        samples.is_some_and(|samples| samples < quantile.samples_needed())
    }
}

impl<'a> SideFigures<'a> {
    fn of(side: &'a Side) -> Self {
        let rounds: Vec<_> = side.rounds.iter().map(RoundFigures::of).collect();
        let over = |value: fn(&Round) -> f64| Spread::of(side.rounds.iter().map(value));
        let lateness = |round: &Round| micros(round.lateness.value_at_quantile(0.99));
        let mut errors = BTreeMap::new();
        for (error, times) in side.rounds.iter().flat_map(|round| &round.errors) {
            *errors.entry(error.as_str()).or_default() += times;
        }
        Self {
            side,
            quantiles: Quantile::ALL
                .map(|quantile| Spread::of(rounds.iter().filter_map(|of| of.at(quantile)))),
            records_per_second: over(Round::records_per_second),
            bytes_per_second: over(Round::bytes_per_second),
            client_busy: over(|round| round.client_busy),
            client_waited: over(|round| round.client_waited),
            client_awake: over(|round| round.client_awake),
            lateness_p99_us: Spread::of(
                side.rounds
                    .iter()
                    .filter(|round| !round.lateness.is_empty())
                    .map(lateness),
            ),
            unanswered: side.rounds.iter().map(|round| round.unanswered).sum(),
            errors,
            steal: Steal::of(&rounds),
            rounds,
        }
    }

    /// Microseconds over the rounds that have so many samples.
    pub(super) fn at(&self, quantile: Quantile) -> Option<Spread> {
        self.quantiles[quantile as usize]
    }

    /// Samples in its shortest round.
    pub(super) fn samples_least(&self) -> Option<u64> {
        let samples = self.rounds.iter().map(|round| round.latencies.len());
        samples.min()
    }

    /// Whether less was done in time than was due, refusals apart.
    pub(super) fn is_behind(&self) -> bool {
        let sum = |of: &dyn Fn(&RoundFigures<'_>) -> u64| count(self.rounds.iter().map(of).sum());
        let refused = sum(&|round| round.round.errors.values().sum());
        let due = sum(&|round| round.latencies.len()) + refused;
        let done = sum(&|round| round.round.operations) + refused;
        done < REACHED_PART_MIN * due
    }

    pub(super) fn has_failed(&self) -> bool {
        self.side.rounds.iter().any(Round::has_failed)
    }

    fn over(&self, floor: &Self, figure: Figure) -> Multiples {
        let over = |ours: Option<Spread>, theirs: Option<Spread>| {
            let (ours, theirs) = (ours?.median, theirs?.median);
            (theirs > 0.0).then(|| ours / theirs)
        };
        let (quantiles, throughput) = match figure {
            Figure::Latency => (
                Quantile::ALL.map(|quantile| over(self.at(quantile), floor.at(quantile))),
                None,
            ),
            Figure::Throughput => (
                [None; 6],
                over(self.bytes_per_second, floor.bytes_per_second),
            ),
        };
        Multiples {
            side: self.side.name.clone(),
            floor: floor.side.name.clone(),
            quantiles,
            throughput,
        }
    }
}

impl<'a> RoundFigures<'a> {
    fn of(round: &'a Round) -> Self {
        Self {
            round,
            latencies: round.latencies.all(),
            undisturbed: round
                .stolen
                .contains(&true)
                .then(|| round.latencies.without(&round.stolen)),
        }
    }

    /// Microseconds; none if there are too few samples to tell it from the longest.
    pub(super) fn at(&self, quantile: Quantile) -> Option<f64> {
        at(&self.latencies, quantile)
    }
}

pub(super) fn at(latencies: &Histogram<u64>, quantile: Quantile) -> Option<f64> {
    let is_told = latencies.len() >= quantile.samples_least().max(1);
    is_told.then(|| micros(latencies.value_at_quantile(quantile.fraction())))
}

/// Nanoseconds in microseconds.
pub(super) fn micros(nanos: u64) -> f64 {
    count(nanos) / 1e3
}

#[cfg(test)]
mod tests {
    use super::super::sample::{comparison, round_of, side};
    use super::*;
    use std::time::Duration;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_quantile_is_the_median_of_the_rounds_quantiles() {
        let rounds = [10, 900, 30, 20, 15].map(|base| round_of((0..100).map(|n| us(base + n))));
        let side = side("felix", false, rounds.to_vec());
        let figures = SideFigures::of(&side);
        let p50 = figures.at(Quantile::P50).unwrap();
        assert!((p50.median - 69.0).abs() < 0.2, "{p50:?}");
        assert!((p50.min - 59.0).abs() < 0.2, "{p50:?}");
        assert!((p50.max - 949.0).abs() < 1.0, "{p50:?}");
    }

    #[test]
    fn a_multiple_is_the_median_over_the_floors_median() {
        let echo = [50, 40, 90].map(|took| round_of([us(took)]));
        let felix = [100, 75, 800].map(|took| round_of([us(took)]));
        let sides = vec![
            side("echo", true, echo.to_vec()),
            side("felix", false, felix.to_vec()),
        ];
        let multiples = multiples(&comparison("produce_ack", sides));
        assert_eq!(multiples.len(), 1);
        let p50 = multiples[0].of(Quantile::P50).unwrap();
        assert!((p50 - 2.0).abs() < 0.01, "{p50}");
        assert_eq!(multiples[0].of(Quantile::P9999), None);
        assert_eq!(multiples[0].throughput, None);
    }

    #[test]
    fn without_a_round_there_is_no_multiple() {
        let sides = vec![
            side("echo", true, vec![]),
            side("felix", false, vec![round_of([us(1)])]),
        ];
        let multiples = multiples(&comparison("produce_ack", sides));
        assert_eq!(multiples[0].of(Quantile::P50), None);
    }

    #[test]
    fn the_tail_of_the_shortest_round_is_indicative() {
        let long = round_of((0..1000).map(us));
        let sides = vec![side("felix", false, vec![long, round_of([us(1)])])];
        let comparison = comparison("produce_ack", sides);
        let figures = Figures::of(&comparison);
        assert_eq!(figures.samples_least(), Some(1));
        assert!(figures.is_indicative(Quantile::P999));
        assert!(!figures.is_indicative(Quantile::P50));
    }
}
