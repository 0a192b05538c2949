//! `felix-log`, run as an operator runs it.

use crate::printed::{lines, said};
use felix_core::{Generation, Offset, PlacedBatch, Timestamp};
use felix_shard::log;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const SEGMENT: &str = "00000000000000000000.log";
const BATCHES: u64 = 4;

/// A log that a killed broker might have left: four batches, none of them known durable.
fn shard() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in log::founding_files() {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    std::fs::write(dir.path().join(SEGMENT), batches().concat()).unwrap();
    dir
}

fn batches() -> Vec<Vec<u8>> {
    let placed = (0..BATCHES).map(|offset| {
        PlacedBatch::generation_start(Offset::new(offset), Generation::new(1), Timestamp(5))
    });
    placed.map(|batch| batch.bytes().to_vec()).collect()
}

fn felix_log(command: &str, path: &Path, more: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_felix-log"));
    program.arg(command).arg(path).args(more).output().unwrap()
}

#[test]
fn a_log_is_dumped_batch_by_batch_from_an_offset_on() {
    let dir = shard();
    let dumped = felix_log(
        "dump",
        dir.path(),
        &["--json", "--from", "1", "--limit", "2", "--records"],
    );
    assert!(dumped.status.success(), "{}", said(&dumped));
    let lines = lines(&dumped);
    let of = |kind: &str| {
        lines
            .iter()
            .filter(|line| line["type"] == kind)
            .collect::<Vec<_>>()
    };
    let offsets: Vec<_> = of("batch")
        .iter()
        .map(|batch| &batch["base_offset"])
        .collect();
    assert_eq!(offsets, [1, 2]);
    assert_eq!(of("batch")[0]["position"], batches()[0].len());
    assert_eq!(
        (&of("batch")[0]["valid"], &of("batch")[0]["control"]),
        (&true.into(), &true.into())
    );
    assert_eq!(of("record").len(), 2);
    assert_eq!(of("checkpoint")[0]["recovery_point"], 0);
}

#[test]
fn a_fault_is_named_with_its_byte_and_what_an_opening_makes_of_it_and_nothing_is_written() {
    let dir = shard();
    let clean = felix_log("verify", dir.path(), &[]);
    assert_eq!(clean.status.code(), Some(0), "{}", said(&clean));
    let third = batches()[0].len() * 2;
    let path = dir.path().join(SEGMENT);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[third + 30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();

    let damaged = felix_log("verify", dir.path(), &["--json"]);
    assert_eq!(damaged.status.code(), Some(1), "{}", said(&damaged));
    let lines = lines(&damaged);
    // Zeros at the end hold no record.
    let lost = 1 + bytes.iter().rposition(|byte| *byte != 0).unwrap() - third;
    assert_eq!(
        (&lines[0]["file"], &lines[0]["position"]),
        (&SEGMENT.into(), &third.into())
    );
    assert_eq!(lines[0]["opening"], "cut");
    assert_eq!(
        (&lines[1]["end"], &lines[1]["cut_bytes"]),
        (&2.into(), &lost.into())
    );
    let human = said(&felix_log("verify", dir.path(), &[]));
    assert!(
        human.contains(&format!("{SEGMENT}, byte {third}: the checksum is ")),
        "{human}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
}

#[test]
fn what_cannot_be_read_is_named_and_the_faults_of_other_shards_are_told_all_the_same() {
    let data = tempfile::tempdir().unwrap();
    let stream = data.path().join("streams/tenant/1");
    let shards = ["0", "1", "2", "3"].map(|number| stream.join(number));
    for shard_dir in &shards {
        std::fs::create_dir_all(shard_dir).unwrap();
        for entry in std::fs::read_dir(shard().path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), shard_dir.join(entry.file_name())).unwrap();
        }
    }
    let [fifo, link, index, temporary] = &shards;
    std::fs::remove_file(fifo.join("checkpoint")).unwrap();
    let made = Command::new("mkfifo").arg(fifo.join("checkpoint")).status();
    assert!(made.unwrap().success());
    std::fs::remove_file(link.join(SEGMENT)).unwrap();
    std::os::unix::fs::symlink("nowhere", link.join(SEGMENT)).unwrap();
    std::fs::write(index.join("00000000000000000900.index"), "").unwrap();
    std::fs::create_dir(temporary.join("x.tmp")).unwrap();

    let verified = felix_log("verify", data.path(), &[]);
    assert_eq!(verified.status.code(), Some(1));
    let text = said(&verified);
    for words in [
        "checkpoint: it is a FIFO and not a regular file".to_owned(),
        format!("{SEGMENT}: "),
        "00000000000000000900.index, byte 0: it is an index without a segment; an opening removes"
            .to_owned(),
        "x.tmp, byte 0: it is a directory".to_owned(),
    ] {
        assert!(text.contains(&words), "{words}: {text}");
    }
    assert!(
        felix_log("dump", &fifo.join("checkpoint"), &[])
            .status
            .code()
            == Some(1)
    );
}

#[test]
fn the_exit_code_tells_of_faults_though_nobody_reads_what_is_printed() {
    let dir = shard();
    std::fs::write(dir.path().join("00000000000000000900.index"), "").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut verifying = Command::new(env!("CARGO_BIN_EXE_felix-log"));
    let verified = verifying.arg("verify").arg(dir.path()).stdout(writer);
    assert_eq!(verified.status().unwrap().code(), Some(1));
}

#[test]
fn a_log_is_counted() {
    let dir = shard();
    let counted = felix_log("stat", dir.path(), &["--json"]);
    let lines = lines(&counted);
    assert_eq!(
        (&lines[0]["batches"], &lines[0]["end"]),
        (&BATCHES.into(), &BATCHES.into())
    );
    assert_eq!(lines[0]["valid_bytes"], batches().concat().len());
}

#[test]
fn what_is_not_ours_is_refused_with_a_sentence_that_says_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("notes.txt");
    std::fs::write(&text, "nothing of ours").unwrap();
    let segment = dir.path().join("orders.log");
    std::fs::write(
        &segment,
        "12:00 a line of somebody's own log, long enough to be taken for a header",
    )
    .unwrap();
    let kafka = dir.path().join("clicks-0");
    std::fs::create_dir(&kafka).unwrap();
    std::fs::write(kafka.join("partition.metadata"), "version: 0").unwrap();
    for (command, path, words) in [
        ("dump", text.as_path(), "is not a file of a log"),
        ("dump", &segment, "does not begin with a batch"),
        ("verify", &text, "is a file; name a shard's directory"),
        ("verify", dir.path(), "is neither a shard's directory"),
        ("verify", &kafka, "is a log directory of Apache Kafka"),
    ] {
        let refused = felix_log(command, path, &[]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(words), "{}", said(&refused));
    }
    let absent = felix_log("dump", &dir.path().join("absent"), &[]);
    assert_eq!(absent.status.code(), Some(1));
    let table = shard();
    let path = table.path().join("checkpoint");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..20]).unwrap();
    let cut = felix_log("dump", &path, &[]);
    assert_eq!(cut.status.code(), Some(1));
    assert!(said(&cut).contains("is damaged at byte "), "{}", said(&cut));
}
