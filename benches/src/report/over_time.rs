//! The plots of latencies over time, with what the server used beneath.

use super::axis::Axis;
use super::figures::{Figures, SideFigures};
use super::number;
use super::plot::{LEFT, Plot, RIGHT, colour};
use super::series::{self, Point, mebibytes};
use crate::found::Usage;
use std::time::Duration;

const TOP: f64 = 34.0;
const LATENCY_HEIGHT: f64 = 190.0;
/// Of the strips of processors and memory.
const STRIP_HEIGHT: f64 = 56.0;
/// Above each strip, for its name.
const STRIP_GAP: f64 = 30.0;
const BENEATH: f64 = 30.0;
/// Between two rounds.
const ROUND_GAP: f64 = 8.0;
/// Points of a curve, over all rounds.
const POINTS_MAX: usize = 300;
/// Of one round, if there are many.
const POINTS_MIN: usize = 10;
/// So many rounds are shown.
const ROUNDS_MAX: usize = 30;
/// Stalls told with their length, the longest ones.
const STALLS_TOLD: usize = 4;
/// Letters of a name above a plot; its caption has all of them.
const NAME_MAX: usize = 60;
/// A round narrower than this is not named.
const NAMED_WIDTH_MIN: f64 = 56.0;

/// A round, and where it is drawn.
struct Stretch {
    /// For how long load was offered. What ended later is of few, and no level.
    lasted: Duration,
    points: Vec<Point>,
    usage: Vec<Usage>,
    x: Axis,
    from: f64,
    to: f64,
}

/// One plot for each side that has latencies. They share the scale, so that they can be compared.
pub(super) fn over_time(id: &str, figures: &Figures<'_>) -> Vec<String> {
    let sides: Vec<Vec<Stretch>> = figures.sides.iter().map(stretches).collect();
    let bottom = TOP + LATENCY_HEIGHT;
    let shown = sides
        .iter()
        .flatten()
        .flat_map(|stretch| filled(&stretch.points));
    let shown = shown.flat_map(|point| [point.p50_us, point.p99_us, point.max_us]);
    let y = Axis::fitting(shown, (bottom, TOP));
    let plots = sides.iter().enumerate().filter(|(_, stretches)| {
        stretches
            .iter()
            .any(|stretch| filled(&stretch.points).next().is_some())
    });
    let plots = plots.map(|(index, stretches)| {
        let name = &figures.sides[index].side.name;
        let plot = side_plot(&format!("{id}-time-{index}"), name, stretches, &y);
        // The whole plot goes with its side.
        format!(
            "<div class='of-side {}' data-of-side='{index}'>{plot}</div>",
            colour(figures, index)
        )
    });
    plots.collect()
}

fn filled(points: &[Point]) -> impl Iterator<Item = &Point> {
    points.iter().filter(|point| point.count > 0)
}

fn stretches(side: &SideFigures<'_>) -> Vec<Stretch> {
    let rounds = &side.rounds[..side.rounds.len().min(ROUNDS_MAX)];
    let points_max = (POINTS_MAX / rounds.len().max(1)).max(POINTS_MIN);
    let found: Vec<_> = rounds
        .iter()
        .map(|of| {
            let usage = series::usage(of.round, points_max);
            (of.round.lasted, series::points(of.round, points_max), usage)
        })
        .collect();
    let seconds = |points: &[Point], usage: &[Usage]| {
        let points = points.last().map_or(0.0, |point| point.to.as_secs_f64());
        points.max(usage.last().map_or(0.0, |usage| usage.at.as_secs_f64()))
    };
    let all: f64 = found
        .iter()
        .map(|(_, points, usage)| seconds(points, usage))
        .sum();
    let gaps = f64::from(u32::try_from(found.len().saturating_sub(1)).unwrap_or(0)) * ROUND_GAP;
    let width = (RIGHT - LEFT - gaps) / all.max(f64::MIN_POSITIVE);
    let mut from = LEFT;
    let mut stretches = Vec::new();
    for (lasted, points, usage) in found {
        let shown = seconds(&points, &usage);
        let to = from + shown * width;
        stretches.push(Stretch {
            x: Axis::exact(0.0, shown, (from, to)),
            lasted,
            points,
            usage,
            from,
            to,
        });
        from = to + ROUND_GAP;
    }
    stretches
}

fn side_plot(id: &str, name: &str, stretches: &[Stretch], y: &Axis) -> String {
    let has_usage = stretches.iter().any(|stretch| !stretch.usage.is_empty());
    let strips = if has_usage { 2.0 } else { 0.0 };
    let bottom = TOP + LATENCY_HEIGHT + strips * (STRIP_GAP + STRIP_HEIGHT);
    let label = format!("Latency of {name} over time, and what it used");
    let mut plot = Plot::new(id.to_owned(), label, bottom + BENEATH);
    rounds(&mut plot, stretches, bottom);
    let scale = if y.is_log() {
        "latency, logarithmic"
    } else {
        "latency"
    };
    let title: String = name.chars().take(NAME_MAX).collect();
    plot.rows(y, &format!("{title}: {scale}"), number::short_latency);
    latencies(&mut plot, stretches, y);
    if has_usage {
        let first = TOP + LATENCY_HEIGHT + STRIP_GAP;
        let second = first + STRIP_HEIGHT + STRIP_GAP;
        strip(&mut plot, stretches, first, "processors", |usage| {
            usage.processors
        });
        strip(&mut plot, stretches, second, "resident MiB", |usage| {
            mebibytes(usage.resident_bytes)
        });
    }
    read_outs(&mut plot, stretches, has_usage);
    let beside = if has_usage {
        " Beneath: processors kept busy by the server, and its memory."
    } else {
        ""
    };
    plot.finish(&format!(
        "{name} over time, its rounds one after the other. Bold: p50 of a slot; thin: p99; dots: \
         the longest; ringed: stalls, more than ten times the middle p99. Shaded: the host took \
         time from a processor in use.{beside}"
    ))
}

/// Where rounds are, and where the host was elsewhere.
fn rounds(plot: &mut Plot, stretches: &[Stretch], bottom: f64) {
    for (index, stretch) in stretches.iter().enumerate() {
        plot.shade("round", (stretch.from, stretch.to), (TOP, bottom));
        let mut points = stretch.points.iter().peekable();
        while let Some(point) = points.next() {
            if !point.is_stolen {
                continue;
            }
            let mut to = point.to;
            while let Some(next) = points.next_if(|next| next.is_stolen) {
                to = next.to;
            }
            let seconds = (point.from.as_secs_f64(), to.as_secs_f64());
            let across = (stretch.x.at(seconds.0), stretch.x.at(seconds.1));
            plot.shade("stolen", across, (TOP, bottom));
        }
        let width = stretch.to - stretch.from;
        if width >= NAMED_WIDTH_MIN {
            let lasted = number::short(stretch.lasted.as_secs_f64());
            let long = format!("round {}: {lasted} s", index + 1);
            let words = if width >= 2.0 * NAMED_WIDTH_MIN {
                long
            } else {
                format!("{}", index + 1)
            };
            let middle = f64::midpoint(stretch.from, stretch.to);
            plot.text("tick middle", (middle, bottom + 17.0), &words);
        }
    }
}

fn middle(stretch: &Stretch, point: &Point) -> f64 {
    stretch.x.at(f64::midpoint(
        point.from.as_secs_f64(),
        point.to.as_secs_f64(),
    ))
}

fn latencies(plot: &mut Plot, stretches: &[Stretch], y: &Axis) {
    let mut dots = Vec::new();
    for stretch in stretches {
        let curve = |value: fn(&Point) -> f64| {
            stretch.points.iter().map(move |point| {
                let is_level = point.count > 0 && point.from < stretch.lasted;
                is_level.then(|| (middle(stretch, point), y.at(value(point))))
            })
        };
        plot.curve("p99", curve(|point| point.p99_us));
        plot.curve("curve", curve(|point| point.p50_us));
        dots.extend(filled(&stretch.points).map(|point| (middle(stretch, point), point.max_us)));
    }
    let points = stretches.iter().flat_map(|stretch| &stretch.points);
    let above = series::stall_above_us(points).unwrap_or(f64::INFINITY);
    for (x, us) in &dots {
        plot.dot("max", (*x, y.at(*us)), 1.8);
    }
    dots.retain(|(_, us)| *us > above);
    dots.sort_by(|one, other| other.1.total_cmp(&one.1));
    for (index, (x, us)) in dots.iter().enumerate() {
        plot.dot("stall", (*x, y.at(*us)), 5.0);
        if index < STALLS_TOLD {
            let (class, x) = if *x > RIGHT - 60.0 {
                ("stalled end", x - 8.0)
            } else {
                ("stalled", x + 8.0)
            };
            plot.text(class, (x, y.at(*us) + 4.0), &number::latency(*us));
        }
    }
}

/// What the server used, from zero.
fn strip(plot: &mut Plot, stretches: &[Stretch], top: f64, name: &str, value: fn(&Usage) -> f64) {
    let all = stretches.iter().flat_map(|stretch| &stretch.usage);
    let most = all.map(value).fold(0.0, f64::max);
    let bottom = top + STRIP_HEIGHT;
    let y = Axis::exact(0.0, most.max(0.01) * 1.05, (bottom, top));
    plot.line("grid", (LEFT, bottom), (RIGHT, bottom));
    plot.text("tick end", (LEFT - 8.0, bottom + 4.0), "0");
    plot.line("grid", (LEFT, y.at(most)), (RIGHT, y.at(most)));
    plot.text(
        "tick end",
        (LEFT - 8.0, y.at(most) + 4.0),
        &number::digits(most),
    );
    plot.text("name", (LEFT, top - 9.0), name);
    for stretch in stretches {
        // A mean holds for its whole slot.
        let mut before = stretch.from;
        let steps = stretch.usage.iter().flat_map(|usage| {
            let (to, height) = (stretch.x.at(usage.at.as_secs_f64()), y.at(value(usage)));
            let from = std::mem::replace(&mut before, to);
            [Some((from, height)), Some((to, height))]
        });
        plot.curve("used", steps.collect::<Vec<_>>());
    }
}

fn read_outs(plot: &mut Plot, stretches: &[Stretch], has_usage: bool) {
    for name in ["p50", "p99", "max", "ended"] {
        plot.reads(name, None);
    }
    if has_usage {
        plot.reads("processors", None);
        plot.reads("resident MiB", None);
    }
    for (index, stretch) in stretches.iter().enumerate() {
        for point in &stretch.points {
            let told = |us| (point.count > 0).then(|| number::latency(us));
            let mut values = vec![
                told(point.p50_us),
                told(point.p99_us),
                told(point.max_us),
                Some(number::count(point.count)),
            ];
            let usage = stretch.usage.iter().find(|usage| usage.at > point.from);
            if has_usage {
                values.push(usage.map(|usage| number::digits(usage.processors)));
                values.push(usage.map(|usage| number::digits(mebibytes(usage.resident_bytes))));
            }
            let stolen = if point.is_stolen { ", stolen" } else { "" };
            let when = format!(
                "round {}, {:.2} to {:.2} s{stolen}",
                index + 1,
                point.from.as_secs_f64(),
                point.to.as_secs_f64()
            );
            plot.read_out(middle(stretch, point), when, values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{comparison, round, side};
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn drawn(side_count: usize) -> Vec<String> {
        let calm = (0..1000).map(|n| (ms(n), ms(1)));
        let mut stalled = round(calm.chain([(ms(310), ms(80))]));
        stalled.stolen[5] = true;
        stalled.stolen[6] = true;
        stalled.stolen[8] = true;
        stalled.usage = (1..=10)
            .map(|slot| Usage {
                at: ms(100 * slot),
                processors: 0.5,
                resident_bytes: 10 << 20,
            })
            .collect();
        let sides = (0..side_count).map(|_| side("felix", false, vec![stalled.clone(); 2]));
        over_time("c0", &Figures::of(&comparison("x", sides.collect())))
    }

    #[test]
    fn stalls_are_ringed_and_stolen_slots_shaded() {
        let drawn = drawn(2);
        assert_eq!(drawn.len(), 2);
        assert_eq!(drawn[0].matches("class='stall'").count(), 2);
        assert_eq!(drawn[0].matches(">80.0 ms</text>").count(), 2);
        // Neighbours are one, so two areas a round.
        assert_eq!(drawn[0].matches("class='stolen'").count(), 4);
        assert_eq!(drawn[0].matches("class='used'").count(), 4);
    }

    #[test]
    fn a_long_run_is_drawn_with_few_points() {
        let found = crate::found::Latencies::new(ms(100), 36_000);
        let mut long = crate::found::Round {
            latencies: found,
            ..round([])
        };
        for minute in 1..=60 {
            let second = 60 * minute - 1;
            long.latencies.record(Duration::from_secs(second), ms(1));
        }
        let sides = vec![side("felix", false, vec![long; ROUNDS_MAX + 1])];
        let drawn = over_time("c0", &Figures::of(&comparison("x", sides)));
        let dots = drawn[0].matches("<circle").count();
        assert!((1..=POINTS_MIN * ROUNDS_MAX).contains(&dots), "{dots}");
    }

    #[test]
    fn without_latencies_there_is_no_plot() {
        let sides = vec![
            side("felix", false, vec![]),
            side("x", false, vec![round([])]),
        ];
        let drawn = over_time("c0", &Figures::of(&comparison("x", sides)));
        assert_eq!(drawn, Vec::<String>::new());
    }
}
