//! What a real broker has written and not flushed is bounded, and what waits for its flush for too
//! long is told of.
//!
//! Needs FUSE and the right to mount. Where they are not to be had the tests say so and prove
//! nothing; in CI and in a full run they fail then.
#![expect(
    clippy::disallowed_methods,
    reason = "a test owns its clock, and what waits is told from what does not by it"
)]

use felix_tests::wire::Wire;
use felix_tests::{Broker, HeldDisk, Policy, Stream, eventually};
use std::path::Path;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(20);
const TOPIC: &str = "unflushed.stream";
/// Enough that each core can fill its share of a device with one batch for each shard: a second one
/// would wait in the kernel for the flush that is held of the first.
const SHARDS: u32 = 24;

const REQUEST_TIMED_OUT: i16 = 7;

/// No round begins because of the time.
const LONG_INTERVAL: (&str, &str) = ("FELIX_DURABLE_FSYNC_INTERVAL_MS", "60000");
const SOFT: (&str, &str) = ("FELIX_DIRTY_BYTES_SOFT", "2097152");
const HARD: (&str, &str) = ("FELIX_DIRTY_BYTES_HARD", "6291456");
const HARD_BYTES: f64 = 6_291_456.0;

/// Of these, four fill the share of one of two cores.
static LARGE: [u8; 900_000] = [b'x'; 900_000];
const LARGE_BYTES: f64 = 900_000.0;

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// Writes to one shard after the other until one has no room within a second; which.
fn fill(wire: &mut Wire) -> i32 {
    for partition in 0..i32::try_from(SHARDS).expect("few") {
        let sent = wire.send_produce_within(1000, TOPIC, partition, &LARGE);
        sent.expect("it is read");
        match wire.receive_produce() {
            (0, 0) => {}
            (REQUEST_TIMED_OUT, _) => return partition,
            other => panic!("{partition}: {other:?}"),
        }
    }
    panic!("no bound was met");
}

#[test]
fn an_append_past_the_hard_bound_waits_is_refused_at_its_timeout_and_goes_on_with_the_flush() {
    for policy in [Policy::Periodic, Policy::None] {
        let Some(disk) = HeldDisk::mount_for("the bounds of what is not flushed") else {
            return;
        };
        let streams = [Stream::new(TOPIC, SHARDS).flushed(policy)];
        let settings = [LONG_INTERVAL, SOFT, HARD];
        let broker = Broker::start_on(&disk.path().join("data"), &streams, &settings);
        let mut wire = Wire::connect(broker.port());
        let dirty = || broker.metric("felix_storage_dirty_bytes");
        let rounds = || broker.metric("felix_storage_sync_rounds_total");
        assert_eq!((dirty(), rounds()), (0.0, 0.0));
        let hold = disk.hold_flushes(is_log);
        let begun = Instant::now();
        let full = fill(&mut wire);
        assert!(begun.elapsed() >= Duration::from_secs(1), "it was let wait");
        hold.await_one(WAIT);
        assert!(rounds() >= 1.0, "the soft bound begins a round");
        // The core that was met first is at its half, and neither is above it by more than one.
        let unflushed = dirty();
        assert!(unflushed >= HARD_BYTES / 2.0, "{unflushed}");
        assert!(unflushed < HARD_BYTES + 2.0 * LARGE_BYTES, "{unflushed}");
        assert_eq!(broker.metric("felix_core_dirty_bytes"), unflushed);
        assert_eq!(broker.metric("felix_shard_expired_appends_total"), 1.0);
        assert_eq!(broker.metric("felix_shard_parked_appends"), 0.0);
        // Appends wait for the generation of their shard, too.
        let parked = || broker.metric("felix_shard_parked_appends_total");
        let before = parked();
        // Nothing of it was written, so the next one has its offset.
        wire.send_produce(TOPIC, full, &LARGE).expect("it is read");
        eventually("it waits", || {
            broker.metric("felix_shard_parked_appends") == 1.0
        });
        wire.assert_unanswered();
        assert_eq!(dirty(), unflushed);
        drop(hold);
        assert_eq!(wire.receive_produce(), (0, 0));
        assert_eq!(parked(), before + 1.0);
        assert_eq!(wire.produce(TOPIC, full, b"more"), (0, 1));
    }
}

#[test]
fn an_append_that_waits_for_its_flush_for_more_than_twice_the_interval_is_told_of_once() {
    const SHARD: &str = "unflushed.stream-0";
    let Some(disk) = HeldDisk::mount_for("the alarm of the interval") else {
        return;
    };
    let interval = ("FELIX_DURABLE_FSYNC_INTERVAL_MS", "200");
    let streams = [Stream::new(TOPIC, 2)];
    let mut broker = Broker::start_on(&disk.path().join("data"), &streams, &[interval]);
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 0, b"in time"), (0, 0));
    let unsynced = |broker: &Broker| broker.metric("felix_storage_unsynced_bytes");
    eventually("it is flushed", || unsynced(&broker) == 0.0);
    let late = |broker: &Broker| broker.metric("felix_storage_overdue_syncs_total");
    let before = late(&broker);

    let is_its_log =
        |path: &Path| is_log(path) && path.parent().is_some_and(|dir| dir.ends_with(SHARD));
    let hold = disk.hold_flushes(is_its_log);
    let begun = Instant::now();
    assert_eq!(wire.produce(TOPIC, 0, b"too late"), (0, 1));
    hold.await_one(WAIT);
    eventually("the alarm", || late(&broker) > before);
    assert!(begun.elapsed() >= Duration::from_millis(400));
    assert_eq!(late(&broker), before + 1.0);
    let is_alarm = |line: &&str| {
        line.contains("appends wait for their flush for more than twice the interval")
            && line.contains(SHARD)
    };
    let log = broker.logged(|log| log.lines().any(|line| is_alarm(&line)));
    let alarm = log
        .lines()
        .find(is_alarm)
        .unwrap_or_else(|| panic!("{log}"));
    assert!(alarm.contains(" WARN "), "{alarm}");
    assert!(alarm.contains("interval_ms=200"), "{alarm}");
    assert!(alarm.contains("core="), "{alarm}");
    // The flush is under way, so nothing says yet what interval was reached.
    let reached = broker.metric("felix_storage_sync_interval_us");
    drop(hold);
    eventually("it is flushed", || unsynced(&broker) == 0.0);
    eventually("the interval that was reached is told", || {
        let now = broker.metric("felix_storage_sync_interval_us");
        now > reached && now > 400_000.0
    });
    assert_eq!(late(&broker), before + 1.0, "once for each append");
}
