//! Everything as one object.

use super::figures::{Figures, Multiples, RoundFigures, SideFigures, at, micros};
use super::quantile::Quantile;
use super::warnings::warnings;
use super::{series, steal, words};
use crate::found::{Figure, Findings, Spread};
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The number of this layout. It changes when a name goes or means something else, not when one
/// is added.
const SCHEMA: u32 = 1;
/// Points over time, for each round.
const POINTS_MAX: usize = 600;
/// Kinds of error told by name, for each round.
const ERRORS_MAX: usize = 50;

/// Everything, each name with its unit. Medians are over the rounds, multiples are those of
/// medians.
#[must_use]
pub fn json(findings: &Findings) -> Value {
    let comparisons = findings.comparisons.iter().map(Figures::of);
    let comparisons: Vec<Value> = comparisons.map(|figures| comparison(&figures)).collect();
    json!({
        "schema": SCHEMA,
        "command": findings.command,
        "is_interrupted": findings.is_interrupted,
        "problem": findings.problem,
        "environment": facts(&findings.environment.facts),
        "settings": facts(&findings.settings),
        "method": words::METHOD,
        "stolen_rule": steal::RULE,
        "comparisons": comparisons,
    })
}

fn facts(facts: &[(String, String)]) -> Value {
    let facts = facts.iter().cloned();
    Value::Object(facts.map(|(name, fact)| (name, fact.into())).collect())
}

fn comparison(figures: &Figures<'_>) -> Value {
    let found = figures.comparison;
    let indicative = Quantile::ALL.into_iter();
    let indicative = indicative.filter(|quantile| figures.is_indicative(*quantile));
    json!({
        "name": found.name,
        "what": found.what,
        "figure": match found.figure {
            Figure::Latency => "latency",
            Figure::Throughput => "throughput",
        },
        "offered_records_per_s": found.offered,
        "samples_in_shortest_round": figures.samples_least(),
        "indicative": indicative.map(Quantile::key).collect::<Vec<_>>(),
        "sides": figures.sides.iter().map(side).collect::<Vec<_>>(),
        "multiples": figures.multiples().iter().map(multiples).collect::<Vec<_>>(),
        "warnings": warnings(figures),
        "stolen": words::stolen(figures),
        "stalls": words::stalls(figures),
    })
}

fn side(side: &SideFigures<'_>) -> Value {
    let over_rounds = |of: &dyn Fn(Quantile) -> Option<Spread>| {
        let quantiles = Quantile::ALL.into_iter();
        let quantiles = quantiles.map(|quantile| (name_us(quantile), spread(of(quantile))));
        Value::Object(quantiles.collect())
    };
    json!({
        "name": side.side.name,
        "is_floor": side.side.is_floor,
        "latency": over_rounds(&|quantile| side.at(quantile)),
        "latency_without_stolen": (side.steal.slots_stolen > 0)
            .then(|| over_rounds(&|quantile| side.steal.undisturbed(quantile))),
        "records_per_s": spread(side.records_per_second),
        "bytes_per_s": spread(side.bytes_per_second),
        "lateness_p99_us": spread(side.lateness_p99_us),
        "client_busy": spread(side.client_busy),
        "client_waited": spread(side.client_waited),
        "client_awake": spread(side.client_awake),
        "unanswered": side.unanswered,
        "errors": errors(side.errors.iter().map(|(error, times)| (*error, *times))),
        "slots": side.steal.slots,
        "slots_stolen": side.steal.slots_stolen,
        "samples_in_stolen_slots": side.steal.samples_left_out,
        "stolen_percent": spread(side.steal.percent),
        "rounds": side.rounds.iter().map(round).collect::<Vec<_>>(),
    })
}

fn round(figures: &RoundFigures<'_>) -> Value {
    let found = figures.round;
    let lateness = &found.lateness;
    json!({
        "lasted_s": found.lasted.as_secs_f64(),
        "samples": figures.latencies.len(),
        "operations": found.operations,
        "records": found.records,
        "bytes": found.bytes,
        "records_per_s": short(found.records_per_second()),
        "bytes_per_s": short(found.bytes_per_second()),
        "unanswered": found.unanswered,
        "errors": errors(found.errors.iter().map(|(error, times)| (error.as_str(), *times))),
        "latency": quantiles(&figures.latencies),
        "latency_without_stolen": figures.undisturbed.as_ref().map(quantiles),
        "lateness": (!lateness.is_empty()).then(|| json!({
            "p50_us": micros(lateness.value_at_quantile(0.5)),
            "p99_us": micros(lateness.value_at_quantile(0.99)),
            "max_us": micros(lateness.max()),
        })),
        "client_busy": short(found.client_busy),
        "client_waited": short(found.client_waited),
        "client_awake": short(found.client_awake),
        "stolen_percent": short(found.stolen_percent),
        "over_time": over_time(figures),
        "usage": usage(figures),
    })
}

/// One list for each quantity, as long as the others.
fn over_time(figures: &RoundFigures<'_>) -> Value {
    let points = series::points(figures.round, POINTS_MAX);
    let list = |of: fn(&series::Point) -> Value| points.iter().map(of).collect::<Value>();
    json!({
        "slot_ms": figures.round.latencies.slot().as_secs_f64() * 1e3,
        "from_ms": list(|point| short(point.from.as_secs_f64() * 1e3)),
        "to_ms": list(|point| short(point.to.as_secs_f64() * 1e3)),
        "count": list(|point| point.count.into()),
        "p50_us": list(|point| told(point, point.p50_us)),
        "p99_us": list(|point| told(point, point.p99_us)),
        "max_us": list(|point| told(point, point.max_us)),
        "is_stolen": list(|point| point.is_stolen.into()),
    })
}

/// Nothing ended, so nothing took any time.
fn told(point: &series::Point, us: f64) -> Value {
    if point.count == 0 {
        Value::Null
    } else {
        short(us)
    }
}

fn usage(figures: &RoundFigures<'_>) -> Value {
    let points = series::usage(figures.round, POINTS_MAX);
    json!({
        "at_ms": points.iter().map(|at| short(at.at.as_secs_f64() * 1e3)).collect::<Value>(),
        "processors": points.iter().map(|at| short(at.processors)).collect::<Value>(),
        "resident_bytes": points.iter().map(|at| at.resident_bytes).collect::<Value>(),
    })
}

fn quantiles(latencies: &Histogram<u64>) -> Value {
    let quantiles = Quantile::ALL.into_iter();
    let quantiles = quantiles.map(|quantile| {
        let us = at(latencies, quantile).map(short);
        (name_us(quantile), us.unwrap_or_default())
    });
    Value::Object(quantiles.collect())
}

fn multiples(multiples: &Multiples) -> Value {
    let mut object = Map::new();
    object.insert("side".to_owned(), multiples.side.as_str().into());
    object.insert("floor".to_owned(), multiples.floor.as_str().into());
    for quantile in Quantile::ALL {
        if let Some(multiple) = multiples.of(quantile) {
            object.insert(quantile.key().to_owned(), short(multiple));
        }
    }
    if let Some(multiple) = multiples.throughput {
        object.insert("throughput".to_owned(), short(multiple));
    }
    Value::Object(object)
}

fn errors<'a>(errors: impl Iterator<Item = (&'a str, u64)>) -> Value {
    let mut told: BTreeMap<&str, u64> = BTreeMap::new();
    for (index, (error, times)) in errors.enumerate() {
        let name = if index < ERRORS_MAX { error } else { "others" };
        *told.entry(name).or_default() += times;
    }
    json!(told)
}

fn spread(spread: Option<Spread>) -> Value {
    let object = spread.map(|Spread { min, median, max }| {
        json!({ "median": short(median), "min": short(min), "max": short(max) })
    });
    object.unwrap_or_default()
}

fn name_us(quantile: Quantile) -> String {
    format!("{}_us", quantile.key())
}

/// Without digits that mean nothing: thousandths.
fn short(value: f64) -> Value {
    json!((value * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::sample::{comparison, findings, round, round_of, side};
    use super::*;
    use crate::found::Round;
    use std::time::Duration;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn figures_are_found_by_name() {
        let mut round = round_of([us(150)]);
        round.stolen[1] = true;
        let object = json(&findings(vec![comparison(
            "produce_ack",
            vec![
                side("echo", true, vec![round_of([us(100)])]),
                side("felix", false, vec![round]),
            ],
        )]));
        assert_eq!(object["schema"], 1);
        assert_eq!(object["settings"]["rate"], "20000");
        let found = &object["comparisons"][0];
        assert_eq!(found["indicative"], json!(["p999", "p9999"]));
        let multiple = found["multiples"][0]["p999"].as_f64().unwrap();
        assert!((multiple - 1.5).abs() < 0.01, "{multiple}");
        let felix = &found["sides"][1];
        for of in [
            &felix["latency"]["p50_us"]["median"],
            &felix["latency_without_stolen"]["p50_us"]["max"],
            &felix["rounds"][0]["latency"]["max_us"],
            &felix["rounds"][0]["over_time"]["p99_us"][0],
        ] {
            let us = of.as_f64().unwrap();
            assert!((us - 150.0).abs() < 0.2, "{us}");
        }
        assert_eq!(found["sides"][0]["latency_without_stolen"], Value::Null);
    }

    #[test]
    fn a_day_is_no_longer_than_a_minute() {
        let mut long = Round {
            latencies: crate::found::Latencies::new(us(100_000), 864_000),
            ..round([])
        };
        for hour in 1..=24 {
            let second = 3600 * hour - 1;
            long.latencies.record(Duration::from_secs(second), us(100));
        }
        let object = json(&findings(vec![comparison(
            "x",
            vec![side("felix", false, vec![long])],
        )]));
        let over_time = &object["comparisons"][0]["sides"][0]["rounds"][0]["over_time"];
        let points = over_time["count"].as_array().unwrap().len();
        assert!((POINTS_MAX / 2..=POINTS_MAX).contains(&points), "{points}");
        assert!(object.to_string().len() < 50_000);
    }

    #[test]
    fn a_run_without_findings_is_an_object() {
        let mut nothing = findings(vec![comparison("x", vec![side("felix", false, vec![])])]);
        nothing.is_interrupted = true;
        let object = json(&nothing);
        assert_eq!(object["is_interrupted"], true);
        let felix = &object["comparisons"][0]["sides"][0];
        assert_eq!(felix["latency"]["p50_us"], Value::Null);
        assert_eq!(felix["rounds"], json!([]));
    }
}
