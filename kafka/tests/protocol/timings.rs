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

/// How many Produce requests were answered, and how long all of them took.
fn produced(bench: &Bench) -> (u64, u64) {
    let mut found = None;
    let now = bench.clock.monotonic();
    bench
        .context
        .metrics
        .distributions(now, &mut |distribution| {
            assert_eq!(distribution.name, "felix_kafka_produce_us");
            found = Some((distribution.values.count(), distribution.values.sum()));
        });
    found.unwrap()
}

#[test]
fn a_produce_is_timed_until_its_answer_is_in_line_and_nothing_else_is() {
    let mut bench = Bench::new();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    client.send(ApiKey::Metadata, 9, &all_topics());
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
    assert_eq!(produced(&bench), (0, 0));
    commits.raise();
    bench.turn();
    // acks=0 is not answered.
    assert_eq!(produced(&bench), (2, 7000 + 4000));
    send(&mut bench, 1);
    assert_eq!(produced(&bench), (3, 11_000));
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
        assert_eq!(stall.took, Duration::from_millis(2));
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
