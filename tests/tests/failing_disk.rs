//! What a real broker makes of a disk that fails it. A shard whose log takes no more writes fails
//! alone, and what it acknowledged before is still made durable in the time that was promised. A
//! failure to write index files or a checkpoint, for which no record waits, fails nothing.
//!
//! Needs FUSE and the right to mount. Where they are not to be had the tests say so and prove
//! nothing; in CI and in a full run they fail then.
#![expect(
    clippy::disallowed_methods,
    reason = "a test owns its clock, and what a broker shows can only be asked for"
)]

use felix_tests::wire::Wire;
use felix_tests::{Broker, HeldDisk, Policy, Stream, eventually};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(20);
/// What Kafka says where a log failed.
const KAFKA_STORAGE_ERROR: i16 = 56;

/// The stream whose first shard meets the fault.
const TOPIC: &str = "failing.stream";
const SHARDS: u32 = 4;
const FIRST_LOG: &str = "00000000000000000000.log";

const SMALL_SEGMENTS: (&str, &str) = ("FELIX_DURABLE_SEGMENT_BYTES", "8388608");
/// Long enough that nothing is flushed by itself before the test is done with it.
const LONG_INTERVAL: (&str, &str) = ("FELIX_DURABLE_FSYNC_INTERVAL_MS", "60000");

/// The status of a broker that ended in order and could not close a log cleanly.
const NOT_CLOSED: i32 = 3;

/// Of these, nine fit a small segment.
static LARGE: [u8; 900_000] = [b'x'; 900_000];

/// A broker on a disk of the test's, with all that it serves on it, and a client of it.
fn begin(
    what: &str,
    policy: Policy,
    settings: &[(&'static str, &'static str)],
) -> Option<(HeldDisk, Broker, Wire)> {
    let disk = HeldDisk::mount_for(what)?;
    let streams = [Stream::new(TOPIC, SHARDS).flushed(policy)];
    let broker = Broker::start_on(&disk.path().join("data"), &streams, settings);
    let wire = Wire::connect(broker.port());
    Some((disk, broker, wire))
}

fn is_first_shard(path: &Path) -> bool {
    path.ends_with(format!("{TOPIC}-0"))
}

fn is_in_first_shard(path: &Path) -> bool {
    path.parent().is_some_and(is_first_shard)
}

/// Its segments, and those that are written to take their places; also one that was made ahead, which has
/// another name until the flush behind the roll.
fn is_log(path: &Path) -> bool {
    is_named(path, ".log") || is_named(path, ".next")
}

fn is_named(path: &Path, part: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    is_in_first_shard(path) && name.is_some_and(|name| name.contains(part))
}

fn unsynced(broker: &Broker) -> f64 {
    broker.metric("felix_storage_unsynced_bytes")
}

/// Writes to every shard but the first and reads it back.
fn others_go_on(wire: &mut Wire) {
    for partition in 1..i32::try_from(SHARDS).expect("few") {
        let (error, offset) = wire.produce(TOPIC, partition, b"goes on");
        assert_eq!(error, 0);
        let answer = wire.fetch(TOPIC, partition, offset, 0);
        let part = &answer.responses[0].partitions[0];
        assert_eq!((part.error_code, part.high_watermark), (0, offset + 1));
    }
}

/// The first shard's log ends there.
fn assert_end(wire: &mut Wire, end: i64) {
    let answer = wire.fetch(TOPIC, 0, 0, 0);
    let part = &answer.responses[0].partitions[0];
    assert_eq!((part.error_code, part.high_watermark), (0, end));
}

/// The first shard serves nothing, and is the only one.
fn assert_failed(broker: &Broker, wire: &mut Wire) {
    assert_eq!(wire.produce(TOPIC, 0, b"refused").0, KAFKA_STORAGE_ERROR);
    let answer = wire.fetch(TOPIC, 0, 0, 0);
    let part = &answer.responses[0].partitions[0];
    assert_eq!(part.error_code, KAFKA_STORAGE_ERROR);
    assert_eq!(broker.metric("felix_shard_failed"), 1.0);
}

/// What the numbers say of the first shard's failure.
fn told_failures(broker: &Broker) -> Vec<String> {
    let numbers = broker.metrics();
    let lines = numbers.page().lines();
    let lines = lines.filter(|line| line.starts_with("felix_shard_failure{"));
    lines.map(str::to_owned).collect()
}

/// The numbers name the first shard, and say that this could not be done.
fn assert_told(broker: &Broker, failed: &str) {
    let begins =
        format!("felix_shard_failure{{tenant=\"dev\",stream=\"{TOPIC}\",shard=\"0\",reason=\"");
    let told = told_failures(broker);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(&begins), "{told:?}");
    assert!(told[0].contains(failed), "{told:?}");
    assert!(told[0].contains("Input/output error"), "{told:?}");
    assert!(told[0].ends_with("\"} 1"), "{told:?}");
}

fn acknowledged(wire: &mut Wire, count: i64) {
    for offset in 0..count {
        assert_eq!(wire.produce(TOPIC, 0, b"acknowledged"), (0, offset));
    }
}

fn beneath(disk: &HeldDisk, broker: &Broker) -> PathBuf {
    let dir = broker.shard_dir(TOPIC, 0);
    let dir = dir.strip_prefix(disk.path()).expect("it lies on the disk");
    disk.backing().join(dir)
}

#[test]
fn what_a_periodic_shard_acknowledged_before_a_write_failed_is_flushed_within_the_interval() {
    let interval = ("FELIX_DURABLE_FSYNC_INTERVAL_MS", "3000");
    let Some((disk, mut broker, mut wire)) = begin(
        "the last flush of a periodic shard",
        Policy::Periodic,
        &[interval],
    ) else {
        return;
    };
    acknowledged(&mut wire, 5);
    let full = disk.fail_writes(is_log);
    assert_failed(&broker, &mut wire);
    let syncs = || broker.metric("felix_storage_sync_total");
    let (written, before) = (unsynced(&broker), syncs());
    assert!(written > 0.0, "what was acknowledged counts");
    let hold = disk.hold_flushes(is_log);
    hold.await_one(WAIT);
    others_go_on(&mut wire);
    assert!(unsynced(&broker) >= written, "not before it is flushed");
    drop(hold);
    eventually("everything is durable", || unsynced(&broker) == 0.0);
    assert!(syncs() > before);
    assert_eq!(broker.metric("felix_storage_sync_failures_total"), 0.0);
    assert_failed(&broker, &mut wire);
    others_go_on(&mut wire);

    assert_eq!(broker.terminate().code(), Some(NOT_CLOSED));
    drop(full);
    broker.start_again();
    let mut wire = Wire::connect(broker.port());
    assert_end(&mut wire, 5);
    assert_eq!(wire.produce(TOPIC, 0, b"again"), (0, 5));
}

#[test]
fn a_shard_without_an_interval_that_fails_after_a_roll_has_its_full_segment_flushed() {
    let Some((disk, mut broker, mut wire)) = begin(
        "the last flush of a shard without an interval",
        Policy::None,
        &[SMALL_SEGMENTS],
    ) else {
        return;
    };
    for offset in 0..9 {
        assert_eq!(wire.produce(TOPIC, 0, &LARGE), (0, offset));
    }
    let hold = disk.hold_flushes(is_log);
    // The next one needs a new file, which takes nothing.
    let full = disk.fail_writes(is_log);
    assert_eq!(wire.produce(TOPIC, 0, &LARGE).0, KAFKA_STORAGE_ERROR);
    let is_full_one = |path: &PathBuf| path.ends_with(FIRST_LOG);
    hold.await_held(WAIT, |held| held.iter().any(is_full_one));
    assert!(unsynced(&broker) > 0.0);
    others_go_on(&mut wire);
    drop(hold);
    eventually("only the others' records are not flushed", || {
        unsynced(&broker) < 900_000.0
    });
    assert_eq!(broker.terminate().code(), Some(NOT_CLOSED));
    drop(full);
    broker.start_again();
    assert_end(&mut Wire::connect(broker.port()), 9);
}

#[test]
fn appends_that_waited_for_a_commit_when_their_shard_failed_are_told_once_and_of_the_failure() {
    let Some((disk, broker, mut wire)) = begin(
        "the last flush of an on_commit shard",
        Policy::OnCommit,
        &[SMALL_SEGMENTS],
    ) else {
        return;
    };
    for offset in 0..9 {
        assert_eq!(wire.produce(TOPIC, 0, &LARGE), (0, offset));
    }
    let hold = disk.hold_own_flushes(is_log);
    wire.send_produce(TOPIC, 0, b"waits").expect("it is read");
    hold.await_one(WAIT);
    let full = disk.fail_writes(|path| is_log(path) && !path.ends_with(FIRST_LOG));
    wire.send_produce(TOPIC, 0, &LARGE).expect("it is read");
    assert_eq!(wire.receive_produce().0, KAFKA_STORAGE_ERROR);
    assert_eq!(wire.receive_produce().0, KAFKA_STORAGE_ERROR);
    assert!(full.count() >= 1);
    let commits = || broker.metric("felix_storage_sync_appends_total");
    let before = commits();
    assert!(unsynced(&broker) > 0.0);
    drop(hold);
    eventually("everything is durable", || unsynced(&broker) == 0.0);
    assert_eq!(commits(), before, "the flush acknowledged nothing");
    assert_failed(&broker, &mut wire);
    others_go_on(&mut wire);
}

#[test]
fn a_broker_that_ends_waits_for_the_last_flush_of_a_failed_shard_and_claims_nothing_more() {
    let Some((disk, mut broker, mut wire)) = begin(
        "the end of a broker with a failed shard",
        Policy::Periodic,
        &[LONG_INTERVAL],
    ) else {
        return;
    };
    acknowledged(&mut wire, 5);
    let full = disk.fail_writes(is_log);
    assert_failed(&broker, &mut wire);
    let files = beneath(&disk, &broker);
    let checkpoint = || std::fs::read(files.join("checkpoint")).expect("it is there");
    let before = checkpoint();
    let hold = disk.hold_flushes(is_log);
    let ended = broker.terminate_and(|_| {
        hold.await_one(WAIT);
        drop(hold);
    });
    assert_eq!(ended.code(), Some(NOT_CLOSED));
    let is_said = |log: &str| log.contains("could not be closed cleanly");
    let log = broker.logged(is_said);
    assert!(is_said(&log), "{log}");
    assert!(checkpoint() == before);
    assert!(files.join("failed").exists());
    drop(full);
    broker.start_again();
    let mut wire = Wire::connect(broker.port());
    assert_end(&mut wire, 5);
    assert_eq!(wire.produce(TOPIC, 0, b"again"), (0, 5));
    assert!(!files.join("failed").exists());
}

#[test]
fn a_flush_that_fails_while_the_broker_ends_is_told_of() {
    let Some((disk, mut broker, mut wire)) = begin(
        "a flush that fails at the end",
        Policy::None,
        &[SMALL_SEGMENTS],
    ) else {
        return;
    };
    for offset in 0..9 {
        assert_eq!(wire.produce(TOPIC, 0, &LARGE), (0, offset));
    }
    let is_full_one = |path: &Path| is_in_first_shard(path) && path.ends_with(FIRST_LOG);
    let hold = disk.hold_flushes(is_full_one);
    assert_eq!(wire.produce(TOPIC, 0, &LARGE), (0, 9));
    hold.await_one(WAIT);
    let mut broken = None;
    let ended = broker.terminate_and(|broker| {
        // Not before all cores are told to close their logs, or it would be one that failed before.
        eventually("the core without the flush has closed its logs", || {
            broker.metric("felix_shard_open") < f64::from(SHARDS)
        });
        // Space that was being prepared is flushed, too: this one or the next is of the batches.
        broken = Some(disk.fail_flushes(is_full_one));
        hold.fail();
    });
    assert!(broken.is_some());
    assert_eq!(ended.code(), Some(NOT_CLOSED));
}

#[test]
fn after_a_failed_flush_nothing_is_flushed_again_and_its_bytes_stay_counted() {
    let Some((disk, mut broker, mut wire)) =
        begin("no flush after a failed one", Policy::Periodic, &[])
    else {
        return;
    };
    let rewriting = disk.fail_flushes(is_log);
    let failing = disk.fail_flushes(|path| is_log(path) && path.ends_with(FIRST_LOG));
    assert_eq!(wire.produce(TOPIC, 0, b"acknowledged"), (0, 0));
    eventually("it failed", || broker.metric("felix_shard_failed") == 1.0);
    assert_failed(&broker, &mut wire);
    others_go_on(&mut wire);
    assert!(unsynced(&broker) > 0.0);
    rewriting.await_count(1, WAIT);
    assert_eq!(broker.terminate().code(), Some(NOT_CLOSED));
    assert_eq!(failing.count(), 1, "only a new file was tried");
}

fn eventually_open(broker: &Broker) {
    eventually("it is open again", || {
        broker.metric("felix_shard_failed") == 0.0
    });
    assert_eq!(broker.ready(), (200, "ok".to_owned()));
}

/// The leader epoch of the batch at an offset of the first shard, as it lies in the file.
fn leader_epoch(wire: &mut Wire, offset: i64) -> i32 {
    let answer = wire.fetch(TOPIC, 0, offset, 0);
    let records = answer.responses[0].partitions[0].records.clone();
    let bytes = records.expect("there is a batch there");
    i32::from_be_bytes(bytes[12..16].try_into().expect("four bytes"))
}

#[test]
fn a_shard_whose_flush_or_write_failed_is_opened_again_by_itself_from_files_of_their_own() {
    for writes in [false, true] {
        let Some((disk, mut broker, mut wire)) = begin(
            "a shard that is opened again by itself",
            Policy::Periodic,
            &[],
        ) else {
            return;
        };
        acknowledged(&mut wire, 5);
        let first = leader_epoch(&mut wire, 0);
        eventually("it is flushed", || unsynced(&broker) == 0.0);
        let segment = beneath(&disk, &broker).join(FIRST_LOG);
        let inode = || std::fs::metadata(&segment).expect("it is there").ino();
        let before = inode();
        let end = if writes {
            let failing = disk.fail_writes(is_log);
            assert_eq!(wire.produce(TOPIC, 0, b"refused").0, KAFKA_STORAGE_ERROR);
            assert_told(&broker, &format!("could not write {FIRST_LOG}"));
            drop(failing);
            5
        } else {
            let failing = disk.fail_flushes(is_log);
            assert_eq!(wire.produce(TOPIC, 0, b"acknowledged"), (0, 5));
            eventually("it failed", || broker.metric("felix_shard_failed") == 1.0);
            assert_told(&broker, &format!("could not flush {FIRST_LOG}"));
            drop(failing);
            6
        };
        others_go_on(&mut wire);
        assert_eq!(broker.metric("felix_shard_failures_total"), 1.0);
        eventually_open(&broker);
        assert_eq!(
            told_failures(&broker),
            [""; 0],
            "it has not failed any more"
        );
        assert_ne!(inode(), before, "bad places are not used again");
        assert_end(&mut wire, end);
        assert_eq!(wire.produce(TOPIC, 0, b"again"), (0, end));
        assert!(leader_epoch(&mut wire, end) > first, "clients see it");
        assert_eq!(leader_epoch(&mut wire, 0), first);
        assert_eq!(broker.metric("felix_shard_reopened_total"), 1.0);
        eventually("all is durable", || unsynced(&broker) == 0.0);
        assert!(broker.terminate().success(), "every log is closed");
        broker.start_again();
        assert_end(&mut Wire::connect(broker.port()), end + 1);
    }
}

#[test]
fn while_the_disk_goes_on_failing_the_page_says_why_and_each_attempt_is_told() {
    let Some((disk, mut broker, mut wire)) =
        begin("attempts to open a shard again", Policy::Periodic, &[])
    else {
        return;
    };
    let failing = disk.fail_flushes(is_log);
    assert_eq!(wire.produce(TOPIC, 0, b"acknowledged"), (0, 0));
    let failures = || broker.metric("felix_shard_reopen_failures_total");
    eventually("it is tried again", || failures() >= 2.0);
    assert_failed(&broker, &mut wire);
    others_go_on(&mut wire);
    let (status, page) = broker.ready();
    let begins = format!("ok\nfailed: dev/{TOPIC}-0: ");
    assert!(status == 200 && page.starts_with(&begins), "{page}");
    assert!(
        page.contains(&format!("could not flush {FIRST_LOG}")),
        "{page}"
    );
    assert!(page.contains("opened again in vain"), "{page}");
    let is_said = |log: &str| log.matches("could not be opened again").count() >= 2;
    let log = broker.logged(is_said);
    assert!(is_said(&log), "{log}");
    let beside = beneath(&disk, &broker);
    drop(failing);
    eventually_open(&broker);
    assert!(!beside.join("failed").exists());
    assert_end(&mut wire, 1);
}

/// Fills the first segment and begins the second, `offset` being the first to be written.
fn roll(wire: &mut Wire, offset: i64) {
    for offset in offset..offset + 10 {
        assert_eq!(wire.produce(TOPIC, 0, &LARGE), (0, offset));
    }
}

#[test]
fn a_shard_whose_index_files_cannot_be_written_goes_on_and_they_follow_when_they_can() {
    for policy in [Policy::Periodic, Policy::OnCommit] {
        let Some((disk, mut broker, mut wire)) = begin(
            "index files that cannot be written",
            policy,
            &[SMALL_SEGMENTS],
        ) else {
            return;
        };
        let begun = Instant::now();
        let full = disk.refuse_space(|path| is_named(path, ".index"));
        roll(&mut wire, 0);
        full.await_count(1, WAIT);
        let is_said = |log: &str| {
            let mut lines = log.lines();
            lines.any(|line| {
                line.contains("index files or a checkpoint cannot be written")
                    && line.contains(&format!("{TOPIC}-0"))
                    && line.contains("No space left")
            })
        };
        let log = broker.logged(is_said);
        assert!(is_said(&log), "{log}");
        // Each of these is flushed, and the attempts are no more for it.
        let mut end = 10;
        while begun.elapsed() < Duration::from_secs(3) {
            assert_eq!(wire.produce(TOPIC, 0, b"goes on"), (0, end));
            end += 1;
        }
        let failures = || broker.metric("felix_storage_index_write_failures_total");
        let attempts = full.count();
        assert!(attempts >= 2, "it is tried again");
        assert!(attempts <= begun.elapsed().as_secs() + 1, "{attempts}");
        eventually("all are counted", || failures() >= 2.0);
        assert_eq!(broker.metric("felix_shard_failed"), 0.0);
        others_go_on(&mut wire);

        drop(full);
        let index = beneath(&disk, &broker)
            .join(FIRST_LOG)
            .with_extension("index");
        eventually("the index files are written", || {
            assert_eq!(wire.produce(TOPIC, 0, b"goes on"), (0, end));
            end += 1;
            index.exists()
        });
        assert!(broker.terminate().success());
        let log = broker.log();
        assert!(!log.contains("could not be closed cleanly"), "{log}");
        assert!(!index.with_file_name("failed").exists());
        broker.start_again();
        assert_end(&mut Wire::connect(broker.port()), end);
    }
}

#[test]
fn a_log_whose_checkpoint_cannot_be_written_at_the_end_is_reported_and_recovered() {
    let Some((disk, mut broker, mut wire)) =
        begin("a checkpoint that cannot be written", Policy::Periodic, &[])
    else {
        return;
    };
    acknowledged(&mut wire, 5);
    others_go_on(&mut wire);
    let full = disk.refuse_space(|path| is_named(path, "checkpoint"));
    assert_eq!(broker.terminate().code(), Some(NOT_CLOSED));
    assert!(full.count() >= 1);
    let log = broker.log();
    let unclean = log.matches("could not be closed cleanly").count();
    assert_eq!(unclean, 1, "{log}");
    drop(full);
    broker.start_again();
    assert_eq!(broker.ready(), (200, "ok".to_owned()));
    let mut wire = Wire::connect(broker.port());
    assert_end(&mut wire, 5);
    assert_eq!(wire.produce(TOPIC, 0, b"again"), (0, 5));
}

#[test]
fn a_shard_whose_directory_cannot_be_synced_for_its_index_files_fails() {
    let Some((disk, broker, mut wire)) = begin(
        "a directory that cannot be synced",
        Policy::Periodic,
        &[SMALL_SEGMENTS],
    ) else {
        return;
    };
    let index = beneath(&disk, &broker)
        .join(FIRST_LOG)
        .with_extension("index");
    // The sync of the roll is the one before.
    let failing = disk.fail_dir_flushes(move |path| is_first_shard(path) && index.exists());
    roll(&mut wire, 0);
    failing.await_count(1, WAIT);
    eventually("it failed", || broker.metric("felix_shard_failed") == 1.0);
    assert_failed(&broker, &mut wire);
    others_go_on(&mut wire);
}
