//! What is compared in a race, and under which load.

use super::Race;
use crate::contest::{Load, Workload};
use crate::floor::FloorKind;
use crate::found::Figure;
use crate::load::{Recipe, Timing, Waiting};
use std::time::Duration;

/// The names of all heats, in the order they are run. Others rely on them.
pub const HEATS: [&str; 5] = [
    "produce_ack",
    "end_to_end",
    "fetch",
    "on_commit",
    "produce_ack_spinning",
];

/// Answers are waited for so long after the end of a turn.
const GRACE: Duration = Duration::from_secs(5);
/// Samples of a turn whose tail is quoted.
const SAMPLES: f64 = 1_000_000.0;

/// A second, of those that sleep: rare enough that a client is asleep again before nearly every
/// answer, and each pays for waking it.
const PARKED_RATE: f64 = 4_000.0;
/// A second, of those that do not.
const SPINNING_RATE: f64 = 20_000.0;

const SIZES: &str = "one record of 1 KiB a request, acks=all, one connection";
const PARKED: &str = "broker, floor and client sleep when there is nothing to do";
const SPINNING: &str = "broker, floor and client ask again and again instead of sleeping";

/// One comparison.
pub(super) struct Heat {
    pub(super) name: &'static str,
    pub(super) what: String,
    pub(super) figure: Figure,
    pub(super) load: Load,
    /// The stream's.
    pub(super) durability: &'static str,
    pub(super) floors: &'static [FloorKind],
}

impl Heat {
    /// Those of a race.
    pub(super) fn all(race: &Race) -> Vec<Self> {
        let heats = [
            produce_ack,
            end_to_end,
            fetch,
            on_commit,
            produce_ack_spinning,
        ];
        let heats = heats.map(|heat| heat(race)).into_iter();
        let is_wanted =
            |heat: &Self| race.only.is_empty() || race.only.iter().any(|name| name == heat.name);
        heats.filter(is_wanted).collect()
    }

    /// Whether its floor is a write and flush.
    pub(super) fn is_flushed(&self) -> bool {
        self.durability == "on_commit"
    }
}

fn produce_ack(race: &Race) -> Heat {
    Heat {
        name: "produce_ack",
        what: format!(
            "from when a request is due to its acknowledgement; {SIZES}; {PARKED}; flushed every \
             50 ms"
        ),
        figure: Figure::Latency,
        load: paced(race, Workload::Produce, PARKED_RATE, 1.6),
        durability: "periodic",
        floors: floors(race),
    }
}

fn end_to_end(race: &Race) -> Heat {
    Heat {
        name: "end_to_end",
        what: format!(
            "from when a record is due to its arrival at a consumer that waits for it; {SIZES}; \
             {PARKED}; the floor sends the same bytes back"
        ),
        figure: Figure::Latency,
        load: paced(race, Workload::EndToEnd, PARKED_RATE, 1.6),
        durability: "periodic",
        floors: &[FloorKind::Echo],
    }
}

fn fetch(race: &Race) -> Heat {
    Heat {
        name: "fetch",
        what: "one consumer reads 256 MiB over and over, in batches of 63 records of 1 KiB; the \
               floor sends memory"
            .to_owned(),
        figure: Figure::Throughput,
        load: Load {
            recipe: Recipe {
                records: 63,
                ..Recipe::default()
            },
            timing: timing(race, 1.0, 10.0),
            cpus: vec![race.client_cpu],
            ..Load::of(Workload::Fetch)
        },
        durability: "periodic",
        floors: &[FloorKind::Send],
    }
}

fn on_commit(race: &Race) -> Heat {
    Heat {
        name: "on_commit",
        what: format!(
            "from when a request is due to its acknowledgement, which waits for the flush; \
             {SIZES}; {PARKED}; the floor writes the same batch into a prepared file and flushes, \
             without a network"
        ),
        figure: Figure::Latency,
        load: Load {
            timing: timing(race, 2.0, 30.0),
            ..paced(race, Workload::Produce, 500.0, 2.0)
        },
        durability: "on_commit",
        floors: &[],
    }
}

fn produce_ack_spinning(race: &Race) -> Heat {
    Heat {
        name: "produce_ack_spinning",
        what: format!(
            "from when a request is due to its acknowledgement; {SIZES}; {SPINNING}; flushed \
             every 50 ms"
        ),
        figure: Figure::Latency,
        load: Load {
            waiting: Waiting::Spinning,
            ..paced(race, Workload::Produce, SPINNING_RATE, 1.6)
        },
        durability: "periodic",
        floors: floors(race),
    }
}

fn floors(race: &Race) -> &'static [FloorKind] {
    match race.has_all_floors {
        true => &[FloorKind::Echo, FloorKind::LoopEcho, FloorKind::WriteEcho],
        false => &[FloorKind::Echo],
    }
}

/// Until there are as many samples as the tail takes, or quickly.
fn paced(race: &Race, workload: Workload, rate: f64, quick_s: f64) -> Load {
    Load {
        rate: Some(rate),
        timing: timing(race, quick_s, SAMPLES / rate),
        cpus: vec![race.client_cpu],
        ..Load::of(workload)
    }
}

fn timing(race: &Race, quick_s: f64, full_s: f64) -> Timing {
    let measured = match (race.turn, race.is_quick) {
        (Some(turn), _) => turn,
        (None, true) => Duration::from_secs_f64(quick_s),
        (None, false) => Duration::from_secs_f64(full_s),
    };
    let warm_up = (measured / 5).clamp(Duration::from_millis(300), Duration::from_secs(5));
    Timing::new(warm_up, measured, GRACE)
}
