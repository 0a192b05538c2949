//! What docs/performance.md has targets for, measured and judged.

mod append_tail;
mod commit_latency;
mod crafted;
mod dirty_shards;
mod disturbance;
mod fan_in;
mod memory_limit;
mod open_shards;
pub(super) mod part;
mod recovery;
mod under;

use super::floor::Bare;
use super::load::{Load, Setup};
use super::round::Rounds;
use super::scratch::Scratch;
use super::{matrix, pace};
use crate::output::{Lines, Trouble};
use felix_core::Durability;
use serde_json::{Value, json};
use std::time::Duration;

/// One of them.
type Scenario = fn(&Stage<'_>, &mut Lines) -> Result<(), Trouble>;

const SCENARIOS: [(&str, Scenario); 7] = [
    ("append-tail", append_tail::run),
    ("commit-latency", commit_latency::run),
    ("fan-in", fan_in::run),
    ("dirty-shards", dirty_shards::run),
    ("recovery", recovery::run),
    ("open-shards", open_shards::run),
    ("disturbances", disturbance::run),
];

/// Their names.
pub(crate) fn names() -> [&'static str; 7] {
    SCENARIOS.map(|(name, _)| name)
}

/// Measures those named, or all.
pub(crate) fn run(
    names: &[&str],
    setup: &Setup,
    quick: bool,
    scratch: &Scratch,
    lines: &mut Lines,
) -> Result<(), Trouble> {
    let stage = Stage {
        // One core, whatever was asked for: the targets are of one.
        cpus: setup.cpus.iter().copied().take(1).collect(),
        all_cpus: &setup.all_cpus,
        quick,
        scratch,
    };
    for (name, scenario) in SCENARIOS {
        if names.is_empty() || names.contains(&name) {
            scenario(&stage, lines)?;
            lines.show()?;
        }
    }
    Ok(())
}

/// Where scenarios take place.
pub(crate) struct Stage<'a> {
    cpus: Vec<usize>,
    all_cpus: &'a [usize],
    quick: bool,
    scratch: &'a Scratch,
}

impl Stage<'_> {
    /// How to measure for so many seconds a round.
    fn setup(&self, seconds: f64) -> Setup {
        let (seconds, warm_up) = if self.quick {
            (0.05, 0.01)
        } else {
            (seconds, 0.5)
        };
        Setup {
            cpus: self.cpus.clone(),
            all_cpus: self.all_cpus.to_vec(),
            flush_interval: Duration::from_millis(50),
            segment_bytes: 1 << 30,
            warm_up: Duration::from_secs_f64(warm_up),
            span: Duration::from_secs_f64(seconds),
            rounds: if self.quick { 1 } else { 5 },
            lead: pace::LEAD,
        }
    }

    /// So much, or hardly anything.
    fn amount<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }

    fn engine(&self, load: &Load, setup: &Setup) -> Result<super::round::Round, Trouble> {
        matrix::engine_round(load, setup, self.scratch)
    }

    fn bare(&self, load: &Load, setup: &Setup, bare: Bare) -> Result<super::round::Round, Trouble> {
        matrix::bare_round(load, setup, self.scratch, bare)
    }
}

/// Appends of a kibibyte to one shard, one at a time.
const fn appends(durability: Durability, rate: Option<u64>) -> Load {
    Load {
        durability,
        batch_bytes: 1024,
        waiters: 1,
        shards: 1,
        rate,
    }
}

/// What was found of one target.
#[derive(Clone, Debug)]
struct Finding {
    name: String,
    target: String,
    measured: String,
    /// `None`: it could not be measured here.
    met: Option<bool>,
    figures: Value,
}

impl Finding {
    fn tell(self, lines: &mut Lines) -> Result<(), Trouble> {
        let verdict = match self.met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not measured",
        };
        let Self {
            name,
            target,
            measured,
            figures,
            ..
        } = self;
        lines.say(
            || format!("{name}: {verdict}\n  target    {target}\n  measured  {measured}"),
            || {
                json!({
                    "type": "scenario",
                    "name": name,
                    "target": target,
                    "measured": measured,
                    "verdict": verdict,
                    "figures": figures,
                })
            },
        )?;
        lines.show()
    }
}

/// `p99.9 12.3 us`, marked where there are too few samples for it.
fn tail(rounds: &Rounds) -> String {
    let mark = if rounds.is_indicative() { "~" } else { "" };
    format!("{mark}{:.1} us", rounds.quantile_us(0.999))
}
