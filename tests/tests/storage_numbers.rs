//! Each number that a real broker shows of its logs moves by what was done to them.
//!
//! Those of failures need FUSE and the right to mount. Where they are not to be had the tests say so
//! and prove nothing; in CI and in a full run they fail then.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use felix_tests::wire::Wire;
use felix_tests::{Broker, HeldDisk, Kept, Policy, Stream, eventually, files};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(20);
const TOPIC: &str = "numbers.stream";
const KAFKA_STORAGE_ERROR: i16 = 56;
const FIRST_LOG: &str = "00000000000000000000.log";

/// The smallest segments there are; nine of the values below fill one.
const SMALL_SEGMENTS: (&str, &str) = ("FELIX_DURABLE_SEGMENT_BYTES", "8388608");
/// The last value alone, so that others are read from files.
const SMALL_TAIL: (&str, &str) = ("FELIX_TAIL_CACHE_BYTES", "1048576");
static LARGE: [u8; 900_000] = [b'x'; 900_000];
const LARGE_BYTES: f64 = 900_000.0;

fn number(broker: &Broker, name: &str) -> f64 {
    broker.metric(&format!("felix_storage_{name}"))
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

fn is_next(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "next")
}

fn has_next(broker: &Broker) -> bool {
    !files(&broker.shard_dir(TOPIC, 0), "next").is_empty()
}

/// Writes so many large records, `from` being the first offset.
fn produce(wire: &mut Wire, from: i64, count: i64) {
    for offset in from..from + count {
        assert_eq!(wire.produce(TOPIC, 0, &LARGE), (0, offset));
    }
}

#[test]
fn what_is_written_flushed_rolled_and_read_is_counted() {
    let stream = Stream::new(TOPIC, 1).keeping(Kept::Unlimited, Kept::Unlimited);
    let broker = Broker::start_with(&[stream], &[SMALL_SEGMENTS, SMALL_TAIL]);
    let mut wire = Wire::connect(broker.port());
    for name in [
        "append_records_total",
        "segment_roll_total",
        "read_records_total",
    ] {
        assert_eq!(number(&broker, name), 0.0, "{name}");
    }
    assert_eq!(number(&broker, "segment_count"), 1.0);
    let mut end = 0;
    while number(&broker, "segment_roll_background_total") == 0.0 {
        produce(&mut wire, end, 1);
        end += 1;
        assert!(end < 200, "no roll found its file made");
    }
    let written: f64 = i32::try_from(end).unwrap().into();
    for name in [
        "append_batches_total",
        "append_records_total",
        "append_duration_seconds_count",
        "append_batch_records_count",
        "append_batch_records_sum",
    ] {
        assert_eq!(number(&broker, name), written, "{name}");
    }
    let bytes = number(&broker, "append_bytes_total") / written;
    assert!(
        bytes > LARGE_BYTES && bytes < LARGE_BYTES + 200.0,
        "{bytes}"
    );
    let rolls = number(&broker, "segment_roll_total");
    assert_eq!(rolls, f64::from((i32::try_from(end).unwrap() - 1) / 9));
    assert!(number(&broker, "segment_roll_background_total") <= rolls);
    assert_eq!(number(&broker, "segment_count"), rolls + 1.0);

    eventually("all of it is flushed", || {
        number(&broker, "unsynced_bytes") == 0.0
    });
    assert_eq!(number(&broker, "dirty_bytes"), 0.0);
    assert_eq!(number(&broker, "sync_batch_appends_sum"), written);
    let flushes = number(&broker, "sync_total");
    assert!(flushes >= 1.0);
    assert_eq!(number(&broker, "sync_duration_seconds_count"), flushes);
    assert!(number(&broker, "sync_rounds_total") >= 1.0);
    assert!(number(&broker, "sync_interval_seconds_count") >= 1.0);
    assert!(number(&broker, "sync_interval_us") > 0.0);
    assert!(number(&broker, "write_backs_total") >= 1.0);
    assert!(number(&broker, "preparations_total") >= 1.0);
    // The first of the log came before any was.
    let unprepared = number(&broker, "unprepared_appends_total");
    assert!(unprepared >= 1.0 && unprepared < written, "{unprepared}");
    assert!(number(&broker, "open_files") >= 1.0);
    assert!(number(&broker, "disk_free_bytes") > 0.0);
    reads(&broker, &mut wire);
}

fn reads(broker: &Broker, wire: &mut Wire) {
    let timed = number(broker, "read_duration_seconds_count");
    let seconds = number(broker, "read_duration_seconds_sum");
    for offset in 0..5 {
        let answer = wire.fetch(TOPIC, 0, offset, 0);
        let bytes = answer.responses[0].partitions[0].records.as_ref().unwrap();
        assert!(bytes.len() > LARGE.len());
    }
    assert_eq!(number(broker, "read_records_total"), 5.0);
    let bytes = number(broker, "read_bytes_total") / 5.0;
    assert!(
        bytes > LARGE_BYTES && bytes < LARGE_BYTES + 200.0,
        "{bytes}"
    );
    assert_eq!(number(broker, "read_duration_seconds_count"), timed + 5.0);
    assert!(number(broker, "read_duration_seconds_sum") > seconds);
}

#[test]
fn what_retention_lets_go_of_is_counted_and_what_it_cannot_remove_too() {
    let stream = Stream::new(TOPIC, 1).flushed(Policy::OnCommit);
    let stream = stream.keeping(Kept::For(8 << 20), Kept::Unlimited);
    let mut broker = Broker::start_with(&[stream], &[SMALL_SEGMENTS]);
    let mut wire = Wire::connect(broker.port());
    // 9 to a file: the first goes once the second is full and a third begun.
    produce(&mut wire, 0, 20);
    eventually("its file is gone", || {
        number(&broker, "retention_bytes_reclaimed_total") >= 9.0 * LARGE_BYTES
    });
    assert_eq!(number(&broker, "retention_segments_deleted_total"), 1.0);
    assert_eq!(number(&broker, "retention_base_offset"), 9.0);
    assert_eq!(number(&broker, "segment_count"), 2.0);
    assert_eq!(number(&broker, "retention_failures_total"), 0.0);
    // Nobody cuts a directory.
    let second = broker.shard_dir(TOPIC, 0).join(format!("{:020}.log", 9));
    fs::rename(&second, broker.data_dir().join("aside")).unwrap();
    fs::create_dir(&second).unwrap();
    produce(&mut wire, 20, 9);
    eventually("it cannot be removed", || {
        number(&broker, "retention_failures_total") >= 1.0
    });
    assert_eq!(number(&broker, "retention_base_offset"), 18.0);
    let name = second.file_name().unwrap().to_str().unwrap();
    let is_said = |log: &str| {
        let mut lines = log.lines();
        lines.any(|line| line.contains(" WARN ") && line.contains(name))
    };
    let log = broker.logged(is_said);
    assert!(is_said(&log), "{log}");
    assert_eq!(number(&broker, "retention_segments_deleted_total"), 2.0);
    assert_eq!(wire.produce(TOPIC, 0, b"goes on"), (0, 29));
}

#[test]
fn what_an_opening_finds_is_counted() {
    let stream = Stream::new(TOPIC, 1).flushed(Policy::OnCommit);
    let mut broker = Broker::start_with(&[stream], &[SMALL_SEGMENTS, SMALL_TAIL]);
    assert_eq!(number(&broker, "recovery_duration_seconds_count"), 1.0);
    assert_eq!(number(&broker, "recovery_index_rebuilds_total"), 0.0);
    let mut wire = Wire::connect(broker.port());
    produce(&mut wire, 0, 8);
    eventually("the next file is made", || has_next(&broker));
    broker.kill();
    broker.start_again();
    assert_eq!(number(&broker, "recovery_abandoned_rolls_total"), 1.0);
    assert_eq!(number(&broker, "recovery_duration_seconds_count"), 1.0);
    assert!(number(&broker, "recovery_duration_seconds_sum") > 0.0);
    let mut wire = Wire::connect(broker.port());
    produce(&mut wire, 8, 2);
    assert!(broker.terminate().success());
    let dir = broker.shard_dir(TOPIC, 0);
    for ending in ["index", "timeindex"] {
        fs::remove_file(dir.join(FIRST_LOG).with_extension(ending)).unwrap();
    }
    broker.start_again();
    assert_eq!(number(&broker, "recovery_index_rebuilds_total"), 2.0);
    assert_eq!(number(&broker, "recovery_abandoned_rolls_total"), 0.0);
    assert_eq!(number(&broker, "recovery_truncated_bytes_total"), 0.0);

    // Damage that only a reader meets.
    assert_eq!(number(&broker, "read_failures_total"), 0.0);
    let file = dir.join(FIRST_LOG);
    let mut bytes = fs::read(&file).unwrap();
    bytes[..61].fill(0);
    fs::write(&file, bytes).unwrap();
    let mut wire = Wire::connect(broker.port());
    let answer = wire.fetch(TOPIC, 0, 0, 0);
    let part = &answer.responses[0].partitions[0];
    assert_eq!(part.error_code, KAFKA_STORAGE_ERROR);
    assert_eq!(number(&broker, "read_failures_total"), 1.0);
}

/// A broker with one shard of which nothing is flushed by itself, on a disk of the test's.
fn unflushed(what: &str) -> Option<(HeldDisk, Broker, Wire)> {
    let disk = HeldDisk::mount_for(what)?;
    let streams = [Stream::new(TOPIC, 1).flushed(Policy::None)];
    let broker = Broker::start_on(&disk.path().join("data"), &streams, &[SMALL_SEGMENTS]);
    let wire = Wire::connect(broker.port());
    Some((disk, broker, wire))
}

#[test]
fn space_and_next_files_that_cannot_be_made_ahead_are_counted_and_appends_go_on() {
    let Some((disk, broker, mut wire)) = unflushed("space that cannot be prepared") else {
        return;
    };
    let failing = disk.fail_flushes(is_log);
    produce(&mut wire, 0, 1);
    failing.await_count(1, WAIT);
    eventually("it is counted", || {
        number(&broker, "preparation_failures_total") >= 1.0
    });
    drop(failing);
    let failing = disk.fail_writes(is_next);
    produce(&mut wire, 1, 7);
    // An append asks for it; after a failure none does for a second.
    let mut end = 8;
    eventually("it is tried", || {
        assert_eq!(wire.produce(TOPIC, 0, b"small"), (0, end));
        end += 1;
        number(&broker, "segment_roll_failed_total") >= 1.0
    });
    assert!(failing.count() >= 1);
    produce(&mut wire, end, 2);
    assert_eq!(number(&broker, "segment_roll_total"), 1.0);
    assert_eq!(number(&broker, "segment_roll_background_total"), 0.0);
    assert_eq!(broker.metric("felix_shard_failed"), 0.0);
}

#[test]
fn a_next_file_that_comes_when_its_shard_has_failed_is_counted() {
    let Some((disk, broker, mut wire)) = unflushed("a next file for a shard that has failed")
    else {
        return;
    };
    let hold = disk.hold_flushes(is_next);
    let mut end = 7;
    produce(&mut wire, 0, end);
    eventually("it is being made", || {
        assert_eq!(wire.produce(TOPIC, 0, b"small"), (0, end));
        end += 1;
        !disk.held().is_empty()
    });
    let failing = disk.fail_writes(is_log);
    assert_eq!(wire.produce(TOPIC, 0, b"refused").0, KAFKA_STORAGE_ERROR);
    hold.release();
    eventually("it is given up", || {
        number(&broker, "segment_roll_discarded_total") == 1.0
    });
    drop(failing);
}

#[test]
fn a_write_that_takes_long_is_counted() {
    let Some((disk, broker, mut wire)) = unflushed("a write that takes long") else {
        return;
    };
    let long = || number(&broker, "long_writes_total");
    let hold = disk.hold_flushes(is_log);
    // Space is prepared behind it, and while that is flushed the file is locked.
    produce(&mut wire, 0, 1);
    let held: PathBuf = hold.await_one(WAIT);
    assert!(held.ends_with(FIRST_LOG), "{}", held.display());
    // Not so large that it is written beside the core.
    let value = &LARGE[..200 << 10];
    wire.send_produce(TOPIC, 0, value).unwrap();
    eventually("its core waits in the kernel", || {
        broker.metric("felix_core_answers") < 2.0
    });
    hold.release();
    drop(hold);
    assert_eq!(wire.receive_produce(), (0, 1));
    eventually("every core answers", || {
        broker.metric("felix_core_answers") == 2.0
    });
    assert!(long() >= 1.0);
}
