//! An append that is flushed before it is acknowledged, beside a bare write and flush.

use super::{Finding, Stage, appends};
use crate::bench::floor::Bare;
use crate::bench::round::Rounds;
use crate::output::{Lines, Trouble};
use felix_core::Durability;
use serde_json::json;

/// Microseconds above the bare loop's.
const MOST_US: f64 = 30.0;

pub(super) fn run(stage: &Stage<'_>, lines: &mut Lines) -> Result<(), Trouble> {
    let setup = stage.setup(2.0);
    let load = appends(Durability::OnCommit, None);
    let [mut engine, mut bare] = [const { Rounds::new() }; 2];
    for _ in 0..setup.rounds {
        bare.push(stage.bare(&load, &setup, Bare::AsNeeded)?);
        engine.push(stage.engine(&load, &setup)?);
    }
    let p50 = |side: &Rounds| side.quantile_us(0.5);
    let more = p50(&engine) - p50(&bare);
    let finding = Finding {
        name: "commit-latency".to_owned(),
        target: format!("on_commit, p50 within {MOST_US} us of a bare write and flush"),
        measured: format!(
            "{more:.1} us more ({:.1} over {:.1} us), p99 {:.1} over {:.1} us; {} samples",
            p50(&engine),
            p50(&bare),
            engine.quantile_us(0.99),
            bare.quantile_us(0.99),
            engine.samples(),
        ),
        met: Some(more <= MOST_US),
        figures: json!({"more_us": more, "engine": engine.to_json(), "floor": bare.to_json()}),
    };
    finding.tell(lines)
}
