//! Logs that are not where they were: they are missed, never made again, and come back as they were.
//! Only the catalog file lets go of them, by naming the stream's identity.

use crate::harness::{Broker, VALUE, dev, end, field, opened, refused, write};
use crate::wire::{base_offset, call, end_offset, is_readable, produce};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

const FAILED: &str = "failed: it serves nothing until the broker starts again";

/// The broker serves, and its page names these shards as failed, each with a reason that says this.
fn assert_failed(broker: &mut Broker, shards: &[u32], said: &str) {
    let (status, page) = broker.get("/ready");
    assert_eq!(status, 200);
    let mut lines = page.lines();
    assert_eq!(lines.next(), Some("ok"));
    for (line, shard) in lines.by_ref().zip(shards) {
        let begins = format!("failed: dev/default.clicks-{shard}: ");
        assert!(line.starts_with(&begins) && line.contains(said), "{line}");
    }
    assert_eq!(
        (lines.next(), page.lines().count()),
        (None, 1 + shards.len())
    );
}

fn directory(data: &Path, id: &str) -> PathBuf {
    data.join("streams/dev").join(id)
}

/// What lies in a directory, at any depth.
fn contents(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.extend(paths.clone().iter().flat_map(|path| contents(path)));
    paths
}

#[test]
fn a_disk_of_logs_that_is_not_mounted_ends_the_start_and_nothing_is_written_in_its_place() {
    let temp = tempdir().unwrap();
    let (id, _) = write(temp.path());
    let (streams, disk) = (temp.path().join("streams"), temp.path().join("disk"));
    let state = temp.path().join("catalog-state.toml");
    fs::rename(&streams, &disk).unwrap();
    let before = fs::read(&state).unwrap();
    // The mount point is there, or not even that.
    for is_there in [true, false] {
        if is_there {
            fs::create_dir(&streams).unwrap();
        }
        let ended = refused(&dev(temp.path()));
        assert_eq!(ended.status.code(), Some(1));
        for part in ["/streams, where their logs were", "is a disk not mounted?"] {
            assert!(ended.stderr.contains(part), "{}", ended.stderr);
        }
        assert!(contents(&streams).is_empty());
        assert!(fs::read(&state).unwrap() == before);
        drop(fs::remove_dir(&streams));
    }
    fs::rename(&disk, &streams).unwrap();
    let mut broker = Broker::start(temp.path(), &[]);
    assert_eq!(opened(&mut broker).0, id);
    assert!(is_readable(broker.kafka(), VALUE));
}

#[test]
fn a_stream_whose_logs_are_gone_is_missed_until_they_are_back() {
    let temp = tempdir().unwrap();
    let (id, generation) = write(temp.path());
    let stream = directory(temp.path(), &id);
    let kept = temp.path().join("kept");
    fs::rename(&stream, &kept).unwrap();
    // Its directory is gone, and then there and empty.
    for _ in 0..2 {
        let mut broker = Broker::start(temp.path(), &[]);
        assert_eq!(field(&broker.line("stream"), "id"), id);
        assert_failed(&mut broker, &[0, 1, 2], "nothing is made in its place");
        let failed = broker.line(FAILED);
        let missing = "default.clicks-";
        for part in [
            stream.join(missing).to_str().unwrap(),
            "the directory is missing",
            "is a disk not mounted?",
            &format!("begin_anew = \\\"{id}\\\""),
        ] {
            assert!(failed.contains(part), "no {part} in {failed}");
        }
        end(broker);
        assert!(contents(&stream).is_empty());
        drop(fs::create_dir(&stream));
    }
    fs::remove_dir(&stream).unwrap();
    fs::rename(&kept, &stream).unwrap();
    let mut broker = Broker::start(temp.path(), &[]);
    let again = opened(&mut broker);
    assert_eq!(again.0, id);
    assert!(again.1 > generation, "{again:?} after {generation}");
    assert!(is_readable(broker.kafka(), VALUE));
}

#[test]
fn a_shard_of_which_any_part_is_gone_is_missed_and_the_others_serve() {
    let temp = tempdir().unwrap();
    let (id, _) = write(temp.path());
    let shard = directory(temp.path(), &id).join("default.clicks-0");
    let aside = temp.path().join("aside");
    for (part, said) in [
        ("", "the directory is missing"),
        ("*", "the directory is empty"),
        ("generations", "its file generations is missing"),
        ("checkpoint", "its file checkpoint is missing"),
    ] {
        match part {
            "" => fs::rename(&shard, &aside).unwrap(),
            "*" => {
                fs::rename(&shard, &aside).unwrap();
                fs::create_dir(&shard).unwrap();
            }
            file => fs::rename(shard.join(file), &aside).unwrap(),
        }
        let mut broker = Broker::start(temp.path(), &[]);
        assert_failed(&mut broker, &[0], said);
        assert_eq!(broker.metric("felix_shard_open"), Some(2.0));
        let failed = broker.line(FAILED);
        assert!(
            failed.contains(shard.to_str().unwrap()) && failed.contains(said),
            "{failed}"
        );
        end(broker);
        match part {
            "" => fs::rename(&aside, &shard).unwrap(),
            "*" => {
                fs::remove_dir(&shard).unwrap();
                fs::rename(&aside, &shard).unwrap();
            }
            file => fs::rename(&aside, shard.join(file)).unwrap(),
        }
        let mut broker = Broker::start(temp.path(), &[]);
        assert_eq!(broker.get("/ready"), (200, "ok".to_owned()));
        assert!(is_readable(broker.kafka(), VALUE));
        end(broker);
    }
}

#[test]
fn a_stream_begins_anew_when_the_catalog_names_its_identity_and_once_only() {
    let temp = tempdir().unwrap();
    let (id, generation) = write(temp.path());
    let catalog = temp.path().join("catalog.toml");
    let text = format!(
        "[[stream]]\ntenant = \"dev\"\nnamespace = \"default\"\nname = \"clicks\"\nshards = 3\n\
         begin_anew = \"{id}\"\n"
    );
    fs::write(&catalog, text).unwrap();
    // Lost logs or not: the line says it.
    fs::remove_dir_all(directory(temp.path(), &id).join("default.clicks-1")).unwrap();
    let flags = ["--catalog-file", catalog.to_str().unwrap()];
    let mut broker = Broker::start(temp.path(), &flags);
    let anew = opened(&mut broker);
    assert_ne!(anew.0, id);
    assert!(anew.1 > generation, "{anew:?} after {generation}");
    assert_eq!(broker.get("/ready"), (200, "ok".to_owned()));
    assert_eq!(end_offset(broker.kafka()), 0);
    assert_eq!(base_offset(&call(broker.kafka(), &produce(b"anew"))), 0);
    end(broker);
    assert!(directory(temp.path(), &id).is_dir());

    let mut broker = Broker::start(temp.path(), &flags);
    let again = opened(&mut broker);
    assert_eq!(again.0, anew.0);
    assert!(again.1 > anew.1);
    assert!(is_readable(broker.kafka(), b"anew"));
}
