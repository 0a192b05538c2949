//! kill -9 under load. Producers of three kinds, with every codec, write with acks=all to streams of
//! all three policies; at a moment a seed chooses, the broker is killed; it comes back, and
//! everything is read. Every record that was acknowledged, in this round or any before, is there
//! once, at the offset its producer was told, with its bytes; and each producer's records lie in the
//! order in which it sent them.
//!
//! Most producers, kcat among them, send each record once, and no record of theirs is there twice.
//! Two more (confluent-kafka and Apache Kafka's client for Java) outlive the kill and send again by
//! their own rules what was not answered: every record of theirs is acknowledged in the end, and
//! nothing of what they were told before the kill is lost or reordered. They are not idempotent, so
//! a record whose answer was lost may be there twice, but only behind its first copy.
//!
//! The page cache survives the kill, so this says nothing about what a power loss leaves. That
//! flushes are asked for before they are relied on is seen in the broker's system calls
//! (`flush_trace.rs`); that the device keeps what was flushed is taken on trust.

use felix_tests::{
    Broker, Policy, Process, Random, Record, SIGTERM, Stream, felix_log, java, kcat, kill_rounds,
    python,
};
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
/// Those of kcat and of the producers that send again, from round to round.
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// More than kcat gets rid of before the kill, mostly.
const KCAT_RECORDS: usize = 10_000;
/// Rounds after which another log begins, because each reads all of it.
const ROUNDS_OF_A_LOG: usize = 10;
/// How the names of producers begin that send again.
const AGAIN: &str = "again-";

/// Acknowledged records of one topic: value by partition and offset.
type Acknowledged = HashMap<(i32, i64), Vec<u8>>;

/// A producer at work.
struct Producer {
    kind: Kind,
    process: Process,
}

enum Kind {
    /// To one topic and partition; the values in their order.
    Kcat(usize, i32, Vec<String>),
    /// `load.py`, `again.py` or `Again.java`, which tell of each record in a line.
    Ours,
}

fn start_once(broker: &Broker, round: usize) -> Vec<Producer> {
    let bootstrap = broker.bootstrap();
    let mut producers = Vec::new();
    for (topic, full_name) in TOPICS.iter().enumerate() {
        for (number, manner) in MANNERS[round % MANNERS.len()].iter().enumerate() {
            let (name, shards) = (format!("r{round}-t{topic}-m{number}"), SHARDS.to_string());
            let args = [&[&*bootstrap, full_name, &shards, &name], &manner[..]].concat();
            producers.push(Producer {
                kind: Kind::Ours,
                process: python::start("load.py", &args, None),
            });
        }
        producers.push(start_kcat(&bootstrap, round, topic));
    }
    producers
}

fn start_again_and_again(broker: &Broker, round: usize, again: &java::Program) -> Vec<Producer> {
    let codec = |number: usize| format!("compression.type={}", CODECS[(round + number) % 5]);
    let (bootstrap, topics, shards) = (broker.bootstrap(), TOPICS.join(","), SHARDS.to_string());
    let names = ["python", "java"].map(|client| format!("{AGAIN}r{round}-{client}"));
    let codecs = [codec(0), codec(2)];
    let args = |number: usize| {
        let (name, codec) = (&*names[number], &*codecs[number]);
        let quick = "reconnect.backoff.max.ms=200";
        [
            &*bootstrap,
            &*shards,
            name,
            &*topics,
            codec,
            quick,
            "linger.ms=1",
        ]
    };
    let processes = [
        python::start("again.py", &args(0), None),
        again.start(&args(1)),
    ];
    let producers = processes.map(|process| Producer {
        kind: Kind::Ours,
        process,
    });
    producers.into()
}

fn start_kcat(bootstrap: &str, round: usize, topic: usize) -> Producer {
    let partition = i32::try_from(round).expect("rounds are few") % SHARDS;
    let value = |sequence: usize| {
        let padding = "x".repeat(sequence * 31 % 300);
        format!("r{round}-t{topic}-kcat:{sequence}:{padding}")
    };
    let values: Vec<String> = (0..KCAT_RECORDS).map(value).collect();
    let (codec, place) = (CODECS[(round + topic) % 5], partition.to_string());
    let mut args = vec!["-P", "-t", TOPICS[topic], "-p", &place, "-z", codec, "-vvv"];
    // In batches of a few records, so that it takes its time.
    for property in [
        "acks=all",
        "message.send.max.retries=0",
        "enable.idempotence=false",
        "batch.num.messages=3",
    ] {
        args.extend(["-X", property]);
    }
    Producer {
        process: kcat::start(bootstrap, &args, Some(values.join("\n").into_bytes())),
        kind: Kind::Kcat(topic, partition, values),
    }
}

impl Producer {
    /// Waits until it has told of so much.
    fn wait_until_told(&mut self, bytes: usize) {
        let wait = Duration::from_secs(60);
        let is_kcat = matches!(self.kind, Kind::Kcat(..));
        self.process
            .wait_until("acknowledgements", wait, |out, complaints| match is_kcat {
                true => String::from_utf8_lossy(complaints).contains(DELIVERED),
                false => out.len() > bytes,
            });
    }

    /// Waits for its end, and adds what it was told; how many records.
    fn collect(self, acknowledged: &mut [Acknowledged]) -> usize {
        let mut count = 0;
        let mut add = |topic: usize, place, value: &str| {
            let twice = acknowledged[topic].insert(place, value.into());
            let topic = TOPICS[topic];
            assert_eq!(twice, None, "{place:?} of {topic} was given to two records");
            count += 1;
        };
        let finished = self.process.finish(Duration::from_secs(90));
        match self.kind {
            Kind::Ours => {
                for line in finished.ok().text().lines() {
                    let (name, rest) = line.split_once(' ').expect("a topic comes first");
                    let topic = TOPICS.iter().position(|topic| *topic == name);
                    let (place, value) = told(rest);
                    add(topic.expect("it is one of ours"), place, value);
                }
            }
            // It ends with the broker, and complains. What it sends to one partition is answered in
            // its order.
            Kind::Kcat(topic, partition, values) => {
                let lines = finished.stderr.lines();
                let offsets = lines.filter_map(|line| {
                    let place = line.strip_prefix(DELIVERED)?;
                    let (place, offset) = place.split_once(" (offset ")?;
                    assert_eq!(number(place), partition);
                    Some(i64::from(number(offset.split_once(')')?.0)))
                });
                for (offset, value) in offsets.zip(&values) {
                    add(topic, (partition, offset), value);
                }
            }
        }
        count
    }
}

/// Adds what the producers were told; how many records.
fn collect(producers: Vec<Producer>, acknowledged: &mut [Acknowledged]) -> usize {
    let producers = producers.into_iter();
    let counts = producers.map(|producer| producer.collect(acknowledged));
    counts.sum()
}

/// How kcat tells of an acknowledged record.
const DELIVERED: &str = "% Message delivered to partition ";

/// Partition, offset, value.
fn told(line: &str) -> ((i32, i64), &str) {
    let mut fields = line.splitn(3, ' ');
    let mut next = || fields.next().expect("partition, offset, value");
    let place = (number(next()), i64::from(number(next())));
    (place, next())
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

/// What was seen of the records of one topic, up to some offset.
#[derive(Default)]
struct Seen {
    values: HashSet<Vec<u8>>,
    offsets: HashMap<i32, i64>,
    /// By partition and producer: the sequence of the last record that was there for the first
    /// time, and of the last that was acknowledged.
    first: HashMap<(i32, String), i32>,
    acknowledged: HashMap<(i32, String), i32>,
    copies: usize,
}

impl Seen {
    fn take(&mut self, record: &Record, acknowledged: &Acknowledged) {
        let (partition, offset) = (record.partition, record.offset);
        let earlier = self.offsets.insert(partition, offset);
        assert!(
            earlier < Some(offset),
            "[{partition}]: {offset} after {earlier:?}"
        );
        let (producer, sequence) = sender(&record.value);
        let what = format!("[{partition}] {offset}, {producer}:{sequence}");
        let told = acknowledged.get(&(partition, offset));
        assert!(
            told.is_none_or(|value| *value == record.value),
            "{what}: other bytes"
        );
        let stream = (partition, producer);
        if self.values.insert(record.value.clone()) {
            let earlier = self.first.insert(stream.clone(), sequence);
            assert!(earlier < Some(sequence), "{what} follows {earlier:?}");
        } else {
            assert!(stream.1.starts_with(AGAIN), "{what} is there twice");
            self.copies += 1;
        }
        if told.is_some() {
            let earlier = self.acknowledged.insert(stream, sequence);
            assert!(earlier < Some(sequence), "{what} follows {earlier:?}");
        }
    }
}

/// Checks one topic against everything that was acknowledged up to now; how many records are copies.
fn check(broker: &Broker, topic: usize, acknowledged: &Acknowledged) -> usize {
    let mut seen = Seen::default();
    let mut missing = acknowledged.len();
    for record in kcat::read_all(&broker.bootstrap(), TOPICS[topic]) {
        seen.take(&record, acknowledged);
        missing -= usize::from(acknowledged.contains_key(&(record.partition, record.offset)));
    }
    let topic = TOPICS[topic];
    assert_eq!(missing, 0, "{topic}: acknowledged records are missing");
    // Those who send again do so until they are told of it.
    let told: HashSet<&Vec<u8>> = acknowledged.values().collect();
    let mut theirs = seen
        .values
        .iter()
        .filter(|value| value.starts_with(AGAIN.as_bytes()));
    let untold = theirs.find(|value| !told.contains(value));
    assert_eq!(untold, None, "{topic}: there, and never acknowledged");
    seen.copies
}

/// Kills the broker under load, starts it again and reads everything.
#[expect(
    clippy::print_stderr,
    reason = "whoever runs a hundred of them waits for long"
)]
fn round(
    broker: &mut Broker,
    number: usize,
    again: &java::Program,
    random: &mut Random,
    acknowledged: &mut [Acknowledged],
) {
    // First, since the others do not wait for them.
    let mut later = start_again_and_again(broker, number, again);
    for producer in &mut later {
        producer.wait_until_told(0);
    }
    let mut once = start_once(broker, number);
    // All are at work, and one of them is at a moment nobody could have planned.
    for producer in &mut once {
        producer.wait_until_told(usize::try_from(random.within(1..40_000)).expect("it is small"));
    }
    broker.kill();
    let told_once = collect(once, acknowledged);
    // What a kill leaves may be cut, and is never more than that.
    let faults = felix_log::faults(&broker.data_dir());
    let is_cut = |fault: &String| fault.contains("\"opening\":\"cut\"");
    assert!(faults.iter().all(is_cut), "{faults:#?}");
    broker.start_again();
    for producer in &mut later {
        producer.process.signal(SIGTERM);
    }
    let told_later = collect(later, acknowledged);
    let topics = acknowledged.iter().enumerate();
    let copies: usize = topics.map(|(topic, told)| check(broker, topic, told)).sum();
    eprintln!(
        "round {number}: {told_once} records of those that send once, {told_later} of those that \
         send again; {copies} copies in this log up to now"
    );
    // Nobody writes now, and the broker serves.
    let faults = felix_log::faults(&broker.data_dir());
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_acknowledged_record_survives_kill_9_once_in_order_at_its_offset() {
    let mut random = Random::from_environment();
    let again = java::Program::compile("Again");
    let rounds: Vec<usize> = (0..kill_rounds()).collect();
    for rounds in rounds.chunks(ROUNDS_OF_A_LOG) {
        let mut broker = Broker::start(&STREAMS);
        let mut acknowledged = vec![Acknowledged::new(); TOPICS.len()];
        for number in rounds {
            round(&mut broker, *number, &again, &mut random, &mut acknowledged);
        }
    }
}
