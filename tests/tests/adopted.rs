//! A log that Apache Kafka wrote is taken over as it lies on its disk, for a shard that was not made
//! yet (`docs/operations.md`, "Logs that are not there"): readers get every record at its offset, and
//! writers go on behind it. In the place of a shard that was made it is refused.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use felix_tests::wire::Wire;
use felix_tests::{Apache, Broker, Record, Stream, dump_log, felix_log, kcat, python};
use std::fs;
use std::path::{Path, PathBuf};

const TOPIC: &str = "adopted.stream";
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// Of each codec.
const RECORDS: usize = 1000;
/// The least that Kafka takes, so that there are several segments.
const SEGMENT: &str = "segment.bytes=1048576";
const KAFKA_STORAGE_ERROR: i16 = 56;

/// About a kilobyte that no codec makes much smaller.
fn value(codec: usize, number: usize) -> String {
    let mut noise = codec * RECORDS + number;
    let mut value = format!("{codec}-{number}-");
    for _ in 0..90 {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        value += &format!("{:011x}", noise >> 20);
    }
    value
}

/// Fills a topic of Kafka's, by idempotent producers, with keys and in each codec.
fn fill(apache: &Apache) {
    drop(python::run(
        "create.py",
        &[&apache.plain(), TOPIC, SEGMENT],
        None,
    ));
    for (place, codec) in CODECS.into_iter().enumerate() {
        let lines: Vec<String> = (0..RECORDS)
            .map(|number| format!("key{}\t{}", number % 7, value(place, number)))
            .collect();
        let (batch, idempotent) = ("batch.num.messages=17", "enable.idempotence=true");
        let args = [
            "-P", "-t", TOPIC, "-p", "0", "-z", codec, "-K", "\t", "-X", batch, "-X", idempotent,
        ];
        let input = Some(lines.join("\n").into_bytes());
        drop(kcat::run(&apache.plain(), &args, input).ok());
    }
}

fn listed(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) -> Vec<String> {
    fs::create_dir(to).unwrap();
    for name in listed(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
    listed(to)
}

fn segments(names: &[String]) -> usize {
    names.iter().filter(|name| name.ends_with(".log")).count()
}

/// Everything in one partition.
fn read(broker: &Broker, partition: i32) -> Vec<Record> {
    let all = kcat::read_all(&broker.bootstrap(), TOPIC).into_iter();
    all.filter(|record| record.partition == partition).collect()
}

/// What the partition of that time, read from Felix, has to begin with.
fn at(time: i64, broker: &Broker) -> i64 {
    let query = format!("{TOPIC}:1:{time}");
    let listed = kcat::output(&broker.bootstrap(), &["-Q", "-t", &query]);
    let offset = listed.trim_end().rsplit(' ').next().unwrap();
    offset.parse().unwrap_or_else(|_| panic!("{listed}"))
}

/// A broker whose next start adds a shard, in whose place is what Kafka has of the topic; that place,
/// and the names of the files in it.
fn put_in_place(apache: &Apache) -> (Broker, PathBuf, Vec<String>) {
    // The stream's directory is there once one of its shards is.
    let mut broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    assert!(broker.terminate().success());
    let first = broker.shard_dir(TOPIC, 0);
    let shard = first.with_file_name(format!("{TOPIC}-1"));
    let names = copy(&apache.partition_dir(TOPIC, 0), &shard);
    broker.set_streams(&[Stream::new(TOPIC, 2).stamped_by_producers()]);
    (broker, shard, names)
}

#[test]
fn a_log_of_apache_kafka_is_served_whole_and_written_on() {
    let apache = Apache::start();
    fill(&apache);
    let theirs = kcat::read_all(&apache.plain(), TOPIC);
    let count = CODECS.len() * RECORDS;
    assert_eq!(theirs.len(), count);

    let (mut broker, shard, names) = put_in_place(&apache);
    assert!(segments(&names) >= 3, "{names:?}");
    for theirs in ["leader-epoch-checkpoint", "partition.metadata"] {
        assert!(names.iter().any(|name| name == theirs), "{names:?}");
    }
    broker.start_again();
    assert_eq!(broker.ready(), (200, "ok".to_owned()));
    assert_eq!(
        broker.metric("felix_storage_recovery_truncated_bytes_total"),
        0.0
    );
    // Producers follow from the batches: one for each codec.
    assert_eq!(broker.metric("felix_producer_known"), 5.0);
    let expected: Vec<Record> = theirs
        .into_iter()
        .map(|record| Record {
            partition: 1,
            ..record
        })
        .collect();
    assert!(read(&broker, 1) == expected);
    let middle = expected[count / 2].timestamp;
    let earliest = expected.iter().find(|record| record.timestamp >= middle);
    assert_eq!(at(middle, &broker), earliest.unwrap().offset);

    let end = i64::try_from(count).unwrap();
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 1, b"ours"), (0, end));
    for kill in [true, false] {
        if kill {
            broker.kill();
        } else {
            assert!(broker.terminate().success());
        }
        broker.start_again();
        let all = read(&broker, 1);
        assert!(all[..count] == expected);
        assert_eq!(all[count].value, b"ours");
        assert_eq!(all.len(), count + 1);
    }
    assert!(broker.terminate().success());
    // Both readers find all of it in order, with the indexes that were made anew.
    assert_eq!(felix_log::faults(&broker.data_dir()), [""; 0]);
    let mut files: Vec<_> = names.iter().filter(|name| name.ends_with("log")).collect();
    files.sort();
    let files: Vec<_> = files.into_iter().map(|name| shard.join(name)).collect();
    let dump = dump_log::run(&files, &["--deep-iteration", "--print-data-log"]);
    assert_eq!(dump.records().len(), count + 1);
}

#[test]
fn a_log_of_apache_kafka_in_the_place_of_a_shard_that_was_made_is_refused_and_left_alone() {
    let apache = Apache::start();
    fill(&apache);
    let mut broker = Broker::start(&[Stream::new(TOPIC, 2)]);
    assert!(broker.terminate().success());
    let shard = broker.shard_dir(TOPIC, 1);
    fs::remove_dir_all(&shard).unwrap();
    let names = copy(&apache.partition_dir(TOPIC, 0), &shard);
    broker.start_again();
    let (status, page) = broker.ready();
    assert_eq!(status, 200);
    assert!(page.contains(&format!("failed: dev/{TOPIC}-1: ")), "{page}");
    assert!(page.contains("its file checkpoint is missing"), "{page}");
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 1, b"refused").0, KAFKA_STORAGE_ERROR);
    assert_eq!(wire.produce(TOPIC, 0, b"served"), (0, 0));
    assert_eq!(listed(&shard), names);
}

/// Records of an aborted transaction used to be handed to readers.
#[test]
fn a_log_of_apache_kafka_with_transactions_is_refused_and_left_alone() {
    let apache = Apache::start();
    drop(python::run("create.py", &[&apache.plain(), TOPIC], None));
    drop(python::run("transact.py", &[&apache.plain(), TOPIC], None));
    let (mut broker, shard, names) = put_in_place(&apache);
    broker.start_again();
    let (status, page) = broker.ready();
    assert_eq!(status, 200);
    assert!(page.contains(&format!("failed: dev/{TOPIC}-1: ")), "{page}");
    assert!(
        page.contains("at byte 0: a batch is part of a transaction"),
        "{page}"
    );
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 1, b"refused").0, KAFKA_STORAGE_ERROR);
    assert_eq!(wire.produce(TOPIC, 0, b"served"), (0, 0));
    assert!(broker.terminate().success());
    assert_eq!(listed(&shard), names);
    let theirs = apache.partition_dir(TOPIC, 0);
    for name in names {
        let read = |dir: &Path| fs::read(dir.join(&name)).unwrap();
        assert!(read(&shard) == read(&theirs), "{name} was changed");
    }
}
