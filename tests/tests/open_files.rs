//! A real broker that may have few files open: it says how many shards fit, refuses to start where
//! they do not, and serves logs of many more files than it may have open.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use felix_tests::wire::Wire;
use felix_tests::{Broker, Policy, Stream, eventually, files};
use std::fs;

const TOPIC: &str = "few.files";
const KAFKA_STORAGE_ERROR: i16 = 56;
const SHARDS: u32 = 40;
/// Each has as many files of batches, and two of indexes beside.
const SEGMENTS: usize = 4;

/// Three nodes that clients see, with eight each.
const FEW_CONNECTIONS: (&str, &str) = ("FELIX_KAFKA_MAX_CONNECTIONS", "8");
const CONNECTIONS: u64 = 3 * 8;
/// The numbers below are those of the standard streams: no file whatever can be opened. A limit is on
/// the numbers of files, so one at the count of those open leaves what gaps there are among them.
const NONE: u64 = 3;
/// More than any test here has open.
const MANY: u64 = 1024;
/// As long as it takes for files to be closed for their age.
const SHORT_SEGMENTS: (&str, &str) = ("FELIX_DURABLE_SEGMENT_SECONDS", "1");

/// What `broker/src/probe.rs` reckons with: the process, two cores, connections, two files a shard.
const NEEDED: u64 = 256 + 2 * 24 + CONNECTIONS + 2 * SHARDS as u64;

fn partitions() -> std::ops::Range<i32> {
    0..i32::try_from(SHARDS).unwrap()
}

fn segments(broker: &Broker, partition: i32) -> usize {
    let dir = broker.shard_dir(TOPIC, partition.cast_unsigned());
    files(&dir, "log").len()
}

fn open_files(broker: &Broker) -> u64 {
    let open = fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap();
    open.count().try_into().unwrap()
}

#[test]
fn a_limit_of_open_files_that_does_not_fit_is_refused_and_one_that_does_serves_more_files() {
    let streams = [Stream::new(TOPIC, SHARDS).flushed(Policy::OnCommit)];
    let mut broker = Broker::start_with(&streams, &[FEW_CONNECTIONS, SHORT_SEGMENTS]);
    assert!(broker.terminate().success());

    broker.set_files_max(NEEDED - 1);
    let (status, log) = broker.refuses_to_start_again();
    assert_eq!(status.code(), Some(1), "{log}");
    for part in [
        format!("{} files may be open", NEEDED - 1),
        format!("needs {NEEDED}"),
        format!("ulimit -Hn {NEEDED}"),
        "lower FELIX_KAFKA_MAX_CONNECTIONS".to_owned(),
    ] {
        assert!(log.contains(&part), "no {part} in {log}");
    }

    broker.set_files_max(NEEDED);
    broker.start_again();
    let fits = format!("shards_that_fit={SHARDS}");
    let log = broker.logged(|log| log.contains(&fits));
    assert!(log.contains(&fits), "{log}");
    let mut wire = Wire::connect(broker.port());
    for round in 0..SEGMENTS {
        for partition in partitions() {
            let value = format!("{partition} {round}");
            let produced = wire.produce(TOPIC, partition, value.as_bytes());
            assert_eq!(produced, (0, i64::try_from(round).unwrap()));
        }
        eventually("every shard has begun another file", || {
            partitions().all(|partition| segments(&broker, partition) == round + 2)
        });
    }
    // Nothing of it is in memory after this, and each batch is in a file of its own.
    assert!(broker.terminate().success());
    broker.start_again();
    let count = u64::from(SHARDS) * u64::try_from(SEGMENTS).unwrap();
    assert!(count > 2 * u64::from(SHARDS), "more than it may have open");
    let mut wire = Wire::connect(broker.port());
    for _ in 0..2 {
        for round in 0..SEGMENTS {
            let offset = i64::try_from(round).unwrap();
            for partition in partitions() {
                let answer = wire.fetch(TOPIC, partition, offset, 0);
                let part = &answer.responses[0].partitions[0];
                assert_eq!(part.error_code, 0, "[{partition}] {round}");
                let records = part.records.clone().unwrap_or_default();
                let value = format!("{partition} {round}");
                assert!(
                    records
                        .windows(value.len())
                        .any(|found| found == value.as_bytes())
                );
            }
            let open = open_files(&broker);
            assert!(open <= NEEDED, "{open} of {NEEDED}");
            let of_logs = broker.metric("felix_storage_open_files");
            assert!(
                of_logs > 0.0 && of_logs <= f64::from(2 * SHARDS),
                "{of_logs}"
            );
        }
        for partition in partitions() {
            assert_eq!(wire.produce(TOPIC, partition, b"goes on").0, 0);
        }
    }
    assert_eq!(broker.metric("felix_shard_failed"), 0.0);
    assert_eq!(broker.metric("felix_storage_read_failures_total"), 0.0);
    assert!(broker.terminate().success());
}

/// Asks one partition for its first record; the error, or that it came.
fn first_error(wire: &mut Wire, partition: i32) -> i16 {
    wire.fetch(TOPIC, partition, 0, 0).responses[0].partitions[0].error_code
}

#[test]
fn while_no_file_can_be_opened_what_is_open_is_served_and_the_rest_is_when_there_are_more() {
    for policy in [Policy::OnCommit, Policy::Periodic] {
        let mut broker = Broker::start(&[Stream::new(TOPIC, SHARDS).flushed(policy)]);
        let mut wire = Wire::connect(broker.port());
        let (in_use, unused) = (0..5, 5..10);
        for partition in in_use.clone() {
            assert_eq!(wire.produce(TOPIC, partition, b"first"), (0, 0));
        }
        broker.limit_files(NONE);
        for offset in 1..20 {
            for partition in in_use.clone() {
                assert_eq!(wire.produce(TOPIC, partition, b"goes on"), (0, offset));
                assert_eq!(first_error(&mut wire, partition), 0);
            }
        }
        for partition in unused {
            let refused = wire.produce(TOPIC, partition, b"refused").0;
            assert_eq!(refused, KAFKA_STORAGE_ERROR);
        }
        let is_said = |log: &str| {
            let mut lines = log.lines();
            lines.any(|line| line.contains(" ERROR ") && line.contains("NOFILE"))
        };
        let log = broker.logged(is_said);
        assert!(is_said(&log), "{log}");
        // Nothing has to be looked after, and a question needs a file of its own.
        broker.limit_files(MANY);
        assert_eq!(broker.metric("felix_shard_failed"), 0.0);
        assert_eq!(broker.metric("felix_shard_failures_total"), 0.0);
        for partition in partitions() {
            let offset = if in_use.contains(&partition) { 20 } else { 0 };
            assert_eq!(wire.produce(TOPIC, partition, b"goes on"), (0, offset));
            assert_eq!(first_error(&mut wire, partition), 0);
        }
        assert!(broker.terminate().success());
    }
}

#[test]
fn reads_for_which_there_is_no_descriptor_take_none_from_shards_that_are_written_to() {
    let mut broker = Broker::start(&[Stream::new(TOPIC, SHARDS).flushed(Policy::Periodic)]);
    let mut wire = Wire::connect(broker.port());
    for partition in partitions() {
        assert_eq!(wire.produce(TOPIC, partition, b"first"), (0, 0));
    }
    // Nothing of it is in memory after this, and no file is open.
    assert!(broker.terminate().success());
    broker.start_again();
    let mut wire = Wire::connect(broker.port());
    let (in_use, unused) = (0..5, 5..10);
    for partition in in_use.clone() {
        assert_eq!(wire.produce(TOPIC, partition, b"goes on"), (0, 1));
    }
    eventually("nothing has to stay open for what it may lose", || {
        broker.metric("felix_storage_unsynced_bytes") == 0.0
    });
    broker.limit_files(NONE);
    for offset in 2..10 {
        for partition in unused.clone() {
            assert_eq!(first_error(&mut wire, partition), KAFKA_STORAGE_ERROR);
        }
        for partition in in_use.clone() {
            assert_eq!(wire.produce(TOPIC, partition, b"goes on"), (0, offset));
        }
    }
    broker.limit_files(MANY);
    for partition in partitions() {
        assert_eq!(first_error(&mut wire, partition), 0);
    }
    assert!(broker.terminate().success());
}

/// Lets the broker have no number for another file, unless it closes one of a log: numbers that are free
/// below those of logs are taken by connections, which are returned.
fn leave_no_number(broker: &Broker) -> Vec<Wire> {
    let mut fillers = Vec::new();
    loop {
        let open = fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap();
        let (mut taken, mut greatest) = (Vec::new(), 0);
        for file in open {
            let path = file.unwrap().path();
            let number: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            taken.push(number);
            if fs::read_link(&path).is_ok_and(|path| path.to_string_lossy().ends_with(".log")) {
                greatest = greatest.max(number);
            }
        }
        let free = (0..).find(|number| !taken.contains(number)).unwrap();
        if free > greatest {
            broker.limit_files(free);
            return fillers;
        }
        let mut filler = Wire::connect(broker.port());
        filler.metadata();
        fillers.push(filler);
    }
}

/// Writes one record, again where it was refused for want of a descriptor: a file is closed for whoever
/// tries again.
fn produce_again(wire: &mut Wire, partition: i32, value: &[u8]) -> i64 {
    for _ in 0..5 {
        match wire.produce(TOPIC, partition, value) {
            (0, offset) => return offset,
            (code, _) => assert_eq!(code, KAFKA_STORAGE_ERROR),
        }
    }
    panic!("no file gave way to [{partition}]");
}

#[test]
fn files_that_are_only_read_give_way_to_first_appends_and_to_rolls() {
    let streams = [Stream::new(TOPIC, SHARDS).flushed(Policy::OnCommit)];
    let settings = [("FELIX_DURABLE_SEGMENT_BYTES", "8388608")];
    let mut broker = Broker::start_with(&streams, &settings);
    let mut wire = Wire::connect(broker.port());
    for partition in partitions() {
        assert_eq!(wire.produce(TOPIC, partition, b"first"), (0, 0));
    }
    // Nothing of it is in memory after this, and no file is open.
    assert!(broker.terminate().success());
    broker.start_again();
    let mut wire = Wire::connect(broker.port());
    for partition in 10..40 {
        assert_eq!(first_error(&mut wire, partition), 0);
    }
    assert_eq!(broker.metric("felix_storage_open_files"), 30.0);
    let _fillers = leave_no_number(&broker);
    for partition in 0..10 {
        assert_eq!(produce_again(&mut wire, partition, b"goes on"), 1);
    }
    let _more_fillers = leave_no_number(&broker);
    let _more_fillers = leave_no_number(&broker);
    let large = [b'x'; 900_000];
    for offset in 2..22 {
        for partition in [0, 1] {
            assert_eq!(produce_again(&mut wire, partition, &large), offset);
        }
    }
    assert!(segments(&broker, 0) >= 3 && segments(&broker, 1) >= 3);
    broker.limit_files(MANY);
    assert_eq!(broker.metric("felix_shard_failures_total"), 0.0);
    let ahead = broker.metric("felix_storage_segment_roll_background_total");
    assert!(ahead >= 3.0, "{ahead} of the four rolls found their file");
    for partition in partitions() {
        assert_eq!(first_error(&mut wire, partition), 0);
    }
    assert!(broker.terminate().success());
}
