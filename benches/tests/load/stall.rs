//! A server that stalls is seen by all requests that would have come meanwhile.
//!
//! The theory: at an even rate over D seconds, one stall of S seconds delays the requests due in
//! it by S down to nothing. The fraction of requests that take longer than t is (S - t) / D, so
//! the quantile q lies at S - (1 - q) D. A client that waits for each answer sees the stall once.

use felix_bench::child;
use felix_bench::contest::{Floored, Load, Progress, Workload, compare};
use felix_bench::floor::{FloorKind, FloorSettings, Pause};
use felix_bench::found::{Comparison, Environment, Figure, Findings, Round};
use felix_bench::load::{Stop, Timing};
use std::path::Path;
use std::time::Duration;

const STALL: Duration = Duration::from_millis(100);
const RATE: f64 = 1_000.0;
const MEASURED: Duration = Duration::from_secs(5);

/// One turn against an echo that stalls once, in the middle.
fn stalled(load: &Load) -> Round {
    child::start_with(Path::new(env!("CARGO_BIN_EXE_felix-bench")));
    let stall = Pause {
        after: 2_500,
        ms: 100,
        is_repeated: false,
    };
    let settings = FloorSettings {
        pause: Some(stall),
        ..FloorSettings::default()
    };
    let mut echo = Floored::start("echo", FloorKind::Echo, &settings, 1).unwrap();
    let mut findings = Findings {
        command: Vec::new(),
        environment: Environment::default(),
        settings: Vec::new(),
        comparisons: Vec::new(),
        is_interrupted: false,
        problem: None,
    };
    let comparison = Comparison {
        name: "stalled".to_owned(),
        what: String::new(),
        figure: Figure::Latency,
        offered: load.rate,
        sides: Vec::new(),
    };
    let (stop, progress) = (Stop::default(), Progress::new(true));
    compare(
        &mut findings,
        comparison,
        load,
        &mut [&mut echo],
        1,
        &stop,
        &progress,
    )
    .unwrap();
    findings.comparisons[0].sides[0].rounds[0].clone()
}

fn load() -> Load {
    Load {
        rate: Some(RATE),
        timing: Timing::new(Duration::ZERO, MEASURED, Duration::from_secs(5)),
        ..Load::of(Workload::Produce)
    }
}

#[test]
fn a_stall_is_in_the_tail_where_the_theory_says() {
    let round = stalled(&load());
    let all = round.latencies.all();
    let ms = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64() * 1e3;
    assert_eq!(all.len(), 5_000);
    let (longest, p999) = (ms(all.max()), ms(all.value_at_quantile(0.999)));
    let stall = STALL.as_secs_f64() * 1e3;
    assert!(
        longest >= stall,
        "the longest took {longest} ms, less than the stall"
    );
    // Whatever else the machine does, it only makes latencies longer; measured from the longest,
    // the theory holds for any one stall.
    let theory = longest - 0.001 * MEASURED.as_secs_f64() * 1e3;
    assert!(
        (theory - 2.0..=longest).contains(&p999),
        "p99.9 is {p999} ms, by theory {theory}"
    );
    // Half of the stalled requests took longer than half of the stall.
    let late = all.count_between(50_000_000, u64::MAX);
    assert!(
        late >= 49,
        "{late} of 5,000 took 50 ms or more; by theory 50"
    );
}

#[test]
fn a_closed_loop_sees_the_same_stall_once() {
    let closed = Load {
        rate: None,
        in_flight_max: 1,
        ..load()
    };
    let all = stalled(&closed).latencies.all();
    // The machine may have been elsewhere now and then, but not as often as an open loop counts.
    let late = all.count_between(50_000_000, u64::MAX);
    assert!(
        (1..25).contains(&late),
        "{late} of {} took 50 ms or more",
        all.len()
    );
}
