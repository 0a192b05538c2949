//! Sentences that the table and the page share.

use super::figures::Figures;
use super::quantile::Quantile;
use super::series::Point;
use super::{number, series};
use crate::found::{Comparison, Figure, Findings};

/// How figures come from rounds.
pub(super) const METHOD: &str = "Each figure is the median over the rounds of the round's own, \
    with the least and the greatest round as a..b; a multiple (x) is a side's median over the \
    floor's median. Latencies count from when a request should have been sent.";

/// What is said of a run that was ended early.
pub(super) const INTERRUPTED: &str =
    "This run was ended early: what follows is what had been measured by then.";

/// What is said of a run that measured nothing.
pub(super) const NOTHING: &str = "Nothing was measured.";

/// What no figure of a run says.
pub(super) const LIMITS: &str = "These figures hold for this machine, these settings and this \
    time. Where sides and generator share a machine, they share its caches and its memory, and a \
    network between them would add its own time to both sides, which makes multiples smaller. A \
    virtual machine's host may take time that is not told as stolen. A percentile is of requests, \
    not of time: a short stall touches only those that were under way. A quantile marked as \
    indicative, and the dashed part of a curve, rest on few samples and may differ in the next \
    run. A run of minutes says nothing of hours: of full disks, of deletion of old data, of \
    memory that grows.";

/// What was offered.
pub(super) fn offered(comparison: &Comparison) -> String {
    match (comparison.figure, comparison.offered) {
        (_, Some(rate)) => format!("{} records/s offered, open loop", number::amount(rate)),
        (Figure::Latency, None) => "each answer brings the next request, closed loop".to_owned(),
        (Figure::Throughput, None) => "as fast as it goes".to_owned(),
    }
}

/// What marks a quantile as indicative, if one is.
pub(super) fn indicative(figures: &Figures<'_>) -> Option<String> {
    if figures.comparison.figure != Figure::Latency {
        return None;
    }
    let samples = number::count(figures.samples_least()?);
    let told = |quantile: &Quantile| {
        figures.is_indicative(*quantile)
            && figures
                .sides
                .iter()
                .any(|side| side.at(*quantile).is_some())
    };
    let marked: Vec<String> = Quantile::ALL
        .into_iter()
        .filter(told)
        .map(|quantile| {
            let needed = number::count(quantile.samples_needed());
            format!("{} takes {needed}", quantile.label())
        })
        .collect();
    (!marked.is_empty()).then(|| {
        format!(
            "Indicative: the shortest round has {samples} samples, and {}.",
            marked.join(", ")
        )
    })
}

/// What was stolen, side by side.
pub(super) fn stolen(figures: &Figures<'_>) -> Vec<String> {
    let sides = figures.sides.iter();
    let sentence = sides.filter_map(|side| {
        let p999 = side.at(Quantile::P999);
        let p999 = p999.filter(|_| figures.comparison.figure == Figure::Latency);
        side.steal.sentence(&side.side.name, p999)
    });
    sentence.collect()
}

/// Slots in which something took far longer than usual, side by side. A stall of one round does
/// not move a median, so it is told besides.
pub(super) fn stalls(figures: &Figures<'_>) -> Vec<String> {
    let sentence = figures.sides.iter().filter_map(|side| {
        let rounds = side.rounds.iter();
        let points: Vec<Point> = rounds
            .flat_map(|of| series::points(of.round, usize::MAX))
            .collect();
        let above = series::stall_above_us(&points)?;
        let longest = points.iter().map(|point| point.max_us).fold(0.0, f64::max);
        let stalls = points.iter().filter(|point| point.max_us > above).count();
        let times = series::STALL_MULTIPLE;
        (stalls > 0).then(|| {
            format!(
                "{}: {stalls} of {} slots had a latency of over {times:.0} times the middle p99 \
                 of a slot, which makes {}; the longest was {}.",
                side.side.name,
                points.len(),
                number::latency(above),
                number::latency(longest)
            )
        })
    });
    sentence.collect()
}

/// How the run ended, if not by itself.
pub(super) fn ended(findings: &Findings) -> Vec<String> {
    let problem = findings.problem.as_ref();
    let problem = problem.map(|problem| {
        format!(
            "This run could not go on: {problem}. What follows is what had been measured by then."
        )
    });
    let interrupted = findings.is_interrupted.then(|| INTERRUPTED.to_owned());
    problem.into_iter().chain(interrupted).collect()
}
