//! What a real broker makes of a disk that has no space: it refuses appends with a sentence, tears
//! and loses nothing, goes on serving readers, starts on the full disk, and takes appends again by
//! itself once there is space.
//!
//! Needs root, for file systems of its own. Where they are not to be had the tests say so and prove
//! nothing; in CI and in a full run they fail then.

use felix_tests::wire::{Wire, produce_request};
use felix_tests::{Broker, FileSystem, HeldDisk, Policy, SmallDisk, Stream, eventually};
use kafka_protocol::messages::ProduceRequest;
use std::path::Path;

const PERIODIC: &str = "full.periodic";
const ON_COMMIT: &str = "full.commit";
const NONE: &str = "full.none";
const TOPICS: [&str; 3] = [PERIODIC, ON_COMMIT, NONE];

/// What Kafka says where a log failed, or its disk is full.
const KAFKA_STORAGE_ERROR: i16 = 56;

/// The first version whose answers have sentences.
const TOLD_VERSION: i16 = 8;

const SMALL_SEGMENTS: (&str, &str) = ("FELIX_DURABLE_SEGMENT_BYTES", "8388608");

fn streams() -> [Stream; 3] {
    [
        Stream::new(PERIODIC, 1),
        Stream::new(ON_COMMIT, 1).flushed(Policy::OnCommit),
        Stream::new(NONE, 1).flushed(Policy::None),
    ]
}

/// A value that says which it is.
fn value(number: usize, bytes: usize) -> Vec<u8> {
    let mut value = format!("<{number}>").into_bytes();
    value.resize(bytes, b'x');
    value
}

/// What was acknowledged of each topic, in order: sizes of values that say which they are.
#[derive(Default)]
struct Acknowledged([Vec<usize>; 3]);

impl Acknowledged {
    /// Writes one value to each topic; how many were refused. Every one that was not has the offset
    /// owed: those that were refused took none.
    fn produce(&mut self, wire: &mut Wire, bytes: usize) -> usize {
        let mut refused = 0;
        for (topic, sizes) in TOPICS.into_iter().zip(&mut self.0) {
            let number = sizes.len();
            match wire.produce(topic, 0, &value(number, bytes)) {
                (0, offset) => {
                    assert_eq!(usize::try_from(offset), Ok(number), "{topic}");
                    sizes.push(bytes);
                }
                (KAFKA_STORAGE_ERROR, _) => refused += 1,
                (error, _) => panic!("{topic}: {error}"),
            }
        }
        refused
    }

    /// Reads everything back, as it was written and in order, and nothing else.
    fn check(&self, wire: &mut Wire) {
        for (topic, sizes) in TOPICS.into_iter().zip(&self.0) {
            let mut read = 0;
            while read < sizes.len() {
                let from = i64::try_from(read).expect("few");
                let answer = wire.fetch(topic, 0, from, 0);
                let part = &answer.responses[0].partitions[0];
                assert_eq!(part.error_code, 0, "{topic}");
                let end = i64::try_from(sizes.len()).expect("few");
                assert_eq!(part.high_watermark, end, "{topic}");
                let mut bytes = &part.records.as_ref().expect("there is more")[..];
                assert!(!bytes.is_empty(), "{topic} ends at {read}");
                while !bytes.is_empty() {
                    let length = u32::from_be_bytes(bytes[8..12].try_into().expect("four"));
                    let (batch, rest) =
                        bytes.split_at(12 + usize::try_from(length).expect("64 bits"));
                    let offset = i64::from_be_bytes(batch[..8].try_into().expect("eight"));
                    assert_eq!(usize::try_from(offset), Ok(read), "{topic}");
                    let expected = value(read, sizes[read]);
                    let found = batch.windows(expected.len()).any(|part| part == expected);
                    assert!(found, "{topic} has another value at {read}");
                    bytes = rest;
                    read += 1;
                }
            }
        }
    }
}

/// Error and sentence that an append is answered with.
fn told(wire: &mut Wire, topic: &'static str) -> (i16, String) {
    let records = felix_tests::wire::batch(b"told");
    let request = produce_request(topic, 0, records);
    wire.send(&request, TOLD_VERSION).expect("it is read");
    let answer = wire.receive::<ProduceRequest>(TOLD_VERSION);
    let place = &answer.responses[0].partition_responses[0];
    let sentence = place.error_message.as_ref();
    (
        place.error_code,
        sentence.map_or(String::new(), |text| text.to_string()),
    )
}

fn assert_full(broker: &Broker, wire: &mut Wire, data: &Path) {
    for topic in TOPICS {
        let (error, sentence) = told(wire, topic);
        assert_eq!(error, KAFKA_STORAGE_ERROR);
        let place = format!("the disk of {} ", data.display());
        assert!(sentence.contains(&place), "{sentence}");
        assert!(sentence.contains("bytes are free"), "{sentence}");
        assert!(sentence.contains("delete what is not needed"), "{sentence}");
    }
    assert_eq!(broker.metric("felix_storage_disk_full"), 1.0);
    assert!(broker.metric("felix_storage_refused_appends_total") >= 3.0);
    assert_eq!(broker.metric("felix_shard_failed"), 0.0);
    let (status, ready) = broker.ready();
    assert_eq!(status, 200);
    let lines: Vec<_> = ready.lines().collect();
    let told = format!("full: the disk of {} ", data.display());
    assert!(lines.len() == 2 && lines[1].starts_with(&told), "{ready}");
}

fn fills_and_goes_on(kind: FileSystem) {
    let Some(disk) = SmallDisk::mount_for("a disk that fills", kind, 64) else {
        return;
    };
    let data = disk.path().join("data");
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 20 << 20]).expect("there is room");
    let mut broker = Broker::start_on(&data, &streams(), &[SMALL_SEGMENTS]);
    let mut wire = Wire::connect(broker.port());
    let mut acknowledged = Acknowledged::default();
    let reserve = data.join("reserve");
    assert!(reserve.exists());
    while acknowledged.produce(&mut wire, 200_000) == 0 {}
    eventually("all are refused", || {
        acknowledged.produce(&mut wire, 1000) == TOPICS.len()
    });
    let left = disk.free_bytes();
    assert!(left > 1 << 20, "{left}: it is refused before there is none");
    assert_full(&broker, &mut wire, &data);
    acknowledged.check(&mut wire);

    // Somebody else takes the rest.
    disk.fill(0);
    assert_full(&broker, &mut wire, &data);
    acknowledged.check(&mut wire);
    broker.kill();
    // And what the killed one gave back.
    disk.fill(0);
    broker.start_again();
    // A full ext4 may still have a block for a small file; then the reserve is not needed.
    if kind == FileSystem::Tmpfs {
        assert!(!reserve.exists(), "the tables of the logs took its place");
    }
    for _ in 0..2 {
        let mut wire = Wire::connect(broker.port());
        assert_full(&broker, &mut wire, &data);
        acknowledged.check(&mut wire);
        assert!(broker.terminate().success(), "{}", broker.log());
        // All but what it has kept for its next start.
        disk.fill(0);
        broker.start_again();
    }
    let mut wire = Wire::connect(broker.port());
    acknowledged.check(&mut wire);

    // What somebody else took is given back, and some of what was there before.
    disk.make_room();
    std::fs::remove_file(&ballast).expect("it was written first");
    eventually("appends go on", || {
        acknowledged.produce(&mut wire, 1000) == 0
    });
    assert_eq!(broker.metric("felix_storage_disk_full"), 0.0);
    eventually("the reserve is there", || reserve.exists());
    acknowledged.check(&mut wire);
    assert!(broker.terminate().success());
}

#[test]
fn a_broker_on_a_full_ext4_refuses_appends_loses_nothing_and_goes_on_by_itself() {
    fills_and_goes_on(FileSystem::Ext4);
}

#[test]
fn a_broker_on_a_full_tmpfs_refuses_appends_loses_nothing_and_goes_on_by_itself() {
    fills_and_goes_on(FileSystem::Tmpfs);
}

#[test]
fn a_disk_that_somebody_else_fills_tears_nothing_and_takes_the_next_append_when_it_can() {
    let kinds = [FileSystem::Ext4, FileSystem::Tmpfs];
    for kind in kinds {
        let Some(disk) = SmallDisk::mount_for("a disk that somebody else fills", kind, 96) else {
            return;
        };
        let data = disk.path().join("data");
        let mut broker = Broker::start_on(&data, &streams(), &[SMALL_SEGMENTS]);
        let mut wire = Wire::connect(broker.port());
        let mut acknowledged = Acknowledged::default();
        for _ in 0..3 {
            assert_eq!(acknowledged.produce(&mut wire, 1000), 0);
        }
        for round in 0..3 {
            disk.fill(0);
            eventually("the disk takes no more", || {
                acknowledged.produce(&mut wire, 100_000) == TOPICS.len()
            });
            // What fits into space that is prepared is taken until each core has looked.
            eventually("all are refused", || {
                acknowledged.produce(&mut wire, 1000) == TOPICS.len()
            });
            assert_full(&broker, &mut wire, &data);
            acknowledged.check(&mut wire);
            disk.make_room();
            eventually("appends go on", || {
                acknowledged.produce(&mut wire, 1000) == 0
            });
            eventually("the reserve is there", || data.join("reserve").exists());
            if round == 1 {
                broker.kill();
                broker.start_again();
                wire = Wire::connect(broker.port());
            }
            acknowledged.check(&mut wire);
        }
        assert_eq!(
            broker.metric("felix_storage_recovery_truncated_bytes_total"),
            0.0
        );
        assert_eq!(broker.metric("felix_shard_failed"), 0.0);
        assert!(broker.terminate().success());
    }
}

#[test]
fn a_log_that_gets_no_space_is_as_it_was_and_the_others_go_on() {
    let Some(disk) = HeldDisk::mount_for("a log that gets no space") else {
        return;
    };
    let is_refused = |path: &Path| {
        let extension = path.extension();
        let is_log = extension.is_some_and(|extension| extension == "log");
        is_log && path.to_string_lossy().contains(PERIODIC)
    };
    let data = disk.path().join("data");
    let settings = [SMALL_SEGMENTS, ("FELIX_CORES", "0")];
    let mut broker = Broker::start_on(&data, &streams(), &settings);
    let mut wire = Wire::connect(broker.port());
    let mut acknowledged = Acknowledged::default();
    assert_eq!(acknowledged.produce(&mut wire, 1000), 0);
    let full = disk.refuse_space(is_refused);
    let (error, sentence) = told(&mut wire, PERIODIC);
    assert_eq!(error, KAFKA_STORAGE_ERROR);
    assert!(sentence.contains("is a quota used up"), "{sentence}");
    assert!(full.count() >= 1);
    for _ in 0..20 {
        let refused = acknowledged.produce(&mut wire, 1000);
        assert_eq!(refused, 1, "the others of the core go on");
    }
    drop(full);
    eventually("appends go on", || {
        acknowledged.produce(&mut wire, 1000) == 0
    });
    assert_eq!(broker.metric("felix_shard_failed"), 0.0);
    acknowledged.check(&mut wire);
    broker.kill();
    broker.start_again();
    acknowledged.check(&mut Wire::connect(broker.port()));
}

/// What every shard keeps, in seconds: long enough to fill a small disk in.
const KEPT: (&str, &str) = ("FELIX_DURABLE_RETENTION_SECONDS", "10");
const LOOKED_FOR: (&str, &str) = ("FELIX_DURABLE_RETENTION_INTERVAL_SECONDS", "1");

/// The log start had to be written down before anything was removed, and there was no space for that.
#[test]
fn retention_makes_space_on_a_disk_without_a_byte_left_and_appends_go_on() {
    for kind in [FileSystem::Ext4, FileSystem::Tmpfs] {
        let Some(disk) = SmallDisk::mount_for("retention on a full disk", kind, 64) else {
            return;
        };
        let data = disk.path().join("data");
        let stream = [Stream::new(ON_COMMIT, 1).flushed(Policy::OnCommit)];
        let settings = [SMALL_SEGMENTS, KEPT, LOOKED_FOR];
        let mut broker = Broker::start_on(&data, &stream, &settings);
        let mut wire = Wire::connect(broker.port());
        let large = value(0, 900_000);
        for offset in 0..30 {
            assert_eq!(wire.produce(ON_COMMIT, 0, &large), (0, offset));
        }
        // As where it was given up before, and somebody else has taken its place.
        std::fs::remove_file(data.join("reserve")).expect("it was made");
        disk.fill(0);
        let start = |wire: &mut Wire| {
            let answer = wire.fetch(ON_COMMIT, 0, 29, 0);
            answer.responses[0].partitions[0].log_start_offset
        };
        eventually("what is too old goes", || start(&mut wire) > 0);
        eventually("appends go on", || {
            wire.produce(ON_COMMIT, 0, b"there is space") == (0, 30)
        });
        assert_eq!(broker.metric("felix_shard_failed"), 0.0);
        let begins = start(&mut wire);
        broker.kill();
        broker.start_again();
        let mut wire = Wire::connect(broker.port());
        assert!(start(&mut wire) >= begins);
        assert_eq!(wire.produce(ON_COMMIT, 0, b"and more"), (0, 31));
        assert!(broker.terminate().success());
    }
}

/// An append whose flush has what could not be written tried again, where it is not refused.
fn append_more(wire: &mut Wire) {
    let (error, _) = wire.produce(ON_COMMIT, 0, b"more");
    assert!([0, KAFKA_STORAGE_ERROR].contains(&error), "{error}");
}

/// Where no index file is there yet whose space could be had, the reserve is what it is for.
#[test]
fn retention_that_has_no_space_for_its_first_checkpoint_gets_that_of_the_reserve() {
    let Some(disk) = HeldDisk::mount_for("retention without space for a checkpoint") else {
        return;
    };
    let data = disk.path().join("data");
    let stream = [Stream::new(ON_COMMIT, 1).flushed(Policy::OnCommit)];
    let kept = ("FELIX_DURABLE_RETENTION_BYTES", "8388608");
    let broker = Broker::start_on(&data, &stream, &[SMALL_SEGMENTS, kept]);
    let reserve = data.join("reserve");
    assert!(reserve.exists());
    let full = disk.refuse_space(|path| {
        let path = path.to_string_lossy();
        path.contains("index") || path.contains("checkpoint") || path.contains("producers")
    });
    let mut wire = Wire::connect(broker.port());
    let large = value(0, 900_000);
    for offset in 0..30 {
        eventually("it is taken", || {
            wire.produce(ON_COMMIT, 0, &large) == (0, offset)
        });
    }
    eventually("the reserve is given up", || {
        append_more(&mut wire);
        !reserve.exists()
    });
    assert_eq!(broker.metric("felix_shard_failed"), 0.0);
    drop(full);
    eventually("the log start moves", || {
        append_more(&mut wire);
        let answer = wire.fetch(ON_COMMIT, 0, 29, 0);
        answer.responses[0].partitions[0].log_start_offset > 0
    });
    eventually("the reserve is there", || reserve.exists());
}
