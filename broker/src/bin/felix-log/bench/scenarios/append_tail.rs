//! The tail of appends that are flushed every interval, beside a bare write loop.

use super::{Finding, Stage, appends, tail};
use crate::bench::floor::Bare;
use crate::bench::round::Rounds;
use crate::output::{Lines, Trouble};
use felix_core::Durability;
use serde_json::json;

/// Of the bare loop's.
const MOST: f64 = 1.3;

pub(super) fn run(stage: &Stage<'_>, lines: &mut Lines) -> Result<(), Trouble> {
    for rate in [2_000, 20_000] {
        let setup = stage.setup(4.0);
        let load = appends(Durability::Periodic, Some(rate));
        let [mut engine, mut bare, mut flushed] = [const { Rounds::new() }; 3];
        for _ in 0..setup.rounds {
            bare.push(stage.bare(&load, &setup, Bare::AsNeeded)?);
            engine.push(stage.engine(&load, &setup)?);
            flushed.push(stage.bare(&load, &setup, Bare::FlushedAside)?);
        }
        let of = |side: &Rounds| engine.quantile_us(0.999) / side.quantile_us(0.999);
        let finding = Finding {
            name: format!("append-tail {rate}/s"),
            target: format!("periodic, p99.9 within {MOST} times a bare pwrite loop's"),
            measured: format!(
                "{:.2} times ({} over {}); {:.2} times a loop that is flushed as often ({}); p50 \
                 {:.1} over {:.1} us; {} samples a side",
                of(&bare),
                tail(&engine),
                tail(&bare),
                of(&flushed),
                tail(&flushed),
                engine.quantile_us(0.5),
                bare.quantile_us(0.5),
                engine.samples(),
            ),
            met: Some(of(&bare) <= MOST),
            figures: json!({
                "ratio": of(&bare),
                "ratio_to_flushed": of(&flushed),
                "engine": engine.to_json(),
                "floor": bare.to_json(),
                "floor_flushed": flushed.to_json(),
            }),
        };
        finding.tell(lines)?;
    }
    Ok(())
}
