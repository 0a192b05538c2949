//! The plot of latencies by the rate offered.

use super::axis::Axis;
use super::figures::{Figures, SideFigures};
use super::number;
use super::plot::{LEFT, Plot, RIGHT, colour};
use super::quantile::Quantile;
use crate::found::Figure;

const HEIGHT: f64 = 380.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 58.0;
const TOLD: [Quantile; 3] = [Quantile::P50, Quantile::P99, Quantile::P999];

/// Comparisons that differ in nothing but the rate.
#[derive(Debug)]
pub(super) struct Steps<'a, 'b> {
    /// What they are called before the rate.
    pub(super) name: &'a str,
    /// In the order of the rates.
    pub(super) steps: Vec<&'b Figures<'a>>,
}

/// The name of a comparison without the rate, and the rate, if it is a step.
pub(super) fn step<'a>(figures: &Figures<'a>) -> Option<(&'a str, f64)> {
    let (name, _) = figures.comparison.name.rsplit_once('@')?;
    let offered = figures.comparison.offered?;
    (figures.comparison.figure == Figure::Latency).then_some((name, offered))
}

impl<'a, 'b> Steps<'a, 'b> {
    /// Those of two rates or more.
    pub(super) fn all(figures: &'b [Figures<'a>]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (figures, name) in figures.iter().filter_map(|of| Some((of, step(of)?.0))) {
            match all.iter_mut().find(|steps| steps.name == name) {
                Some(steps) => steps.steps.push(figures),
                None => all.push(Self {
                    name,
                    steps: vec![figures],
                }),
            }
        }
        for steps in &mut all {
            let rate = |figures: &&Figures<'_>| figures.comparison.offered.unwrap_or(0.0);
            steps
                .steps
                .sort_by(|one, other| rate(one).total_cmp(&rate(other)));
        }
        all.retain(|steps| steps.steps.len() > 1);
        all
    }

    /// The sides, by the name they have in the first step.
    fn sides(&self) -> impl Iterator<Item = (usize, &str)> {
        let first = self.steps.first().into_iter();
        let sides = first.flat_map(|figures| figures.sides.iter().enumerate());
        sides.map(|(index, side)| (index, side.side.name.as_str()))
    }

    /// What a side has at each rate.
    fn of_side(&self, name: &str) -> Vec<(f64, Option<&SideFigures<'a>>)> {
        let at = |figures: &&'b Figures<'a>| {
            let side = figures.sides.iter().find(|side| side.side.name == name);
            (figures.comparison.offered.unwrap_or(0.0), side)
        };
        self.steps.iter().map(at).collect()
    }

    /// Three curves for each side.
    pub(super) fn plot(&self, id: &str) -> Option<String> {
        let first = self.steps.first()?;
        let label = format!("Latency of {} by the rate offered", self.name);
        let mut plot = Plot::new(format!("{id}-rates"), label, HEIGHT);
        let sides = self.steps.iter().flat_map(|figures| &figures.sides);
        let told = |side: &SideFigures<'_>| TOLD.map(|quantile| side.at(quantile));
        let shown = sides.flat_map(told).flatten().map(|spread| spread.median);
        let y = Axis::fitting(shown, (BOTTOM, TOP));
        let x = self.across();
        let scale = if y.is_log() {
            "latency, logarithmic"
        } else {
            "latency"
        };
        plot.rows(&y, scale, number::short_latency);
        for tick in x.ticks() {
            plot.column(x.at(tick), (TOP, BOTTOM), &number::short(tick));
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        plot.text("tick middle", (middle, BOTTOM + 38.0), "records/s offered");
        for (index, name) in self.sides() {
            plot.begin_side(index, colour(first, index));
            draw(&mut plot, (&x, &y), &self.of_side(name));
            plot.end();
        }
        self.read_outs(&mut plot, &x);
        Some(plot.finish(
            "Latency by the rate offered, medians over the rounds. Bold: p50; middle: p99; thin: \
             p99.9. Ringed: the side did not keep up with the rate.",
        ))
    }

    fn across(&self) -> Axis {
        let rates = self
            .steps
            .iter()
            .filter_map(|figures| figures.comparison.offered);
        let (least, greatest) = (
            rates.clone().fold(f64::MAX, f64::min),
            rates.fold(0.0, f64::max),
        );
        if greatest > 8.0 * least {
            Axis::fitting([least, greatest], (LEFT, RIGHT))
        } else {
            Axis::linear(0.0, greatest, (LEFT, RIGHT))
        }
    }

    fn read_outs(&self, plot: &mut Plot, x: &Axis) {
        for (index, name) in self.sides() {
            for quantile in TOLD {
                plot.reads(&format!("{name} {}", quantile.label()), Some(index));
            }
        }
        for figures in &self.steps {
            let mut values = Vec::new();
            for (_, name) in self.sides() {
                let side = figures.sides.iter().find(|side| side.side.name == name);
                for quantile in TOLD {
                    let us = side.and_then(|side| side.at(quantile));
                    values.push(us.map(|us| number::latency(us.median)));
                }
            }
            let rate = figures.comparison.offered.unwrap_or(0.0);
            plot.read_out(
                x.at(rate),
                format!("{} records/s", number::amount(rate)),
                values,
            );
        }
    }
}

fn draw(plot: &mut Plot, (x, y): (&Axis, &Axis), side: &[(f64, Option<&SideFigures<'_>>)]) {
    for (quantile, class) in TOLD.into_iter().zip(["curve", "p99", "p999"]) {
        let points = side.iter().map(|(rate, side)| {
            let us = side.as_ref()?.at(quantile)?.median;
            Some((x.at(*rate), y.at(us)))
        });
        let points: Vec<_> = points.collect();
        plot.curve(class, points.iter().copied());
        let last = points.iter().flatten().last();
        if let Some((x, y)) = last {
            plot.text("named end", (*x - 6.0, y - 6.0), quantile.label());
        }
        for (point, (_, side)) in points.iter().zip(side) {
            let keeps_up = !side.as_ref().is_some_and(|side| side.is_behind());
            if let Some(point) = point {
                plot.dot("step", *point, 3.0);
                if !keeps_up {
                    plot.dot("stall", *point, 6.0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{comparison, round_of, side};
    use super::*;
    use crate::found::Comparison;
    use std::time::Duration;

    fn at(name: &str, offered: f64) -> Comparison {
        let mut round = round_of((0..100).map(|_| Duration::from_micros(100)));
        round.records = 1500;
        // Of a hundred that were due.
        round.operations = if offered > 1500.0 { 75 } else { 100 };
        Comparison {
            offered: Some(offered),
            ..comparison(name, vec![side("felix", false, vec![round])])
        }
    }

    #[test]
    fn steps_are_drawn_together_in_the_order_of_their_rates() {
        let found = [
            at("produce@2000", 2000.0),
            at("end", 1000.0),
            at("produce@1000", 1000.0),
        ];
        let figures: Vec<Figures<'_>> = found.iter().map(Figures::of).collect();
        let all = Steps::all(&figures);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].name, "produce");
        assert_eq!(all[0].steps[0].comparison.name, "produce@1000");
        let drawn = all[0].plot("r0").unwrap();
        assert_eq!(drawn.matches("class='curve'").count(), 1);
        // 1500 records a second are too few for the second step, at each of three quantiles.
        assert_eq!(drawn.matches("class='stall'").count(), 3);
    }

    #[test]
    fn one_rate_makes_no_curve() {
        let found = [at("produce@2000", 2000.0), at("fetch@1000", 1000.0)];
        let figures: Vec<Figures<'_>> = found.iter().map(Figures::of).collect();
        assert!(Steps::all(&figures).is_empty());
    }
}
