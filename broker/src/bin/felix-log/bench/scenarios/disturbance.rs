//! How far the tail of a producer is moved by what goes on beside it, and how far that of a bare
//! write loop is.

use super::crafted::Crafted;
use super::memory_limit::{self, MemoryLimit};
use super::part::Filler;
use super::under::{self, Beside};
use super::{Finding, Stage, appends, tail};
use crate::bench::batches::Batches;
use crate::bench::load::{Load, Setup};
use crate::bench::round::{Round, Rounds};
use crate::output::{Lines, Trouble};
use felix_core::Durability;
use serde_json::json;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How many times as far as the bare loop's the engine's tail may be moved.
const MOST: f64 = 1.5;

/// Appends a second of the producer.
const RATE: u64 = 5_000;

/// Of the old log.
const BATCH_BYTES: usize = 16 << 10;

/// What the memory limit leaves.
const LIMIT_BYTES: u64 = 1 << 30;

/// Neither side ever sleeps: how late a processor wakes up that has nothing to do is the machine's own, and is
/// more in a quiet loop than in one with something beside it.
const LEAD: Duration = Duration::from_millis(1);

/// How long a neighbour has had the page cache before anything is measured.
const HEAD_START: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Disturbance {
    Nothing,
    CatchUp,
    Retention,
    Neighbour,
    MemoryLimit,
}

const ALL: [(Disturbance, &str); 5] = [
    (Disturbance::Nothing, "nothing"),
    (Disturbance::CatchUp, "a catch-up reader"),
    (Disturbance::Retention, "running retention"),
    (
        Disturbance::Neighbour,
        "a neighbour that fills the page cache",
    ),
    (Disturbance::MemoryLimit, "a memory limit of 1 GiB"),
];

/// A round of one side, whose files go into the directory.
type Side = fn(&Path, &Load, &Setup, Beside, &Crafted) -> Result<Round, String>;

/// Both sides under one disturbance.
struct Both {
    engine: Rounds,
    bare: Rounds,
    /// Why there is nothing.
    gap: Option<String>,
}

pub(super) fn run(stage: &Stage<'_>, lines: &mut Lines) -> Result<(), Trouble> {
    let said = |error: String| Trouble::Unreadable(format!("disturbances: {error}"));
    let dir = stage.scratch.fresh().map_err(said)?;
    let batches = Batches::of(BATCH_BYTES);
    let (bytes, segment) = stage.amount((1 << 30, 64 << 20), (2 << 20, 1 << 20));
    let old = Crafted::write(&dir.join("old"), bytes, segment, &batches);
    let old = old.map_err(|error| said(error.to_string()))?;
    let setup = Setup {
        lead: LEAD,
        ..stage.setup(2.5)
    };
    let load = appends(Durability::Periodic, Some(RATE));
    let mut found = ALL.map(|_| Both {
        engine: Rounds::new(),
        bare: Rounds::new(),
        gap: None,
    });
    for _ in 0..setup.rounds {
        for ((disturbance, _), both) in ALL.iter().zip(&mut found) {
            if both.gap.is_none() {
                both.round(stage, *disturbance, (&load, &setup), &old)
                    .map_err(said)?;
            }
        }
    }
    let [quiet, disturbed @ ..] = &found;
    for ((_, name), both) in ALL.iter().skip(1).zip(disturbed) {
        both.finding(name, quiet).tell(lines)?;
    }
    Ok(())
}

impl Both {
    fn round(
        &mut self,
        stage: &Stage<'_>,
        disturbance: Disturbance,
        (load, setup): (&Load, &Setup),
        old: &Crafted,
    ) -> Result<(), String> {
        let beside = match disturbance {
            Disturbance::CatchUp => Beside::CatchUp,
            Disturbance::Retention => Beside::Retention,
            Disturbance::Nothing | Disturbance::Neighbour | Disturbance::MemoryLimit => {
                Beside::Nothing
            }
        };
        // Each side has what is beside it from its beginning on: a neighbour that has filled the page
        // cache for seconds is another one than it was at first.
        let mut sides = [
            (&mut self.bare, under::bare as Side),
            (&mut self.engine, under::engine as Side),
        ];
        for (rounds, side) in &mut sides {
            let (root, dir) = (stage.scratch.fresh()?, stage.scratch.fresh()?);
            let _around = match Around::begin(stage, disturbance, &dir) {
                Ok(around) => around,
                Err(gap) if disturbance == Disturbance::MemoryLimit => {
                    self.gap = Some(gap);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            rounds.push(side(&root, load, setup, beside, old)?);
        }
        Ok(())
    }

    fn finding(&self, name: &str, quiet: &Self) -> Finding {
        let moved =
            |side: &Rounds, quiet: &Rounds| side.quantile_us(0.999) / quiet.quantile_us(0.999);
        let engine = moved(&self.engine, &quiet.engine);
        let bare = moved(&self.bare, &quiet.bare);
        let ratio = engine / bare;
        let target = format!(
            "moves a tail producer's p99.9 by less than {MOST} times what it moves a bare loop's"
        );
        let measured = match &self.gap {
            Some(gap) => gap.clone(),
            None => format!(
                "{ratio:.2} times: the engine's {engine:.2}-fold ({} to {}), the bare loop's \
                 {bare:.2}-fold ({} to {}); {RATE}/s, {} samples",
                tail(&quiet.engine),
                tail(&self.engine),
                tail(&quiet.bare),
                tail(&self.bare),
                self.engine.samples(),
            ),
        };
        Finding {
            name: format!("disturbance, {name}"),
            target,
            measured,
            met: self.gap.is_none().then_some(ratio < MOST),
            figures: json!({
                "ratio": ratio,
                "engine_moved": engine,
                "floor_moved": bare,
                "engine": self.engine.to_json(),
                "engine_quiet": quiet.engine.to_json(),
                "floor": self.bare.to_json(),
                "floor_quiet": quiet.bare.to_json(),
            }),
        }
    }
}

/// What goes on around both sides, for as long as this lives.
enum Around {
    Nothing,
    Neighbour { _filler: Filler },
    Limit { _limit: MemoryLimit },
}

impl Around {
    fn begin(stage: &Stage<'_>, disturbance: Disturbance, dir: &Path) -> Result<Self, String> {
        let said = |error: std::io::Error| error.to_string();
        Ok(match disturbance {
            Disturbance::Nothing | Disturbance::CatchUp | Disturbance::Retention => Self::Nothing,
            Disturbance::Neighbour => {
                let bytes = stage.amount(4 << 30, 4 << 20);
                let filler = Filler::start(dir, bytes).map_err(said)?;
                thread::sleep(stage.amount(HEAD_START, Duration::ZERO));
                Self::Neighbour { _filler: filler }
            }
            Disturbance::MemoryLimit => {
                let limit = MemoryLimit::enter(LIMIT_BYTES)?;
                let bytes = stage.amount(LIMIT_BYTES + LIMIT_BYTES / 4, 1 << 20);
                memory_limit::fill(dir, bytes).map_err(said)?;
                Self::Limit { _limit: limit }
            }
        })
    }
}
