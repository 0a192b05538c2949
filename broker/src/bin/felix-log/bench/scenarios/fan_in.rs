//! Many that wait for flushes, on one shard and on as many shards, beside one that does.

use super::{Finding, Stage, appends};
use crate::bench::load::Load;
use crate::bench::round::Rounds;
use crate::output::{Lines, Trouble};
use felix_core::Durability;
use serde_json::json;

const WAITERS: usize = 64;

pub(super) fn run(stage: &Stage<'_>, lines: &mut Lines) -> Result<(), Trouble> {
    let setup = stage.setup(2.0);
    let one = appends(Durability::OnCommit, None);
    let many = Load {
        waiters: WAITERS,
        ..one
    };
    let loads = [
        one,
        many,
        Load {
            shards: WAITERS,
            ..many
        },
    ];
    let mut sides = [const { Rounds::new() }; 3];
    for _ in 0..setup.rounds {
        for (load, side) in loads.iter().zip(&mut sides) {
            side.push(stage.engine(load, &setup)?);
        }
    }
    let [single, shared, spread] = &sides;
    for (name, side, least) in [("one shard", shared, 40.0), ("64 shards", spread, 20.0)] {
        let ratio = side.rate() / single.rate();
        let finding = Finding {
            name: format!("fan-in, {name}"),
            target: format!("on_commit, {WAITERS} waiters on {name}: {least} times one waiter"),
            measured: format!(
                "{ratio:.1} times ({:.0} over {:.0} a second), {:.1} appends a flush",
                side.rate(),
                single.rate(),
                side.fan_in().unwrap_or(0.0),
            ),
            met: Some(ratio >= least),
            figures: json!({"ratio": ratio, "many": side.to_json(), "one": single.to_json()}),
        };
        finding.tell(lines)?;
    }
    Ok(())
}
