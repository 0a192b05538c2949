//! Every combination of what was asked for, beside its floor.

use super::appends;
use super::floor::{self, Bare};
use super::load::{Load, Setup, policy};
use super::round::{QUANTILES, Round, Rounds};
use super::scratch::Scratch;
use crate::output::{Lines, Trouble};
use serde_json::{Value, json};

/// Measures all, one after the other.
pub(crate) fn run(
    loads: &[Load],
    setup: &Setup,
    scratch: &Scratch,
    lines: &mut Lines,
) -> Result<(), Trouble> {
    for load in loads {
        lines.say(|| format!("\n{}", load.words()), || started(load))?;
        lines.show()?;
        let (mut engine, mut bare) = (Rounds::new(), Rounds::new());
        for _ in 0..setup.rounds {
            bare.push(bare_round(load, setup, scratch, Bare::AsNeeded)?);
            engine.push(engine_round(load, setup, scratch)?);
        }
        tell(load, &engine, &bare, lines)?;
        lines.show()?;
    }
    Ok(())
}

/// The engine's turn, in a directory of its own.
pub(crate) fn engine_round(
    load: &Load,
    setup: &Setup,
    scratch: &Scratch,
) -> Result<Round, Trouble> {
    let dir = scratch.fresh().map_err(Trouble::Unreadable)?;
    let round = appends::measure(load, setup, &dir);
    round.map_err(|error| Trouble::Unreadable(format!("the engine: {error}")))
}

/// The floor's turn.
pub(crate) fn bare_round(
    load: &Load,
    setup: &Setup,
    scratch: &Scratch,
    bare: Bare,
) -> Result<Round, Trouble> {
    let dir = scratch.fresh().map_err(Trouble::Unreadable)?;
    let round = floor::measure(load, setup, &dir, bare);
    round.map_err(|error| Trouble::Unreadable(format!("the floor: {error}")))
}

fn started(load: &Load) -> Value {
    let mut value = described(load);
    value["type"] = json!("load");
    value
}

fn described(load: &Load) -> Value {
    json!({
        "policy": policy(load.durability),
        "batch_bytes": load.batch_bytes,
        "waiters": load.waiters,
        "shards": load.shards,
        "rate": load.rate,
    })
}

fn tell(load: &Load, engine: &Rounds, bare: &Rounds, lines: &mut Lines) -> Result<(), Trouble> {
    let heads: String = QUANTILES
        .iter()
        .map(|(_, _, name)| format!("{:>11}", format!("{name} us")))
        .collect();
    if !lines.is_json() {
        let head = format!(
            "  {:7}{heads}{:>13}{:>9}{:>11}",
            "", "appends/s", "fan-in", "samples"
        );
        lines.say(|| head, || Value::Null)?;
    }
    for (side, rounds) in [("engine", engine), ("floor", bare)] {
        lines.say(
            || row(side, rounds),
            || {
                let mut value = described(load);
                value["type"] = json!("side");
                value["side"] = json!(side);
                merge(&mut value, rounds.to_json());
                value
            },
        )?;
    }
    let of = |quantile| engine.quantile_us(quantile) / bare.quantile_us(quantile);
    let rate = engine.rate() / bare.rate();
    lines.say(
        || {
            let ratios: String = QUANTILES
                .iter()
                .map(|(quantile, _, _)| format!("{:>11.2}", of(*quantile)))
                .collect();
            format!("  {:7}{ratios}{rate:>13.3}", "ratio")
        },
        || {
            let mut value = described(load);
            value["type"] = json!("ratio");
            value["appends_per_second"] = json!(rate);
            for (quantile, name, _) in QUANTILES {
                value[name.trim_end_matches("_us")] = json!(of(quantile));
            }
            value
        },
    )
}

fn row(side: &str, rounds: &Rounds) -> String {
    let figures: String = QUANTILES
        .iter()
        .map(|(quantile, _, name)| {
            // Too few samples for it.
            let mark = if *name == "p99.9" && rounds.is_indicative() {
                "~"
            } else {
                ""
            };
            format!(
                "{:>11}",
                format!("{mark}{:.1}", rounds.quantile_us(*quantile))
            )
        })
        .collect();
    let fan_in = rounds
        .fan_in()
        .map_or("-".to_owned(), |count| format!("{count:.1}"));
    let (rate, samples) = (rounds.rate(), rounds.samples());
    format!("  {side:7}{figures}{rate:>13.0}{fan_in:>9}{samples:>11}")
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
