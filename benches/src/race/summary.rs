//! The ratios, under the names that others rely on.

use crate::found::{Figure, Findings};
use crate::report::{Quantile, multiples};
use serde_json::{Map, Value, json};

/// The object of `race --json`: each ratio under its name, and everything else under `report`.
#[must_use]
pub fn summary(findings: &Findings, report: Value) -> Value {
    let mut summary = Map::new();
    for comparison in &findings.comparisons {
        let samples = comparison.sides.iter().flat_map(|side| &side.rounds);
        let samples = samples.map(|round| round.latencies.all().len()).min();
        for multiple in multiples(comparison) {
            let floor = match multiple.floor.as_str() {
                "write+flush" => "flush".to_owned(),
                floor => floor.replace('-', "_"),
            };
            let value = match comparison.figure {
                Figure::Throughput => json!({ "throughput": multiple.throughput }),
                Figure::Latency => json!({
                    "p50": multiple.of(Quantile::P50),
                    "p99": multiple.of(Quantile::P99),
                    "p999": multiple.of(Quantile::P999),
                    "samples_per_round": samples,
                    "p999_is_indicative": samples.is_none_or(|samples| samples < Quantile::P999.samples_needed()),
                }),
            };
            summary.insert(format!("{}_over_{floor}", comparison.name), value);
        }
    }
    summary.insert("is_interrupted".to_owned(), findings.is_interrupted.into());
    summary.insert("problem".to_owned(), findings.problem.clone().into());
    summary.insert("report".to_owned(), report);
    summary.into()
}
