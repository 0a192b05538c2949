//! What a reader has to know before believing a figure.

use super::figures::{Figures, SideFigures};
use super::number;
use super::quantile::Quantile;
use crate::found::{Figure, Spread};

/// How a sentence about failures begins.
pub(super) const FAILED: &str = "FAILED REQUESTS";
/// Kinds of error told by name; what else there was is counted.
const ERRORS_MAX: usize = 8;
/// The part of the latency's middle that the generator's own lateness may be.
const LATENESS_PART_MAX: f64 = 0.1;
/// Beyond this part of a processor, the generator may be the limit.
const CLIENT_BUSY_MAX: f64 = 0.9;
/// Beyond this part of the time, others on the generator's processor shape the tail.
const CLIENT_WAITED_MAX: f64 = 0.002;
/// Below this multiple of it, a floor was disturbed.
const FLOOR_PART_MIN: f64 = 0.9;
/// Beyond this part of the answers, a parked client is not what it says.
const CLIENT_AWAKE_MAX: f64 = 0.05;

/// Sentences about a comparison, the worst first.
pub(super) fn warnings(figures: &Figures<'_>) -> Vec<String> {
    let of = |sentence: fn(&Figures<'_>, &SideFigures<'_>) -> Option<String>| {
        figures
            .sides
            .iter()
            .filter_map(move |side| sentence(figures, side))
    };
    of(failed)
        .chain(of(unmeasured))
        .chain(of(behind))
        .chain(busy(figures))
        .chain(latencies(figures))
        .collect()
}

/// What only those have to know who compare latencies.
fn latencies(figures: &Figures<'_>) -> Vec<String> {
    if figures.comparison.figure != Figure::Latency {
        return Vec::new();
    }
    let told = [late(figures), waited(figures), awake(figures)];
    told.into_iter().flatten().chain(below(figures)).collect()
}

fn failed(_: &Figures<'_>, side: &SideFigures<'_>) -> Option<String> {
    if !side.has_failed() {
        return None;
    }
    let mut what = Vec::new();
    if side.unanswered > 0 {
        what.push(format!(
            "{} requests were never answered and count with the time that was waited for them",
            number::count(side.unanswered)
        ));
    }
    let errors = &side.errors;
    for (error, times) in errors.iter().take(ERRORS_MAX) {
        what.push(format!("{} x {error}", number::count(*times)));
    }
    if errors.len() > ERRORS_MAX {
        what.push(format!("{} other errors", errors.len() - ERRORS_MAX));
    }
    Some(format!(
        "{FAILED}: {}: {}. Its figures are not those of a healthy run.",
        side.side.name,
        what.join("; ")
    ))
}

fn unmeasured(_: &Figures<'_>, side: &SideFigures<'_>) -> Option<String> {
    side.rounds.is_empty().then(|| {
        format!(
            "{}: no round was completed, so nothing is told.",
            side.side.name
        )
    })
}

fn behind(figures: &Figures<'_>, side: &SideFigures<'_>) -> Option<String> {
    let offered = figures.comparison.offered?;
    side.is_behind().then(|| {
        let reached = side
            .records_per_second
            .map_or(0.0, |reached| reached.median);
        format!(
            "{} did not keep up: {} records/s of {} offered. Its latencies are those of a growing \
             queue and depend on how long the run was; a lower --rate shows those of a server \
             that keeps up.",
            side.side.name,
            number::amount(reached),
            number::amount(offered)
        )
    })
}

/// What there is to tell of each side, one after the other.
fn each(
    figures: &Figures<'_>,
    tell: impl Fn(&SideFigures<'_>) -> Option<String>,
) -> Option<String> {
    let told: Vec<String> = figures.sides.iter().filter_map(tell).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

fn late(figures: &Figures<'_>) -> Option<String> {
    let told = each(figures, |side| {
        let (late, p50) = (side.lateness_p99_us?.median, side.at(Quantile::P50)?.median);
        let (shown, beside) = (number::latency(late), number::latency(p50));
        (late > LATENESS_PART_MAX * p50)
            .then(|| format!("{shown} with {} (p50 {beside})", side.side.name))
    })?;
    Some(format!(
        "The generator was late: 99 % of its sends were up to {told} late. That is part of the \
         figures; give it more --cpus or a lower --rate."
    ))
}

fn busy(figures: &Figures<'_>) -> Option<String> {
    let told = each(figures, |side| {
        let Spread { median, .. } = side.client_busy?;
        (median > CLIENT_BUSY_MAX).then(|| {
            format!(
                "{:.0} % of the time with {}",
                100.0 * median,
                side.side.name
            )
        })
    })?;
    Some(format!(
        "The generator itself may be the limit: its busiest thread had something to do for {told}. \
         Give it more --cpus or a lower --rate."
    ))
}

fn waited(figures: &Figures<'_>) -> Option<String> {
    let told = each(figures, |side| {
        let Spread { median, .. } = side.client_waited?;
        (median > CLIENT_WAITED_MAX).then(|| {
            format!(
                "{:.1} % of the time with {}",
                100.0 * median,
                side.side.name
            )
        })
    })?;
    Some(format!(
        "Others ran on the generator's processor when it had to: for {told}. That is in the tail; \
         choose --cpus that nothing else uses."
    ))
}

fn awake(figures: &Figures<'_>) -> Option<String> {
    let told = each(figures, |side| {
        let Spread { median, .. } = side.client_awake?;
        (median > CLIENT_AWAKE_MAX).then(|| {
            format!(
                "{:.0} % of the answers of {}",
                100.0 * median,
                side.side.name
            )
        })
    })?;
    Some(format!(
        "The parked client was awake for {told}, because its next request was nearly due: these \
         did not pay for waking it. Sides and rates compare badly; lower the --rate, or let the \
         client spin (--client spinning)."
    ))
}

/// A floor that takes longer than what stands on it is none.
fn below(figures: &Figures<'_>) -> Vec<String> {
    let multiples = figures.multiples();
    let told = multiples.iter().filter_map(|multiple| {
        let below = Quantile::ALL.into_iter().filter(|quantile| {
            let times = multiple.of(*quantile);
            *quantile != Quantile::Max && times.is_some_and(|times| times < FLOOR_PART_MIN)
        });
        let below: Vec<&str> = below.map(Quantile::label).collect();
        (!below.is_empty()).then(|| {
            format!(
                "{} took longer than {} at {}: something else was in its way, and these multiples \
                 say nothing.",
                multiple.floor,
                multiple.side,
                below.join(", ")
            )
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{comparison, round_of, side};
    use super::*;
    use crate::found::Round;
    use std::time::Duration;

    fn said(offered: Option<f64>, round: Round) -> Vec<String> {
        let mut comparison = comparison("x", vec![side("felix", false, vec![round])]);
        comparison.offered = offered;
        warnings(&Figures::of(&comparison))
    }

    fn calm() -> Round {
        round_of([Duration::from_micros(100)])
    }

    #[test]
    fn a_calm_run_needs_no_warning() {
        assert_eq!(said(None, calm()), Vec::<String>::new());
    }

    #[test]
    fn others_on_the_generators_processor_are_told() {
        let mut round = calm();
        round.client_waited = 0.001;
        assert_eq!(said(None, round.clone()), Vec::<String>::new());
        round.client_waited = 0.013;
        let said = said(None, round);
        assert_eq!(said.len(), 1);
        assert!(
            said[0].contains("1.3 % of the time with felix"),
            "{}",
            said[0]
        );
    }

    #[test]
    fn failures_are_told_first_and_by_name() {
        let mut round = calm();
        round.unanswered = 1200;
        round.client_busy = 0.95;
        round.errors.insert("NOT_LEADER_OR_FOLLOWER".to_owned(), 3);
        let said = said(None, round);
        assert_eq!(said.len(), 2);
        assert!(said[0].starts_with("FAILED REQUESTS: felix: 1,200 requests"));
        assert!(said[0].contains("3 x NOT_LEADER_OR_FOLLOWER"), "{said:?}");
        assert!(said[1].contains("95 % of the time"), "{said:?}");
    }

    #[test]
    fn a_thousand_kinds_of_error_are_still_one_sentence() {
        let mut round = calm();
        for error in 0..1000 {
            round.errors.insert(format!("error {error:04}"), 1);
        }
        let said = said(None, round);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("992 other errors"), "{said:?}");
    }

    #[test]
    fn a_late_generator_is_told_with_the_cure() {
        let mut round = calm();
        round.lateness.record(9_000).unwrap();
        assert_eq!(said(None, round.clone()), Vec::<String>::new());
        round.lateness.record(11_000).unwrap();
        let said = said(None, round);
        assert!(
            said[0].contains("more --cpus or a lower --rate"),
            "{said:?}"
        );
    }

    #[test]
    fn a_side_that_falls_behind_is_told() {
        // A thousand were due, and these were done in time.
        let mut round = round_of((0..1000).map(|_| Duration::from_micros(100)));
        (round.operations, round.records) = (970, 970);
        assert_eq!(said(Some(1000.0), round.clone()), Vec::<String>::new());
        (round.operations, round.records) = (969, 969);
        let said = said(Some(1000.0), round.clone());
        assert!(said[0].starts_with("felix did not keep up: 969 records/s of 1,000 offered"));
        // Refusals are told as such, and were no queue.
        round
            .errors
            .insert("NOT_LEADER_OR_FOLLOWER".to_owned(), 500);
        let mut comparison = comparison("x", vec![side("felix", false, vec![round])]);
        comparison.offered = Some(1000.0);
        let said = warnings(&Figures::of(&comparison));
        assert!(
            said.iter().all(|said| !said.contains("keep up")),
            "{said:?}"
        );
    }

    #[test]
    fn a_side_without_a_round_is_told() {
        let comparison = comparison("x", vec![side("felix", false, vec![])]);
        let said = warnings(&Figures::of(&comparison));
        assert_eq!(said, ["felix: no round was completed, so nothing is told."]);
    }
}
