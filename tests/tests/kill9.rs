//! kill -9 under load. Six producers write with acks=all to streams of all three policies; at a
//! moment a seed chooses, the broker is killed; it comes back, and everything is read. Every
//! record that was acknowledged, in this round or any before, is there once, at the offset its
//! producer was told, with its bytes; no record is there twice; and each producer's records lie
//! in the order in which it sent them.
//!
//! The page cache survives the kill, so this says nothing about what a power loss leaves. That
//! flushes are asked for before they are relied on is seen in the broker's system calls
//! (`flush_trace.rs`); that the device keeps what was flushed is taken on trust.

use felix_tests::{Broker, Policy, Process, Random, Stream, felix_log, kcat, kill_rounds, python};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const SHARDS: i32 = 2;
const STREAMS: [Stream; 3] = [
    Stream::new("kill.periodic", 2),
    Stream::new("kill.none", 2).flushed(Policy::None),
    Stream::new("kill.on_commit", 2).flushed(Policy::OnCommit),
];
const TOPICS: [&str; 3] = ["kill.periodic", "kill.none", "kill.on_commit"];
/// What the two producers of each topic do differently, from round to round.
const MANNERS: [[[&str; 2]; 2]; 3] = [
    [
        ["linger.ms=0", "compression.type=none"],
        ["linger.ms=5", "compression.type=lz4"],
    ],
    [
        ["linger.ms=0", "compression.type=snappy"],
        ["linger.ms=5", "compression.type=zstd"],
    ],
    [
        ["linger.ms=0", "compression.type=none"],
        ["linger.ms=5", "compression.type=gzip"],
    ],
];

/// Acknowledged records of one topic: value by partition and offset.
type Acknowledged = HashMap<(i32, i64), Vec<u8>>;

struct Producer {
    topic: usize,
    process: Process,
}

fn start_producers(broker: &Broker, round: usize) -> Vec<Producer> {
    let start = |topic: usize, manner: usize| {
        let name = format!("r{round}-t{topic}-m{manner}");
        let (bootstrap, shards) = (broker.bootstrap(), SHARDS.to_string());
        let args = [
            &[&*bootstrap, TOPICS[topic], &shards, &name],
            &MANNERS[round % MANNERS.len()][manner][..],
        ]
        .concat();
        Producer {
            topic,
            process: python::start("load.py", &args, None),
        }
    };
    (0..TOPICS.len())
        .flat_map(|t| (0..MANNERS[0].len()).map(move |m| (t, m)))
        .map(|(t, m)| start(t, m))
        .collect()
}

/// Adds what the producers were told; how many records.
fn collect(producers: Vec<Producer>, acknowledged: &mut [Acknowledged]) -> usize {
    let mut count = 0;
    for Producer { topic, process } in producers {
        let finished = process.finish(Duration::from_secs(90)).ok();
        for line in finished.text().lines() {
            let mut fields = line.splitn(3, ' ');
            let mut next = || fields.next().expect("partition, offset, value");
            let place = (number(next()), i64::from(number(next())));
            let twice = acknowledged[topic].insert(place, next().into());
            assert_eq!(
                twice, None,
                "{place:?} of {} was given to two records",
                TOPICS[topic]
            );
            count += 1;
        }
    }
    count
}

fn number(text: &str) -> i32 {
    text.parse()
        .unwrap_or_else(|_| panic!("no number: {text:?}"))
}

/// Producer and sequence of a value.
fn sender(value: &[u8]) -> (String, i32) {
    let text = String::from_utf8_lossy(value);
    let mut parts = text.split(':');
    let mut next = || parts.next().expect("a value is NAME:SEQUENCE:padding");
    (next().to_owned(), number(next()))
}

/// Checks one topic against everything that was acknowledged up to now.
fn check(broker: &Broker, topic: usize, acknowledged: &Acknowledged) {
    let name = TOPICS[topic];
    let mut values = HashSet::new();
    let mut last_offset = HashMap::new();
    let mut last_sequence = HashMap::new();
    let mut found = 0;
    for record in kcat::read_all(&broker.bootstrap(), name) {
        let (partition, offset) = (record.partition, record.offset);
        let earlier = last_offset.insert(partition, offset);
        assert!(
            earlier < Some(offset),
            "{name} [{partition}]: {offset} after {earlier:?}"
        );

        let (producer, sequence) = sender(&record.value);
        let earlier = last_sequence.insert((partition, producer.clone()), sequence);
        assert!(
            earlier < Some(sequence),
            "{name} [{partition}]: {producer} out of order"
        );
        assert!(
            values.insert(record.value.clone()),
            "{name}: {producer}:{sequence} is there twice"
        );

        if let Some(value) = acknowledged.get(&(partition, offset)) {
            assert!(
                *value == record.value,
                "{name} [{partition}] {offset}: other bytes"
            );
            found += 1;
        }
    }
    assert_eq!(
        found,
        acknowledged.len(),
        "{name}: acknowledged records are missing"
    );
}

#[test]
fn every_acknowledged_record_survives_kill_9_once_in_order_at_its_offset() {
    let mut random = Random::from_environment();
    let mut broker = Broker::start(&STREAMS);
    let mut acknowledged = vec![Acknowledged::new(); TOPICS.len()];
    for round in 0..kill_rounds() {
        let mut producers = start_producers(&broker, round);
        // All are at work, and one of them is at a moment nobody could have planned.
        for producer in &mut producers {
            let some = usize::try_from(random.within(1..40_000)).unwrap();
            let wait = Duration::from_secs(60);
            producer
                .process
                .wait_until("acknowledgements", wait, |out, _| out.len() > some);
        }
        broker.kill();
        let count = collect(producers, &mut acknowledged);
        eprintln!("round {round}: {count} records acknowledged before the kill");
        // What a kill leaves may be cut, and is never more than that.
        let faults = felix_log::faults(&broker.data_dir());
        let is_cut = |fault: &String| fault.contains("\"opening\":\"cut\"");
        assert!(faults.iter().all(is_cut), "{faults:#?}");
        broker.start_again();
        for (topic, acknowledged) in acknowledged.iter().enumerate() {
            check(&broker, topic, acknowledged);
        }
        // Nobody writes now, and the broker serves.
        let faults = felix_log::faults(&broker.data_dir());
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
