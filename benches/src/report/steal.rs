//! Time that the host gave to others, and what the figures are without it.

use super::figures::{RoundFigures, at};
use super::number;
use super::quantile::{Quantile, count};
use crate::found::Spread;
use std::time::Duration;

/// Fixed before anything is measured: nobody chooses afterwards what to leave out.
pub(super) const RULE: &str = "A slot counts as stolen when the kernel shows at least one tick \
    stolen from a processor in use. Samples that touch such a slot of their turn, from where they \
    begin to where they end, are left out of the figures without stolen time. All other figures are of all \
    samples.";

/// What was stolen in the rounds of a side.
#[derive(Clone, Debug)]
pub(super) struct Steal {
    pub(super) slot: Duration,
    pub(super) slots: u64,
    pub(super) slots_stolen: u64,
    /// Of the time of the processors in use.
    pub(super) percent: Option<Spread>,
    /// The mean over the rounds, since one of them may have it all.
    percent_mean: f64,
    /// In microseconds, without the samples that touch stolen slots; over the rounds that keep
    /// any.
    undisturbed: [Option<Spread>; 6],
    pub(super) samples_left_out: u64,
}

impl Steal {
    pub(super) fn of(rounds: &[RoundFigures<'_>]) -> Self {
        let number = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let marks = || rounds.iter().flat_map(|of| &of.round.stolen);
        let kept = |of: &RoundFigures<'_>, quantile| {
            at(of.undisturbed.as_ref().unwrap_or(&of.latencies), quantile)
        };
        let left_out = rounds.iter().filter_map(|of| {
            let undisturbed = of.undisturbed.as_ref()?;
            Some(of.latencies.len().saturating_sub(undisturbed.len()))
        });
        Self {
            slot: rounds
                .first()
                .map_or(Duration::ZERO, |of| of.round.latencies.slot()),
            slots: number(marks().count()),
            slots_stolen: number(marks().filter(|is_stolen| **is_stolen).count()),
            percent_mean: {
                let all: f64 = rounds.iter().map(|of| of.round.stolen_percent).sum();
                all / count(number(rounds.len())).max(1.0)
            },
            percent: Spread::of(rounds.iter().map(|of| of.round.stolen_percent)),
            undisturbed: Quantile::ALL
                .map(|quantile| Spread::of(rounds.iter().filter_map(|of| kept(of, quantile)))),
            samples_left_out: left_out.sum(),
        }
    }

    /// What a quantile is without stolen time; none if nothing was stolen, or nothing is left.
    pub(super) fn undisturbed(&self, quantile: Quantile) -> Option<Spread> {
        self.undisturbed[quantile as usize].filter(|_| self.slots_stolen > 0)
    }

    /// What is said of it, for the side of that name; none if there is nothing to say.
    pub(super) fn sentence(&self, side: &str, p999: Option<Spread>) -> Option<String> {
        if self.slots_stolen == 0 {
            return None;
        }
        let part = 100.0 * count(self.slots_stolen) / count(self.slots);
        let percent = self.percent_mean;
        let without = match (p999, self.undisturbed(Quantile::P999)) {
            (Some(with), Some(without)) => format!(
                "; without the {} samples that touch them, p99.9 is {} (of all samples: {})",
                number::count(self.samples_left_out),
                number::latency(without.median),
                number::latency(with.median)
            ),
            (Some(_), None) => "; no sample lies outside them".to_owned(),
            (None, _) => String::new(),
        };
        Some(format!(
            "{side}: {} of {} slots of {} ms had stolen time ({part:.1} %; {percent:.2} % of the \
             processors' time){without}.",
            number::count(self.slots_stolen),
            number::count(self.slots),
            self.slot.as_millis(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::super::sample::{comparison, round, side};
    use super::*;

    #[test]
    fn what_was_stolen_is_told_with_the_tail_without_it() {
        let ms = Duration::from_millis;
        let mut disturbed = round((0..10).map(|n| (ms(100 * n), ms(1))));
        disturbed.latencies.record(ms(350), ms(40));
        disturbed.stolen = vec![false; 10];
        disturbed.stolen[3] = true;
        disturbed.stolen_percent = 0.25;
        let comparison = comparison("x", vec![side("felix", false, vec![disturbed])]);
        let figures = Figures::of(&comparison);
        let side = &figures.sides[0];
        let said = side.steal.sentence("felix", side.at(Quantile::P999));
        let said = said.unwrap();
        let should = "felix: 1 of 10 slots of 100 ms had stolen time (10.0 %; 0.25 % of the \
                      processors' time); without the 2 samples that touch them, p99.9 is 1.00 ms \
                      (of all samples: 40.0 ms).";
        assert_eq!(said, should);
    }

    #[test]
    fn where_nothing_is_left_no_tail_is_made_up() {
        let ms = Duration::from_millis;
        let mut disturbed = round([(ms(0), ms(1))]);
        disturbed.stolen = vec![true; 10];
        let comparison = comparison("x", vec![side("felix", false, vec![disturbed])]);
        let figures = Figures::of(&comparison);
        let side = &figures.sides[0];
        assert_eq!(side.steal.undisturbed(Quantile::P999), None);
        let said = side.steal.sentence("felix", side.at(Quantile::P999));
        let said = said.unwrap();
        assert!(said.ends_with("no sample lies outside them."), "{said}");
    }

    #[test]
    fn nothing_is_said_where_nothing_was_stolen() {
        let ms = Duration::from_millis;
        let calm = round([(ms(0), ms(1))]);
        let comparison = comparison("x", vec![side("felix", false, vec![calm])]);
        let figures = Figures::of(&comparison);
        assert_eq!(figures.sides[0].steal.sentence("felix", None), None);
    }
}
