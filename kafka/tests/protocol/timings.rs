//! How long things take, and who holds the core, as the listener tells it.

use crate::bench::Bench;
use crate::metadata::all_topics;
use crate::produce::produce;
use felix_core::metrics::Metrics;
use felix_core::stalls::Work;
use felix_core::{Clock, Monotonic};
use kafka_protocol::messages::ApiKey;
use std::rc::Rc;
use std::time::Duration;

/// How many requests of an API were answered, and how long all of them took.
fn answered(bench: &Bench, api: &str) -> (u64, u64) {
    let mut found = None;
    let now = bench.clock.monotonic();
    bench
        .context
        .metrics
        .distributions(now, &mut |distribution| {
            assert_eq!(distribution.name, "felix_kafka_request_us");
            assert_eq!(distribution.labels[1], ("core", "0".to_owned()));
            if distribution.labels[0] == ("api", api.to_owned()) {
                found = Some((distribution.values.count(), distribution.values.sum()));
            }
        });
    found.unwrap()
}

#[test]
fn a_request_is_timed_until_its_answer_is_in_line() {
    let mut bench = Bench::new();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    let mut send = |bench: &mut Bench, acks| {
        let request = produce("default.clicks", 0, &["a"], acks);
        client.send(ApiKey::Produce, 9, &request);
        bench.turn();
    };
    send(&mut bench, -1);
    bench.wait(Duration::from_millis(3));
    send(&mut bench, 1);
    send(&mut bench, 0);
    bench.wait(Duration::from_millis(4));
    assert_eq!(answered(&bench, "Produce"), (0, 0));
    commits.raise();
    bench.turn();
    // acks=0 is not answered.
    assert_eq!(answered(&bench, "Produce"), (2, 7000 + 4000));
    send(&mut bench, 1);
    assert_eq!(answered(&bench, "Produce"), (3, 11_000));
    client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    assert_eq!(answered(&bench, "Metadata"), (1, 0));
    assert_eq!(answered(&bench, "Fetch"), (0, 0));
}

#[test]
fn requests_are_counted_by_version_and_errors_by_code() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    for version in [8, 9, 9] {
        client.send(ApiKey::Metadata, version, &all_topics());
        bench.turn();
    }
    for topic in ["no.such", "default.clicks", "no.such"] {
        client.send(ApiKey::Produce, 9, &produce(topic, 0, &["a"], -1));
        bench.turn();
    }
    let requests = |version| {
        let labels = [("api", "Metadata"), ("version", version)];
        bench.counted("felix_kafka_requests_total", &labels)
    };
    assert_eq!(
        [requests("8"), requests("9"), requests("10")],
        [1.0, 2.0, 0.0]
    );
    let errors = |labels: &[(&str, &str)]| bench.counted("felix_kafka_errors_total", labels);
    let unknown = [("api", "Produce"), ("code", "UNKNOWN_TOPIC_OR_PARTITION")];
    assert_eq!(errors(&unknown), 2.0);
    assert_eq!(errors(&[]), 2.0);
}

/// A clock on which every look takes two milliseconds.
struct Slow(Rc<std::cell::Cell<u64>>);

impl Clock for Slow {
    fn wall(&self) -> felix_core::Timestamp {
        felix_core::Timestamp(0)
    }

    fn monotonic(&self) -> Monotonic {
        self.0.set(self.0.get() + 2);
        Monotonic(Duration::from_millis(self.0.get()))
    }
}

#[test]
fn a_connection_that_holds_its_core_is_named_by_its_peer_and_what_it_asked_last() {
    let (report, reports) = std::sync::mpsc::channel();
    let clock = Slow(Rc::default());
    let mut bench = Bench::watched(Rc::new(clock), move |stall| {
        assert_eq!(stall.work, Work::Connection);
        assert!(stall.took >= Duration::from_millis(2));
        report.send(stall.name.to_owned()).unwrap();
    });
    let mut client = bench.connect();
    client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    let named: Vec<String> = reports.try_iter().collect();
    assert_eq!(
        named.first().unwrap(),
        "192.0.2.1:5555 last asked nothing yet"
    );
    assert_eq!(named.last().unwrap(), "192.0.2.1:5555 last asked Metadata");
}
