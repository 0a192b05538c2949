//! The commands people type first, with the exact output they get: listing, reading from an
//! offset, from the end, from a moment in time, and into files.

use felix_tests::{Broker, Process, Record, SIGTERM, Stream, kcat, wall_ms};
use std::time::Duration;

const TOPIC: &str = "orders.created";
const SOON: Duration = Duration::from_secs(30);

/// One shard with the five records of the first transcript.
fn five_records() -> Broker {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let lines: String = (0..5).map(|n| format!("felix-record-{n}\n")).collect();
    kcat::produce(&broker.bootstrap(), TOPIC, 0, &lines);
    broker
}

/// A kcat that follows a topic and has said that it is at the end of each of its `partitions`.
fn follow(broker: &Broker, args: &[&str], partitions: usize) -> Process {
    let args = [&["-C", "-t", TOPIC, "-u"], args].concat();
    let mut process = kcat::start(&broker.bootstrap(), &args, None);
    process.wait_until("end of the topic", SOON, |_, stderr| {
        String::from_utf8_lossy(stderr)
            .matches("% Reached end of topic")
            .count()
            >= partitions
    });
    process
}

#[test]
fn five_records_are_listed_with_their_offsets() {
    let broker = five_records();
    assert_eq!(
        kcat::read(
            &broker.bootstrap(),
            TOPIC,
            Some("0"),
            "beginning",
            r"%o:%s\n"
        ),
        "0:felix-record-0\n1:felix-record-1\n2:felix-record-2\n3:felix-record-3\n4:felix-record-4\n"
    );
}

#[test]
fn reading_begins_at_the_offset_asked_for() {
    let broker = five_records();
    let args = ["-C", "-t", TOPIC, "-p", "0", "-o", "3", "-e", "-q"];
    assert_eq!(
        kcat::output(&broker.bootstrap(), &args),
        "felix-record-3\nfelix-record-4\n"
    );
}

#[test]
fn a_query_tells_the_end_and_the_beginning() {
    let broker = five_records();
    let query = |spec: &str| {
        let asked = format!("{TOPIC}:0:{spec}");
        kcat::output(&broker.bootstrap(), &["-Q", "-t", &asked])
    };
    assert_eq!(query("-1"), "orders.created [0] offset 5\n");
    assert_eq!(query("-2"), "orders.created [0] offset 0\n");
}

#[test]
fn a_negative_offset_counts_back_from_each_partitions_end() {
    let broker = Broker::start(&[Stream::new(TOPIC, 3)]);
    let bootstrap = broker.bootstrap();
    for (partition, count) in [(0, 25), (1, 12), (2, 4)] {
        let lines: String = (0..count).map(|n| format!("p{partition}-{n}\n")).collect();
        kcat::produce(&bootstrap, TOPIC, partition, &lines);
    }
    let output = kcat::read(&bootstrap, TOPIC, None, "-10", r"%p:%o:%s\n");
    let mut lines: Vec<&str> = output.lines().collect();
    // kcat mixes partitions as they arrive; within one the order is the log's.
    lines.sort_by_key(|line| line.as_bytes()[0]);
    let expected: Vec<String> = [(0, 15..25), (1, 2..12), (2, 0..4)]
        .into_iter()
        .flat_map(|(p, offsets)| offsets.map(move |o| format!("{p}:{o}:p{p}-{o}")))
        .collect();
    assert_eq!(lines, expected);
}

#[test]
fn reading_begins_at_a_moment_in_time() {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let bootstrap = broker.bootstrap();
    for batch in ["a1\na2\n", "b1\nb2\n", "c1\n"] {
        kcat::produce(&bootstrap, TOPIC, 0, batch);
    }
    let all = kcat::read_all(&bootstrap, TOPIC);
    let since = |timestamp: i64| {
        let from = format!("s@{timestamp}");
        kcat::output(&bootstrap, &["-C", "-t", TOPIC, "-o", &from, "-e", "-q"])
    };
    // Append times: the same within a batch, and later for each kcat that came later.
    let time = |n: usize| all[n].timestamp;
    assert!(time(0) == time(1) && time(1) < time(2) && time(2) == time(3) && time(3) < time(4));
    assert_eq!(since(0), "a1\na2\nb1\nb2\nc1\n");
    assert_eq!(since(time(2)), "b1\nb2\nc1\n");
    assert_eq!(since(time(2) + 1), "c1\n");
    assert_eq!(since(time(4) + 1), "", "nothing is that new");
}

#[test]
fn the_timestamp_shown_is_the_brokers_clock_in_milliseconds() {
    let before = wall_ms();
    let broker = five_records();
    let after = wall_ms();
    let format = r"%p:%o %T %s\n";
    let output = kcat::read(&broker.bootstrap(), TOPIC, None, "-10", format);
    for (n, line) in output.lines().enumerate() {
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(fields[0], format!("0:{n}"));
        let time: i64 = fields[1].parse().unwrap();
        assert!(
            (before..=after).contains(&time),
            "{before} <= {time} <= {after}"
        );
        assert_eq!(fields[2], format!("felix-record-{n}"));
    }
    assert_eq!(output.lines().count(), 5);
}

#[test]
fn a_reader_at_the_end_gets_new_records_and_only_those() {
    let broker = five_records();
    let mut reader = follow(&broker, &["-o", "end", "-f", r"%o:%s\n"], 1);
    kcat::produce(&broker.bootstrap(), TOPIC, 0, "fresh\n");
    reader.wait_until("the new record", SOON, |stdout, _| stdout.ends_with(b"\n"));
    assert_eq!(reader.stdout(), b"5:fresh\n");
    reader.signal(SIGTERM);
    assert!(reader.finish(SOON).status.success());
}

#[test]
fn one_record_per_line_goes_to_the_partition_asked_for_and_into_a_file() {
    let broker = Broker::start(&[Stream::new(TOPIC, 3)]);
    let bootstrap = broker.bootstrap();
    kcat::produce(&bootstrap, TOPIC, 0, "order-1\norder-2\n");
    kcat::produce(&bootstrap, TOPIC, 2, "order-3\n");
    let file = |partition: &str| {
        let format = r"%o\t%s\n";
        kcat::read(&bootstrap, TOPIC, Some(partition), "beginning", format)
    };
    assert_eq!(file("0"), "0\torder-1\n1\torder-2\n");
    assert_eq!(file("1"), "");
    assert_eq!(file("2"), "0\torder-3\n");
    let all = kcat::read(&bootstrap, TOPIC, None, "beginning", r"\n");
    assert_eq!(all.lines().count(), 3, "counted with wc -l");
}

#[test]
fn keys_headers_and_empty_and_null_values_are_kept() {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let bootstrap = broker.bootstrap();
    let produce = |args: &[&str], line: &str| {
        let args = [&["-P", "-t", TOPIC, "-p", "0"], args].concat();
        drop(kcat::run(&bootstrap, &args, Some(line.into())).ok());
    };
    produce(&["-K", ":", "-H", "trace=abc", "-H", "empty="], "k:v\n");
    produce(&["-K", ":"], ":no key text\n");
    produce(&["-K", ":", "-Z"], "tombstone:\n");
    let format = r"%K:%k|%h|%S:%s\n";
    assert_eq!(
        kcat::read(&bootstrap, TOPIC, None, "beginning", format),
        "1:k|trace=abc,empty=|1:v\n0:||11:no key text\n9:tombstone||-1:\n"
    );
}

#[test]
fn a_record_of_a_million_bytes_comes_back_whole_and_a_larger_one_is_refused() {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let bootstrap = broker.bootstrap();
    let million = "x".repeat(999_000);
    kcat::produce(&bootstrap, TOPIC, 0, &format!("{million}\n"));
    let read: Vec<Record> = kcat::read_all(&bootstrap, TOPIC);
    assert!(read.len() == 1 && read[0].value == million.as_bytes());
    // Over the client's own limit, so nothing of it reaches the broker.
    let larger = Some(format!("{million}{million}\n").into_bytes());
    let refused = kcat::run(&bootstrap, &["-P", "-t", TOPIC, "-p", "0"], larger);
    assert!(
        !refused.status.success() && refused.stderr.contains("too large"),
        "{refused:?}"
    );
}
