//! The plot of latencies by percentile.

use super::axis::Axis;
use super::figures::{Figures, SideFigures, micros};
use super::number;
use super::plot::{LEFT, Plot, RIGHT, colour};
use super::quantile::{count, fraction_supported};
use crate::found::Spread;
use hdrhistogram::Histogram;

const HEIGHT: f64 = 380.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 42.0;
/// Points of a curve from one nine to the next.
const PER_NINE: u32 = 60;
/// The plot shows 90, 99 and 99.9 % at least, and 99.999 % at most.
const NINES_MIN: f64 = 3.0;
const NINES_MAX: f64 = 5.0;
/// Curves of single rounds, for each side.
const ROUNDS_MAX: usize = 20;
/// Every so many points there is a read-out.
const READ_OUT_EVERY: usize = 3;

/// The curve of a side, and of its rounds; the first point is of the least latency.
struct Curves {
    rounds: Vec<Vec<f64>>,
    median: Vec<f64>,
    /// How many of the median's points are more than an indication.
    supported: usize,
}

/// A percentile as a number of nines: 0 is 0 %, 1 is 90 %, 2 is 99 %.
fn nines(index: usize) -> f64 {
    f64::from(u32::try_from(index).unwrap_or(u32::MAX)) / f64::from(PER_NINE)
}

impl Curves {
    fn of(side: &SideFigures<'_>) -> Self {
        let rounds = side
            .rounds
            .iter()
            .filter(|round| !round.latencies.is_empty());
        let rounds: Vec<Vec<f64>> = rounds.map(|round| curve(&round.latencies)).collect();
        let length = rounds.iter().map(Vec::len).min().unwrap_or(0);
        let median = (0..length).filter_map(|index| {
            let values = rounds.iter().map(|round| round[index]);
            Some(Spread::of(values)?.median)
        });
        let samples = side.samples_least().unwrap_or(0);
        let nines_supported = -(1.0 - fraction_supported(samples)).log10();
        Self {
            median: median.collect(),
            supported: (0..length)
                .take_while(|index| nines(*index) <= nines_supported + 1e-9)
                .count(),
            rounds,
        }
    }
}

/// Up to the percentile beyond which there is but one sample.
fn curve(latencies: &Histogram<u64>) -> Vec<f64> {
    let nines_told = count(latencies.len()).log10().min(NINES_MAX) + 1e-9;
    let indices = (0..).take_while(|index| nines(*index) <= nines_told);
    let fractions = indices.map(|index| 1.0 - 10_f64.powf(-nines(index)));
    latencies
        .value_at_quantiles(fractions)
        .map(micros)
        .collect()
}

/// One bold curve for each side, the median over its rounds, and a thin one for each round; none
/// if there are no latencies.
pub(super) fn percentiles(id: &str, figures: &Figures<'_>) -> Option<String> {
    let sides: Vec<Curves> = figures.sides.iter().map(Curves::of).collect();
    let length = sides.iter().map(|side| side.median.len()).max()?;
    if length == 0 {
        return None;
    }
    let label = format!(
        "Latency by percentile of {}, a curve for each side",
        figures.comparison.name
    );
    let mut plot = Plot::new(format!("{id}-percentiles"), label, HEIGHT);
    let nines_shown = nines(length - 1).ceil().max(NINES_MIN);
    let x = Axis::exact(0.0, nines_shown, (LEFT, RIGHT));
    let shown = sides.iter().flat_map(|side| {
        let rounds = side.rounds.iter().take(ROUNDS_MAX).flatten();
        rounds.chain(&side.median).copied()
    });
    let y = Axis::fitting(shown, (BOTTOM, TOP));
    frame(&mut plot, &x, &y);
    for (index, side) in sides.iter().enumerate() {
        draw(&mut plot, (&x, &y), side, (index, colour(figures, index)));
        plot.reads(&figures.sides[index].side.name, Some(index));
    }
    for index in (0..length).step_by(READ_OUT_EVERY) {
        let values = sides.iter().map(|side| side.median.get(index));
        let values = values.map(|us| Some(number::latency(*us?)));
        plot.read_out(x.at(nines(index)), percent(nines(index)), values.collect());
    }
    Some(plot.finish(
        "Latency by percentile. Bold: the median over the rounds; thin: each round. Dashed where \
         fewer than 1,000 samples of a round lie beyond (but for the first 99 %), so that another run may differ.",
    ))
}

fn frame(plot: &mut Plot, x: &Axis, y: &Axis) {
    let scale = if y.is_log() {
        "latency, logarithmic"
    } else {
        "latency"
    };
    plot.rows(y, scale, number::short_latency);
    for (nines, words) in [
        (0.0, "0 %"),
        (1.0, "90 %"),
        (2.0, "99 %"),
        (3.0, "99.9 %"),
        (4.0, "99.99 %"),
        (5.0, "99.999 %"),
    ] {
        // The axis holds what it shows; others would pile up at its end.
        if x.at(nines) < RIGHT || x.at(nines - 0.5) < RIGHT {
            plot.column(x.at(nines), (TOP, BOTTOM), words);
        }
    }
}

fn draw(plot: &mut Plot, (x, y): (&Axis, &Axis), side: &Curves, (index, colour): (usize, &str)) {
    let points = |values: &[f64], from: usize| -> Vec<Option<(f64, f64)>> {
        let values = values.iter().enumerate();
        let points = values.map(|(at, us)| Some((x.at(nines(from + at)), y.at(*us))));
        points.collect()
    };
    plot.begin_side(index, colour);
    for round in side.rounds.iter().take(ROUNDS_MAX) {
        plot.curve("thin", points(round, 0));
    }
    let (sure, _) = side.median.split_at(side.supported);
    plot.curve("curve", points(sure, 0));
    // They share a point, so that there is no gap.
    let from = side.supported.saturating_sub(1);
    if side.supported < side.median.len() {
        plot.curve("curve beyond", points(&side.median[from..], from));
    }
    plot.end();
}

/// A number of nines in percent, with a digit more than it has nines.
fn percent(nines: f64) -> String {
    let percent = 100.0 * (1.0 - 10_f64.powf(-nines));
    let digits = match nines {
        nines if nines < 1.0 => 0,
        nines if nines < 2.0 => 1,
        nines if nines < 3.0 => 2,
        nines if nines < 4.0 => 3,
        _ => 4,
    };
    format!("{percent:.digits$} %")
}

#[cfg(test)]
mod tests {
    use super::super::sample::{comparison, round_of, side};
    use super::*;
    use std::time::Duration;

    fn drawn(samples: u64) -> Option<String> {
        let round = round_of((0..samples).map(|n| Duration::from_micros(50 + n % 1000)));
        let sides = vec![
            side("echo", true, vec![round.clone(); 2]),
            side("felix", false, vec![round; 3]),
        ];
        percentiles("c0", &Figures::of(&comparison("x", sides)))
    }

    #[test]
    fn each_side_has_a_bold_curve_and_each_round_a_thin_one() {
        let drawn = drawn(200_000).unwrap();
        assert_eq!(drawn.matches("class='curve'").count(), 2);
        assert_eq!(drawn.matches("class='thin'").count(), 5);
        assert!(drawn.contains("99.999 %"), "{drawn}");
    }

    #[test]
    fn what_samples_do_not_support_is_dashed() {
        let dashed = drawn(200_000).unwrap();
        assert_eq!(dashed.matches("class='curve beyond'").count(), 2);
        // A thousand samples say something of 99 %, and end at 99.9 %.
        let short = drawn(1000).unwrap();
        assert!(!short.contains("99.99 %"), "{short}");
        let points = |drawn: &str| drawn.matches('L').count();
        assert!(points(&short) < points(&dashed));
    }

    #[test]
    fn without_latencies_there_is_no_plot() {
        assert_eq!(drawn(0), None);
    }

    #[test]
    fn percentiles_are_told_with_the_digits_they_need() {
        let told = [0.0, 0.3, 1.0, 2.0, 3.0, 5.0].map(percent);
        assert_eq!(
            told,
            ["0 %", "50 %", "90.0 %", "99.00 %", "99.900 %", "99.9990 %"]
        );
    }
}
