//! A start that the disk does not allow. What keeps all streams from being served ends it, with a
//! sentence that names the file, what was tried, the cause and the cure, and leaves all as it was;
//! what keeps one shard from it fails that one.
//!
//! Needs FUSE and the right to mount. Where they are not to be had the tests say so and prove
//! nothing; in CI and in a full run they fail then.

use felix_tests::wire::Wire;
use felix_tests::{Broker, HeldDisk, Stream};
use std::path::Path;

const TOPIC: &str = "refused.start";
const STATE: &str = "catalog-state.toml";

fn is_state(path: &Path) -> bool {
    path.to_string_lossy().contains(STATE)
}

#[test]
fn a_full_disk_ends_the_start_with_the_file_and_the_cure_and_loses_nothing() {
    let Some(disk) = HeldDisk::mount_for("a start on a full disk") else {
        return;
    };
    let data = disk.path().join("data");
    let mut broker = Broker::start_on(&data, &[Stream::new(TOPIC, 1)], &[]);
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 0, b"before"), (0, 0));
    assert!(broker.terminate().success());
    let before = std::fs::read(data.join(STATE)).unwrap();

    let full = disk.refuse_space(is_state);
    let (status, log) = broker.refuses_to_start_again();
    assert_eq!(status.code(), Some(1));
    assert!(full.count() >= 1);
    let file = data.join(format!("{STATE}.new"));
    for part in [
        &*format!("could not write {}: ", file.display()),
        "No space left on device",
        "make room on its file system",
    ] {
        assert!(log.contains(part), "no {part} in {log}");
    }
    assert!(!file.exists(), "it would take up space");
    assert!(std::fs::read(data.join(STATE)).unwrap() == before);
    drop(full);
    broker.start_again();
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 0, b"after"), (0, 1));
}

#[test]
fn a_log_that_cannot_be_founded_fails_alone_and_is_founded_by_the_next_start() {
    let Some(disk) = HeldDisk::mount_for("a log that cannot be founded") else {
        return;
    };
    let data = disk.path().join("data");
    let is_shard = |path: &Path| path.to_string_lossy().contains(&format!("{TOPIC}-1"));
    let full = disk.refuse_space(is_shard);
    let mut broker = Broker::start_on(&data, &[Stream::new(TOPIC, 2)], &[]);
    let (status, ready) = broker.ready();
    let begins = format!("ok\nfailed: dev/{TOPIC}-1: ");
    assert!(status == 200 && ready.starts_with(&begins), "{ready}");
    let is_named =
        |log: &str| log.contains("a log was not founded") && log.contains("checkpoint.tmp");
    let log = broker.logged(is_named);
    assert!(is_named(&log), "{log}");
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 0, b"served"), (0, 0));
    drop(full);
    assert!(broker.terminate().success());
    broker.start_again();
    assert_eq!(broker.ready(), (200, "ok".to_owned()));
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.produce(TOPIC, 1, b"served"), (0, 0));
}
