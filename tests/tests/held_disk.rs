//! A broker works on the disk that tests use to hold flushes and to make writes fail, as it does on
//! any other, and what the disk withholds is what the broker's clients wait for.
//!
//! Needs FUSE and the right to mount. Where they are not to be had the tests say so and prove
//! nothing; in CI and in a full run they fail then.

use felix_tests::wire::Wire;
use felix_tests::{Broker, HeldDisk, Policy, Stream};
use std::path::Path;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(20);
const TOPIC: &str = "held.commit";

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

fn is_log_of(path: &Path, shard: &str) -> bool {
    is_log(path) && path.parent().is_some_and(|dir| dir.ends_with(shard))
}

/// Bytes that a fetch from the beginning brings.
fn fetched(wire: &mut Wire, partition: i32) -> usize {
    let answer = wire.fetch(TOPIC, partition, 0, 1000);
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    partition
        .records
        .as_ref()
        .map_or(0, |records| records.len())
}

#[test]
fn a_broker_on_the_disk_keeps_what_it_acknowledged() {
    let Some(disk) = HeldDisk::mount_for("a broker on a disk of ours") else {
        return;
    };
    let streams = [Stream::new(TOPIC, 3).flushed(Policy::OnCommit)];
    let data = disk.path().join("data");
    let mut broker = Broker::start_on(&data, &streams, &[]);
    let mut wire = Wire::connect(broker.port());
    for offset in 0..20 {
        for partition in 0..3 {
            let produced = wire.produce(TOPIC, partition, &[b'x'; 3000]);
            assert_eq!(produced, (0, offset));
        }
    }
    let before: Vec<usize> = (0..3)
        .map(|partition| fetched(&mut wire, partition))
        .collect();
    assert!(before.iter().all(|bytes| *bytes > 20 * 3000), "{before:?}");
    broker.kill();
    broker.start_again();
    let mut wire = Wire::connect(broker.port());
    let after: Vec<usize> = (0..3)
        .map(|partition| fetched(&mut wire, partition))
        .collect();
    assert_eq!(before, after);
    assert_eq!(wire.produce(TOPIC, 0, b"more"), (0, 20));
    assert!(broker.terminate().success());
}

#[test]
fn an_answer_waits_for_the_flush_the_disk_holds_and_other_shards_go_on() {
    let Some(disk) = HeldDisk::mount_for("an answer that waits for a held flush") else {
        return;
    };
    let streams = [Stream::new(TOPIC, 2).flushed(Policy::OnCommit)];
    let broker = Broker::start_on(&disk.path().join("data"), &streams, &[]);
    let mut first = Wire::connect(broker.port());
    let mut second = Wire::connect(broker.port());
    assert_eq!(first.produce(TOPIC, 0, b"before"), (0, 0));
    let hold = disk.hold_flushes(|path| is_log_of(path, &format!("{TOPIC}-0")));
    first
        .send_produce(TOPIC, 0, b"held")
        .expect("the broker reads");
    let held = hold.await_one(WAIT);
    assert!(is_log(&held), "{}", held.display());
    for offset in 0..10 {
        assert_eq!(second.produce(TOPIC, 1, b"other"), (0, offset));
    }
    first.assert_unanswered();
    hold.release();
    assert_eq!(first.receive_produce(), (0, 1));
}

#[test]
fn a_broker_killed_during_a_held_flush_serves_what_it_acknowledged() {
    let Some(disk) = HeldDisk::mount_for("kill -9 during a held flush") else {
        return;
    };
    let streams = [Stream::new(TOPIC, 1).flushed(Policy::OnCommit)];
    let mut broker = Broker::start_on(&disk.path().join("data"), &streams, &[]);
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 0, b"before"), (0, 0));
    let acknowledged = fetched(&mut wire, 0);
    let hold = disk.hold_flushes(is_log);
    wire.send_produce(TOPIC, 0, b"held")
        .expect("the broker reads");
    hold.await_one(WAIT);
    broker.kill_and(|| hold.fail());
    drop(hold);
    broker.start_again();
    assert!(fetched(&mut Wire::connect(broker.port()), 0) >= acknowledged);
}

#[test]
fn a_failed_flush_is_not_acknowledged() {
    let Some(disk) = HeldDisk::mount_for("a failed flush") else {
        return;
    };
    let streams = [Stream::new(TOPIC, 2).flushed(Policy::OnCommit)];
    let broker = Broker::start_on(&disk.path().join("data"), &streams, &[]);
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 0, b"before"), (0, 0));
    let failing = disk.fail_flushes(|path| is_log_of(path, &format!("{TOPIC}-0")));
    let (error, _) = wire.produce(TOPIC, 0, b"lost");
    assert_ne!(error, 0);
    assert!(failing.count() >= 1);
    assert_eq!(wire.produce(TOPIC, 1, b"other"), (0, 0));
}

#[test]
fn a_full_disk_is_not_acknowledged() {
    let Some(disk) = HeldDisk::mount_for("a full disk") else {
        return;
    };
    let streams = [Stream::new(TOPIC, 2).flushed(Policy::OnCommit)];
    let broker = Broker::start_on(&disk.path().join("data"), &streams, &[]);
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 0, b"before"), (0, 0));
    let full = disk.refuse_space(|path| is_log_of(path, &format!("{TOPIC}-0")));
    let (error, _) = wire.produce(TOPIC, 0, b"lost");
    assert_ne!(error, 0);
    assert!(full.count() >= 1);
    assert_eq!(wire.produce(TOPIC, 1, b"other"), (0, 0));
}
