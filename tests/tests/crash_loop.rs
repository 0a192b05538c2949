//! A shard that takes the broker down with it, time and again: each crash names it, and then the
//! broker goes on without it until somebody has looked.
//!
//! The panic is one that a build with debug assertions makes where it is told to; a release build
//! cannot be told, so there is nothing of this to be tested there.
#![cfg(debug_assertions)]

use felix_tests::wire::Wire;
use felix_tests::{Broker, Policy, Stream, eventually};
use std::fs;
use std::os::unix::process::ExitStatusExt;

const TOPIC: &str = "crash.loop";
const SHARDS: i32 = 4;
/// The shard that crashes.
const SICK: i32 = 1;

const STUMBLE_OVER: &str = "FELIX_TESTS_STUMBLE_OVER";
const KAFKA_STORAGE_ERROR: i16 = 56;
const SIGABRT: i32 = 6;

fn streams() -> [Stream; 1] {
    [Stream::new(TOPIC, 4).flushed(Policy::OnCommit)]
}

fn error_of_fetch(wire: &mut Wire, shard: i32) -> i16 {
    wire.fetch(TOPIC, shard, 0, 100).responses[0].partitions[0].error_code
}

/// Every shard but the sick one takes a record, which has the offset owed, and is read.
fn assert_others_serve(broker: &Broker, offset: i64) {
    let mut wire = Wire::connect(broker.port());
    for shard in (0..SHARDS).filter(|shard| *shard != SICK) {
        assert_eq!(wire.produce(TOPIC, shard, b"goes on"), (0, offset));
        assert_eq!(error_of_fetch(&mut wire, shard), 0);
    }
}

/// An append to the sick shard ends the broker, which says whose fault it was.
fn crash(broker: &mut Broker) {
    let mut wire = Wire::connect(broker.port());
    assert_eq!(
        error_of_fetch(&mut wire, SICK),
        0,
        "it is served up to there"
    );
    wire.send_produce(TOPIC, SICK, b"poison")
        .expect("it is read");
    let status = broker.await_end();
    assert_eq!(status.signal(), Some(SIGABRT), "{status}");
    let said = broker.log();
    let dir = broker.shard_dir(TOPIC, 1);
    let named = format!(
        ", at work for shard dev/{TOPIC}-{SICK} in {}: panicked",
        dir.display()
    );
    let line = said
        .lines()
        .find(|line| line.contains("felix-broker: panic on felix-core-"));
    assert!(line.is_some_and(|line| line.contains(&named)), "{said}");
}

#[test]
fn a_shard_that_crashes_the_broker_three_times_is_left_out_until_its_notes_are_removed() {
    let mut broker = Broker::start(&streams());
    let mut wire = Wire::connect(broker.port());
    for shard in 0..SHARDS {
        assert_eq!(wire.produce(TOPIC, shard, b"before"), (0, 0));
    }
    assert!(broker.terminate().success());
    broker.set(STUMBLE_OVER, Some("dev/crash.loop-1"));
    for offset in 1..=3 {
        broker.start_again();
        assert_eq!(broker.ready(), (200, "ok".to_owned()));
        assert_others_serve(&broker, offset);
        crash(&mut broker);
    }

    let notes = broker.shard_dir(TOPIC, 1).join("crashes");
    for offset in 4..=5 {
        broker.start_again();
        let (status, ready) = broker.ready();
        assert_eq!(status, 200);
        let mut lines = ready.lines();
        assert_eq!(lines.next(), Some("ok"));
        let line = lines.next().unwrap_or_default();
        assert!(
            line.starts_with(&format!("failed: dev/{TOPIC}-{SICK}: ")),
            "{ready}"
        );
        assert!(
            line.contains(&format!("remove {} ", notes.display())),
            "{ready}"
        );
        assert_eq!(lines.next(), None, "{ready}");
        let mut wire = Wire::connect(broker.port());
        assert_eq!(wire.produce(TOPIC, SICK, b"poison").0, KAFKA_STORAGE_ERROR);
        assert_eq!(error_of_fetch(&mut wire, SICK), KAFKA_STORAGE_ERROR);
        assert_others_serve(&broker, offset);
        assert!(broker.terminate().success());
    }

    // Its cause is gone.
    broker.set(STUMBLE_OVER, None);
    broker.start_again();
    assert!(broker.ready().1.contains(&notes.display().to_string()));
    fs::remove_file(&notes).expect("it is there");
    eventually("it is opened again", || {
        broker.ready() == (200, "ok".to_owned())
    });
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, SICK, b"well again"), (0, 1));
    assert_others_serve(&broker, 6);
    assert!(broker.terminate().success());
}
