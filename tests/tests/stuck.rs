//! A shard whose device is stuck, on a real broker: nobody else waits for it, on its core or on
//! another, and it goes on by itself when the device does.
//!
//! Needs FUSE and the right to mount. Where they are not to be had the tests say so and prove
//! nothing; in CI and in a full run they fail then.

use felix_tests::wire::{Wire, expect_end};
use felix_tests::{Broker, HeldDisk, Policy, Stream};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(20);

/// The stream whose first shard gets stuck.
const STUCK: &str = "stuck.commit";
/// Enough shards that each core has several.
const COMMIT: &str = "fine.commit";
const PERIODIC: &str = "fine.periodic";
const SHARDS: u32 = 6;

fn streams() -> [Stream; 3] {
    [
        Stream::new(STUCK, SHARDS).flushed(Policy::OnCommit),
        Stream::new(COMMIT, SHARDS).flushed(Policy::OnCommit),
        Stream::new(PERIODIC, SHARDS),
    ]
}

fn is_first_shard(path: &Path) -> bool {
    path.ends_with(format!("{STUCK}-0"))
}

fn is_its_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
        && path.parent().is_some_and(is_first_shard)
}

/// Writes to every shard but the stuck one and reads it back, `rounds` times.
fn others_go_on(wire: &mut Wire, rounds: usize) {
    for _ in 0..rounds {
        for topic in [STUCK, COMMIT, PERIODIC] {
            for partition in 0..i32::try_from(SHARDS).expect("few") {
                if (topic, partition) == (STUCK, 0) {
                    continue;
                }
                let (error, offset) = wire.produce(topic, partition, b"goes on");
                assert_eq!(error, 0);
                let answer = wire.fetch(topic, partition, offset, 0);
                let part = &answer.responses[0].partitions[0];
                assert_eq!((part.error_code, part.high_watermark), (0, offset + 1));
            }
        }
    }
}

#[test]
fn while_one_flush_is_stuck_every_other_shard_commits_and_the_stuck_one_follows_when_it_can() {
    let Some(disk) = HeldDisk::mount_for("a stuck flush that nobody else waits for") else {
        return;
    };
    let mut broker = Broker::start_on(&disk.path().join("data"), &streams(), &[]);
    let mut stuck = Wire::connect(broker.port());
    assert_eq!(stuck.produce(STUCK, 0, b"before"), (0, 0));
    let hold = disk.hold_flushes(is_its_log);
    stuck.send_produce(STUCK, 0, b"held").expect("it is read");
    hold.await_one(WAIT);
    // Through each core, so that some hop and some do not.
    for core in 0..broker.cores() {
        others_go_on(&mut Wire::connect(broker.core_port(core)), 5);
    }
    assert_eq!(broker.metric("felix_storage_late_syncs"), 1.0);
    let is_said = |log: &str| {
        let mut lines = log.lines();
        lines.any(|line| line.contains("a flush takes long") && line.contains("stuck.commit-0"))
    };
    let log = broker.logged(is_said);
    assert!(is_said(&log), "{log}");
    stuck.assert_unanswered();
    // What is not durable is not shown, and a reader of the stuck shard waits no longer than it said.
    let mut reader = Wire::connect(broker.port());
    let answer = reader.fetch(STUCK, 0, 0, 10);
    assert_eq!(answer.responses[0].partitions[0].high_watermark, 1);
    drop(hold);
    assert_eq!(stuck.receive_produce(), (0, 1));
    for offset in 2..10 {
        assert_eq!(stuck.produce(STUCK, 0, b"again"), (0, offset));
    }
    assert_eq!(broker.metric("felix_storage_late_syncs"), 0.0);
}

#[test]
fn while_many_flushes_are_stuck_and_one_of_them_has_several_files_others_commit() {
    let Some(disk) = HeldDisk::mount_for("many stuck flushes that nobody else waits for") else {
        return;
    };
    let small = ("FELIX_DURABLE_SEGMENT_BYTES", "8388608");
    // Long enough that all is written before the first flush, also on a machine that is busy. One that
    // is held would hold up further writes: this file system locks the file for it.
    let rare = ("FELIX_DURABLE_FSYNC_INTERVAL_MS", "20000");
    // Nor does a round begin for what is not flushed.
    let soft = ("FELIX_DIRTY_BYTES_SOFT", "1073741824");
    let hard = ("FELIX_DIRTY_BYTES_HARD", "2147483648");
    let settings = [small, rare, soft, hard];
    let broker = Broker::start_on(&disk.path().join("data"), &streams(), &settings);
    // More than a segment for each, so that a flush has two files.
    let mut wire = Wire::connect(broker.port());
    let shards = i32::try_from(SHARDS).expect("few");
    let batch = vec![b'x'; 900_000];
    for partition in 0..shards {
        for offset in 0..10 {
            assert_eq!(wire.produce(PERIODIC, partition, &batch), (0, offset));
        }
    }
    let hold = disk.hold_own_flushes(|path| {
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        let dir = path.parent().and_then(Path::file_name);
        is_log && dir.is_some_and(|dir| dir.to_string_lossy().starts_with(PERIODIC))
    });
    // Each shard's, and both files of one. Not both of each: where several begin at once on a busy machine,
    // Linux 6.18 may have one wait, without a thread of its own, until the core asks for something else.
    let shards_held = |held: &[PathBuf]| {
        held.iter()
            .filter_map(|path| path.parent())
            .collect::<BTreeSet<_>>()
            .len()
    };
    let all = usize::try_from(SHARDS).expect("few");
    hold.await_held(2 * WAIT, |held| {
        shards_held(held) == all && held.len() > all
    });
    for core in 0..broker.cores() {
        let mut wire = Wire::connect(broker.core_port(core));
        for topic in [STUCK, COMMIT] {
            for partition in 0..shards {
                assert_eq!(wire.produce(topic, partition, b"goes on").0, 0);
            }
        }
    }
    drop(hold);
    for partition in 0..shards {
        assert_eq!(wire.produce(PERIODIC, partition, b"again"), (0, 10));
    }
}

#[test]
fn while_a_directory_cannot_be_synced_other_shards_roll_and_commit() {
    let Some(disk) = HeldDisk::mount_for("a stuck directory that nobody else waits for") else {
        return;
    };
    let small = ("FELIX_DURABLE_SEGMENT_BYTES", "8388608");
    let broker = Broker::start_on(&disk.path().join("data"), &streams(), &[small]);
    // Nine of them fit a segment.
    let batch = vec![b'x'; 900_000];
    let mut stuck = Wire::connect(broker.port());
    for offset in 0..9 {
        assert_eq!(stuck.produce(STUCK, 0, &batch), (0, offset));
    }
    let hold = disk.hold_dir_flushes(is_first_shard);
    // A file is made for the tenth, and its name has to be durable.
    stuck.send_produce(STUCK, 0, &batch).expect("it is read");
    hold.await_one(WAIT);
    let mut other = Wire::connect(broker.port());
    for partition in 0..i32::try_from(SHARDS).expect("few") {
        for _ in 0..10 {
            assert_eq!(other.produce(COMMIT, partition, &batch).0, 0);
        }
    }
    others_go_on(&mut other, 2);
    stuck.assert_unanswered();
    drop(hold);
    assert_eq!(stuck.receive_produce(), (0, 9));
    assert_eq!(stuck.produce(STUCK, 0, b"again"), (0, 10));
}

#[test]
fn a_broker_that_is_told_to_end_while_a_flush_is_stuck_answers_the_waiting_once_it_can() {
    let Some(disk) = HeldDisk::mount_for("the end of a broker while a flush is stuck") else {
        return;
    };
    let data = disk.path().join("data");
    let mut broker = Broker::start_on(&data, &streams(), &[]);
    let mut stuck = Wire::connect(broker.port());
    let hold = disk.hold_flushes(is_its_log);
    stuck.send_produce(STUCK, 0, b"held").expect("it is read");
    hold.await_one(WAIT);
    let mut other = Wire::connect(broker.port());
    others_go_on(&mut other, 1);
    let ended = broker.terminate_and(|_| {
        // Whoever awaits nothing is let go as soon as it begins to end.
        expect_end(other.socket());
        stuck.assert_unanswered();
        drop(hold);
        assert_eq!(stuck.receive_produce(), (0, 0));
    });
    assert!(ended.success());
    broker.start_again();
    let mut again = Wire::connect(broker.port());
    let answer = again.fetch(STUCK, 0, 0, 0);
    assert_eq!(answer.responses[0].partitions[0].high_watermark, 1);
}
