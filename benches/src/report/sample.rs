//! Findings for tests.

use crate::found::{Comparison, Figure, Findings, Latencies, Round, Side};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// A turn of ten slots of 100 ms with what began then and took so long.
pub(super) fn round(latencies: impl IntoIterator<Item = (Duration, Duration)>) -> Round {
    let mut found = Latencies::new(Duration::from_millis(100), 10);
    let mut operations = 0;
    for (began, took) in latencies {
        found.record(began, took);
        operations += 1;
    }
    Round {
        lasted: Duration::from_secs(1),
        latencies: found,
        lateness: Histogram::new(3).unwrap(),
        operations,
        records: operations,
        bytes: 1000 * operations,
        unanswered: 0,
        errors: BTreeMap::new(),
        stolen: vec![false; 10],
        stolen_percent: 0.0,
        usage: Vec::new(),
        client_busy: 0.2,
        client_waited: 0.0,
        client_awake: 0.0,
    }
}

/// A turn in which all began at the start.
pub(super) fn round_of(latencies: impl IntoIterator<Item = Duration>) -> Round {
    round(latencies.into_iter().map(|took| (Duration::ZERO, took)))
}

pub(super) fn side(name: &str, is_floor: bool, rounds: Vec<Round>) -> Side {
    Side {
        name: name.to_owned(),
        is_floor,
        rounds,
    }
}

pub(super) fn comparison(name: &str, sides: Vec<Side>) -> Comparison {
    Comparison {
        name: name.to_owned(),
        what: "one record a request".to_owned(),
        figure: Figure::Latency,
        offered: None,
        sides,
    }
}

pub(super) fn findings(comparisons: Vec<Comparison>) -> Findings {
    Findings {
        command: vec!["felix-bench".to_owned(), "race".to_owned()],
        environment: Default::default(),
        settings: vec![("rate".to_owned(), "20000".to_owned())],
        comparisons,
        is_interrupted: false,
        problem: None,
    }
}
