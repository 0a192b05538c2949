//! Findings of a known shape, as a run might leave them.

use felix_bench::found::{
    Comparison, Environment, Figure, Findings, Latencies, Round, Side, Usage,
};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// A name that would do harm if a browser took any of it for more than text.
pub(crate) const HOSTILE: &str = "<img src=x onerror=document.documentElement.dataset.harmed=1 x=>\
     <script>document.documentElement.dataset.harmed='yes'</script>";

const SLOT: Duration = Duration::from_millis(100);

/// How a side behaves.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Microseconds in the middle.
    pub(crate) base_us: f64,
    pub(crate) records_per_second: u32,
    pub(crate) seconds: u32,
    /// When the server stood still for 100 ms, if it did.
    pub(crate) stalled_at: Option<Duration>,
    pub(crate) has_usage: bool,
}

/// A run with a stall, stolen slots, three rates and a hostile name.
pub(crate) fn findings(rounds: u64) -> Findings {
    let sides = vec![
        side("echo", true, rounds, Shape::calm(60.0, 20_000, 4)),
        side("felix", false, rounds, Shape::calm(84.0, 20_000, 4)),
    ];
    let mut produce = comparison("produce_ack", Some(20_000.0), sides);
    stall(&mut produce.sides[1], 1);
    let mut end_to_end = comparison(
        HOSTILE,
        Some(5_000.0),
        vec![
            side("echo", true, rounds, Shape::calm(60.0, 5_000, 2)),
            side(HOSTILE, false, rounds, Shape::calm(120.0, 5_000, 2)),
        ],
    );
    let failing = &mut end_to_end.sides[1].rounds[0];
    failing.unanswered = 3;
    failing.errors.insert(HOSTILE.to_owned(), 2);
    let mut comparisons = vec![produce, end_to_end, fetch(rounds)];
    for (rate, slowed) in [(10_000, 1.0), (20_000, 1.1), (40_000, 9.0)] {
        comparisons.push(step(rate, slowed, rounds));
    }
    Findings {
        command: ["felix-bench", "race", "--quick", HOSTILE]
            .map(str::to_owned)
            .to_vec(),
        environment: Environment::look(Some(&std::env::temp_dir())),
        settings: [
            ("rate", "20000"),
            ("record size", "1024 bytes"),
            ("acks", "all"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        comparisons,
        is_interrupted: true,
        problem: None,
    }
}

impl Shape {
    fn calm(base_us: f64, records_per_second: u32, seconds: u32) -> Self {
        Self {
            base_us,
            records_per_second,
            seconds,
            stalled_at: None,
            has_usage: false,
        }
    }
}

fn comparison(name: &str, offered: Option<f64>, sides: Vec<Side>) -> Comparison {
    Comparison {
        name: name.to_owned(),
        what: "one record of 1 KiB a request, acks=all, both sides park".to_owned(),
        figure: Figure::Latency,
        offered,
        sides,
    }
}

fn side(name: &str, is_floor: bool, rounds: u64, shape: Shape) -> Side {
    let shape = Shape {
        has_usage: !is_floor,
        ..shape
    };
    Side {
        name: name.to_owned(),
        is_floor,
        rounds: (0..rounds).map(|seed| round(seed, shape)).collect(),
    }
}

/// Makes the server of that round stand still in its middle, and the host take time elsewhere.
fn stall(side: &mut Side, round_at: usize) {
    let at = Duration::from_millis(1_800);
    let stalled = Shape {
        stalled_at: Some(at),
        has_usage: true,
        ..Shape::calm(84.0, 20_000, 4)
    };
    let mut stalled = round(99, stalled);
    for slot in [5, 6, 30] {
        stalled.stolen[slot] = true;
    }
    stalled.stolen_percent = 0.4;
    side.rounds[round_at] = stalled;
}

fn step(rate: u32, slowed: f64, rounds: u64) -> Comparison {
    let mut felix = side("felix", false, rounds, Shape::calm(84.0 * slowed, rate, 1));
    if slowed > 2.0 {
        for round in &mut felix.rounds {
            round.records /= 2;
        }
    }
    let echo = side("echo", true, rounds, Shape::calm(60.0, rate, 1));
    let name = format!("produce@{rate}");
    comparison(&name, Some(f64::from(rate)), vec![echo, felix])
}

/// What is as fast as it goes has no latencies.
fn fetch(rounds: u64) -> Comparison {
    let side = |name: &str, is_floor, bytes: u64| {
        let shape = Shape::calm(1.0, 0, 1);
        let mut side = side(name, is_floor, rounds, shape);
        for (index, round) in (0..).zip(&mut side.rounds) {
            round.bytes = bytes + 10_000_000 * index;
            round.records = round.bytes / 1024;
        }
        side
    };
    Comparison {
        figure: Figure::Throughput,
        what: "everything that was written, read by one consumer".to_owned(),
        ..comparison(
            "fetch",
            None,
            vec![
                side("send", true, 2_400_000_000),
                side("felix", false, 1_900_000_000),
            ],
        )
    }
}

fn round(seed: u64, shape: Shape) -> Round {
    let lasted = Duration::from_secs(shape.seconds.into());
    let slots = usize::try_from(shape.seconds * 10).unwrap();
    let mut latencies = Latencies::new(SLOT, slots + 5);
    let mut lateness = Histogram::new(3).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let records = shape.records_per_second * shape.seconds;
    for record in 0..records {
        let began = lasted.mul_f64(f64::from(record) / f64::from(records));
        let mut took = Duration::from_secs_f64(shape.base_us * tail(&mut random) / 1e6);
        if let Some(stalled_at) = shape.stalled_at
            && (stalled_at..stalled_at + SLOT).contains(&began)
        {
            took += stalled_at + SLOT - began;
        }
        latencies.record(began, took);
        lateness.record(random.u64(100..900)).unwrap();
    }
    Round {
        lasted,
        latencies,
        lateness,
        operations: records.into(),
        records: records.into(),
        bytes: u64::from(records) * 1100,
        unanswered: 0,
        errors: BTreeMap::new(),
        stolen: vec![false; slots],
        stolen_percent: 0.0,
        usage: usage(&mut random, shape),
        client_busy: 0.41,
        client_waited: 0.0,
        client_awake: 0.0,
    }
}

/// Around one, and seldom several times that.
fn tail(random: &mut fastrand::Rng) -> f64 {
    let around: f64 = (0..6).map(|_| random.f64()).sum::<f64>() / 3.0 - 1.0;
    let usual = (0.5 * around).exp();
    match random.f64() {
        seldom if seldom < 0.0005 => usual * (3.0 + 6.0 * random.f64()),
        seldom if seldom < 0.02 => usual * (1.0 + random.f64()),
        _ => usual,
    }
}

fn usage(random: &mut fastrand::Rng, shape: Shape) -> Vec<Usage> {
    let slots = if shape.has_usage {
        shape.seconds * 10
    } else {
        0
    };
    let usage = (0..slots).map(|slot| {
        let at = SLOT * (slot + 1);
        let stands = shape
            .stalled_at
            .is_some_and(|stalled| (stalled..stalled + SLOT).contains(&(at - SLOT)));
        Usage {
            at,
            processors: if stands {
                0.02
            } else {
                0.55 + 0.1 * random.f64()
            },
            resident_bytes: (24 << 20) + u64::from(slot) * (64 << 10),
        }
    });
    usage.collect()
}
