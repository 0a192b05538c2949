//! What a start says where the file of the streams' identities is not what the broker wrote, or
//! cannot be written: the file, what was tried, the cause and the cure.

use crate::harness::{Broker, dev, refused};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::tempdir;

const FILE: &str = "catalog-state.toml";

/// A broker has made its files in `data` and ended.
fn begin(data: &Path) {
    let broker = Broker::start(data, &[]);
    broker.signal(Signal::TERM);
    broker.wait();
}

fn assert_refused(data: &Path, parts: &[&str]) {
    let ended = refused(&dev(data));
    assert_eq!(ended.status.code(), Some(1));
    let path = data.join(FILE);
    assert!(
        ended.stderr.contains(path.to_str().unwrap()),
        "{}",
        ended.stderr
    );
    for part in parts {
        assert!(
            ended.stderr.contains(part),
            "no {part:?} in {}",
            ended.stderr
        );
    }
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn a_state_that_is_no_text_or_was_changed_is_damaged() {
    let temp = tempdir().unwrap();
    begin(temp.path());
    let path = temp.path().join(FILE);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, [text.as_bytes(), b"\xff\xfe"].concat()).unwrap();
    assert_refused(temp.path(), &["is damaged: it is no text", "backup"]);
    for (from, to) in [
        ("name = \"clicks\"", "name = \"clickr\""),
        ("tenant = \"dev\"", "tenant = \"dew\""),
        ("shards = 3", "shards = 1"),
        ("floor = ", "floor = 9"),
        ("id = \"", "id = \"0"),
    ] {
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
        assert_refused(temp.path(), &["is damaged: its checksum", "backup"]);
    }
    fs::write(&path, &text).unwrap();
    begin(temp.path());
}

#[test]
fn what_stands_where_the_state_belongs_is_named() {
    let temp = tempdir().unwrap();
    let path = temp.path().join(FILE);
    fs::create_dir(&path).unwrap();
    let read = format!("could not read {}: Is a directory", path.display());
    assert_refused(temp.path(), &[&read, "move it away"]);
    fs::remove_dir(&path).unwrap();
    symlink("/not mounted/state", &path).unwrap();
    assert_refused(
        temp.path(),
        &["could not read", "does a link lead nowhere?"],
    );
    fs::remove_file(&path).unwrap();

    let fresh = temp.path().join(format!("{FILE}.new"));
    fs::create_dir(&fresh).unwrap();
    let remove = format!("could not remove {}", fresh.display());
    assert_refused(temp.path(), &[&remove, "move it away"]);
    fs::remove_dir(&fresh).unwrap();
    // One that a crash left, or a link, is in nobody's way.
    symlink("/not mounted/state", &fresh).unwrap();
    begin(temp.path());
}

#[test]
fn a_place_for_logs_that_is_a_file_is_named() {
    let temp = tempdir().unwrap();
    let streams = temp.path().join("streams");
    fs::write(&streams, "").unwrap();
    let ended = refused(&dev(temp.path()));
    assert_eq!(ended.status.code(), Some(1));
    let named = format!("could not make the directory {}: ", streams.display());
    for part in [&*named, "move it away"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}
