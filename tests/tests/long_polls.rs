//! Ten thousand consumers that wait at the ends of their partitions cost memory, and nothing else until a
//! record comes.
#![expect(
    clippy::disallowed_methods,
    reason = "that nothing happens can only be seen by looking on for a while"
)]

use felix_tests::{Broker, Stream, eventually, wire::Wire, within};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;

const TOPIC: &str = "polls.many";
const PARTITIONS: i32 = 16;
const POLLS: usize = 10_000;
/// Beside the polls: whoever writes, and whoever asks for numbers.
const OTHERS: u64 = 200;
/// As long as the broker lets a fetch wait.
const WAIT_MS: i32 = 30_000;
/// How long nobody should do anything.
const QUIET: Duration = Duration::from_secs(3);
/// How often a core may wake in that time: timers, the prober and the question for its numbers.
const WAKES_MAX: f64 = 2000.0;
/// Memory of one connection with its poll, the kernel's not counted.
const BYTES_MAX: usize = 24 << 10;
const SETTINGS: [(&str, &str); 3] = [
    ("FELIX_KAFKA_MAX_CONNECTIONS", "10200"),
    ("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0"),
    // Each node may have as many connections, and the broker wants a descriptor for each.
    ("FELIX_KAFKA_CORE_PORTS", "false"),
];

/// Lets this process have a descriptor for each poll, or says why it cannot.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(POLLS).expect("few") + OTHERS;
    if let Some(maximum) = limit.maximum {
        assert!(maximum >= wanted, "this test needs ulimit -Hn {wanted}");
    }
    let raised = Rlimit {
        current: limit.maximum.or(Some(wanted)),
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit it is ours to choose");
}

#[test]
fn ten_thousand_long_polls_sleep_until_a_record_comes_and_all_of_them_get_it() {
    raise_descriptors();
    let streams = [Stream::new(TOPIC, u32::try_from(PARTITIONS).expect("few"))];
    let mut broker = Broker::start_with(&streams, &SETTINGS);
    let mut producer = Wire::connect(broker.port());
    for partition in 0..PARTITIONS {
        assert_eq!(producer.produce(TOPIC, partition, b"first"), (0, 0));
    }
    let empty = broker.resident_bytes();
    let partition_of = |poll: usize| i32::try_from(poll).expect("few") % PARTITIONS;
    let mut consumers: Vec<Wire> = within(Duration::from_secs(120), || {
        let connect = |poll| {
            let mut wire = Wire::connect(broker.port());
            let sent = wire.send_fetch(TOPIC, partition_of(poll), 1, WAIT_MS);
            sent.expect("the broker reads");
            wire
        };
        (0..POLLS).map(connect).collect()
    });
    eventually("all of them wait", || {
        broker.metric("felix_shard_waiting_fetches") == 10_000.0
    });
    let bytes = broker.resident_bytes().saturating_sub(empty) / POLLS;
    assert!(bytes <= BYTES_MAX, "a poll takes {bytes} bytes");

    let wakes = || broker.metric("felix_net_polls_total");
    let before = wakes();
    std::thread::sleep(QUIET);
    let woken = wakes() - before;
    assert!(woken < WAKES_MAX, "cores woke {woken} times for nobody");
    assert_eq!(broker.metric("felix_shard_waiting_fetches"), 10_000.0);

    for partition in 0..PARTITIONS {
        assert_eq!(producer.produce(TOPIC, partition, b"comes"), (0, 1));
    }
    for consumer in &mut consumers {
        let answer = consumer.receive_fetch();
        let part = &answer.responses[0].partitions[0];
        assert_eq!((part.error_code, part.high_watermark), (0, 2));
        let records = part.records.clone().expect("there is one");
        assert!(records.windows(5).any(|found| found == b"comes"));
    }
    assert_eq!(broker.metric("felix_shard_waiting_fetches"), 0.0);
    drop(consumers);
    eventually("they are forgotten", || {
        broker.metric("felix_kafka_connections") == 1.0
            && broker.metric("felix_shard_watches") == 0.0
    });
    assert!(broker.terminate().success());
}
