//! A broker that comes back is the broker it was. After a clean stop and after kill -9, with
//! nothing new written, every client gets the same ends and the same records and none hangs: a
//! reader that follows a log must never wait for an offset no record will fill.

use felix_tests::{Broker, Policy, Process, Stream, kcat, python, within};
use std::time::Duration;

const STREAMS: [Stream; 3] = [
    Stream::new("restart.periodic", 3),
    Stream::new("restart.none", 3).flushed(Policy::None),
    Stream::new("restart.on_commit", 3).flushed(Policy::OnCommit),
];
const SOON: Duration = Duration::from_secs(30);
const TOPICS: [&str; 3] = ["restart.periodic", "restart.none", "restart.on_commit"];

/// What clients see of a topic: end offsets by kcat and by confluent-kafka, and all records.
fn seen(broker: &Broker, topic: &str) -> (String, String, Vec<felix_tests::Record>) {
    let bootstrap = broker.bootstrap();
    let ends: String = (0..3)
        .map(|partition| {
            let asked = format!("{topic}:{partition}:-1");
            kcat::output(&bootstrap, &["-Q", "-t", &asked])
        })
        .collect();
    let watermarks = python::run("watermarks.py", &[&bootstrap, topic], None).text();
    let mut records = kcat::read_all(&bootstrap, topic);
    records.sort_by_key(|record| (record.partition, record.offset));
    (ends, watermarks, records)
}

fn fill(broker: &Broker) {
    for topic in TOPICS {
        // Partition 2 stays empty: an end at zero must survive too.
        let lines: String = (0..500).map(|n| format!("{topic}-{n}\n")).collect();
        kcat::produce(&broker.bootstrap(), topic, 0, &lines);
        kcat::produce(&broker.bootstrap(), topic, 1, "only one\n");
    }
}

fn comes_back_the_same(stop: fn(&mut Broker)) {
    let mut broker = Broker::start(&STREAMS);
    fill(&broker);
    let before = TOPICS.map(|topic| seen(&broker, topic));
    assert_eq!(before[0].1, "0 0 500\n1 0 1\n2 0 0\n");
    for round in 0..3 {
        stop(&mut broker);
        broker.start_again();
        let after = TOPICS.map(|topic| seen(&broker, topic));
        assert_eq!(before, after, "round {round}");
    }
    // And it goes on where it was.
    kcat::produce(&broker.bootstrap(), TOPICS[0], 1, "and another\n");
    let bootstrap = broker.bootstrap();
    let all = kcat::read(&bootstrap, TOPICS[0], Some("1"), "beginning", r"%s\n");
    assert_eq!(all, "only one\nand another\n");
}

#[test]
fn after_a_clean_stop_clients_see_what_they_saw() {
    comes_back_the_same(|broker| assert_eq!(broker.terminate().code(), Some(0)));
}

#[test]
fn after_a_kill_clients_see_what_they_saw() {
    comes_back_the_same(Broker::kill);
}

#[test]
fn a_following_reader_does_not_hold_up_the_stop_and_goes_on_after_the_restart() {
    let mut broker = Broker::start(&STREAMS);
    fill(&broker);
    let args = [&*broker.bootstrap(), TOPICS[0], "1", "2"];
    let mut reader: Process = python::start("follow.py", &args, None);
    reader.wait_until("end of the partition", SOON, |stdout, _| {
        stdout == b"at the end\n"
    });
    kcat::produce(&broker.bootstrap(), TOPICS[0], 1, "before the restart\n");
    let status = within(Duration::from_secs(10), || broker.terminate());
    assert_eq!(status.code(), Some(0));
    broker.start_again();
    kcat::produce(&broker.bootstrap(), TOPICS[0], 1, "after the restart\n");
    let read = reader.finish(SOON).ok().text();
    assert_eq!(read, "at the end\nbefore the restart\nafter the restart\n");
}
