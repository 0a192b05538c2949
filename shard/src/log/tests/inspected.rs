//! What is said of a log from outside is what an opening makes of it, byte for byte.

use super::*;
use crate::log::inspect::{Consequence, Options, Verdict as Inspected, verify};
use felix_core::Monotonic;
use felix_core::limits::PRODUCERS_PER_SHARD_MAX;
use std::path::Path;

const SPACED: LogConfig = LogConfig {
    segment_bytes_max: 300,
    index_interval_bytes: 60,
};

const OPTIONS: Options = Options { is_in_use: false };

/// In memory where there is such a place: a flush of a real device for each of thousands of openings
/// would prove nothing more.
fn quick_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.unwrap()
}

fn inspect(dir: &TempDir) -> Inspected {
    let mut seen = 0;
    let verdict = verify(dir.path(), OPTIONS, &mut |_, _, _| seen += 1).unwrap();
    assert_eq!(verdict.batches, seen);
    verdict
}

/// Two full segments and one that grows, of an idempotent producer and of others.
async fn filled(dir: &TempDir) -> Log {
    let (mut log, _) = open(dir, SPACED).await;
    for number in 0..9 {
        let mut builder = BatchBuilder::new().record(Timestamp(number), None, Some(&[7; 10]));
        if number % 2 == 0 {
            let sequence = i32::try_from(number / 2).unwrap();
            builder = builder.producer(77, 0, sequence);
        }
        let batch = Batch::parse(builder.build()).unwrap();
        log.append(batch, Timestamps::Append, NOW).unwrap();
    }
    log
}

async fn closed(dir: &TempDir) {
    let mut log = filled(dir).await;
    flush(&mut log).await;
    log.close().await.unwrap();
}

async fn killed(dir: &TempDir) {
    kill(filled(dir).await);
}

/// Killed before the last segment got its name.
async fn unnamed(dir: &TempDir) -> PathBuf {
    killed(dir).await;
    let last = files(dir, "log").pop().unwrap();
    let next = dir.path().join("00000000000000000005.next");
    std::fs::rename(last, &next).unwrap();
    next
}

fn copied(from: &TempDir) -> TempDir {
    let to = quick_dir();
    for entry in std::fs::read_dir(from.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Opens the log, and holds what comes of it against what was said of it.
async fn assert_agrees(dir: &TempDir, said: &Inspected, what: &str) {
    let gravest = said.gravest();
    match Log::open(dir.path(), SPACED, restart()).await {
        Ok((log, recovery)) => {
            assert_eq!(recovery.cut_bytes, said.cut_bytes(), "{what}: {said:#?}");
            let read = log
                .read(log.start(), log.end(), usize::MAX >> 1)
                .run()
                .await;
            let recovered = recovered_whole(read, &log);
            if gravest == Some(Consequence::Fatal) {
                // It lies where the indexes were trusted, and whoever reads it meets it.
                assert!(recovered.is_none(), "{what}: {said:#?}");
            } else {
                assert_eq!(log.end(), said.end, "{what}: {said:#?}");
                let batches = recovered.unwrap_or_else(|| panic!("{what}: {said:#?}"));
                let expected = known_by_headers(&batches);
                log.with_producers(|known| assert!(*known == expected, "{what}: {known:#?}"));
                log.close().await.unwrap();
                let after = inspect(dir);
                // The index of a full segment is made anew once it is used.
                let unused = said.findings.iter().filter(|found| {
                    found.consequence == Consequence::Remade && after.findings.contains(found)
                });
                assert_eq!(after.findings.len(), unused.count(), "{what}: {after:#?}");
            }
        }
        Err(LogError::Damaged { file, position, .. }) => {
            let mut fatal = said
                .findings
                .iter()
                .filter(|found| found.consequence == Consequence::Fatal);
            let same =
                |found: &&inspect::Finding| (&found.file, found.position) == (&file, position);
            assert!(
                fatal.any(|found| same(&found)),
                "{what}, {file} at {position}: {said:#?}"
            );
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Every batch of the log, if a reader was given all of them, each with the right checksum.
fn recovered_whole(read: Result<Vec<Bytes>, LogError>, log: &Log) -> Option<Vec<PlacedBatch>> {
    let mut found = Vec::new();
    let mut next = log.start();
    for mut piece in read.ok()? {
        while !piece.is_empty() {
            let batch = PlacedBatch::split_from(&mut piece).ok()?;
            if batch.base_offset() != next || batch.generation() != log.generation_at(next) {
                return None;
            }
            next = batch.next_offset();
            found.push(batch);
        }
    }
    (next == log.end()).then_some(found)
}

/// What the headers of all batches say of idempotent producers.
fn known_by_headers(batches: &[PlacedBatch]) -> Producers {
    let mut known = Producers::new(Offset::ZERO, PRODUCERS_PER_SHARD_MAX);
    for batch in batches {
        if let Some(sequenced) = Sequenced::of(batch.header()) {
            known.note(&sequenced, batch.base_offset(), Some(batch.max_timestamp()));
        }
    }
    known
}

#[test]
fn nothing_is_said_of_a_log_that_a_broker_left() {
    run(async {
        for end in ["closed", "killed", "unnamed"] {
            let dir = quick_dir();
            match end {
                "closed" => closed(&dir).await,
                "killed" => killed(&dir).await,
                _ => drop(unnamed(&dir).await),
            }
            let verdict = inspect(&dir);
            assert_eq!(verdict.findings, [], "{end}");
            assert_eq!((verdict.batches, verdict.end.get()), (9, 9));
            assert!(verdict.segments > 2);
            assert_agrees(&dir, &verdict, end).await;
        }
    });
}

#[test]
fn nothing_is_said_of_a_log_that_was_closed_again_and_again_with_other_spacings() {
    run(async {
        let dir = quick_dir();
        let mut time = 0;
        for (round, index_interval_bytes) in [60, 60, 400, 60, 1000, 60].into_iter().enumerate() {
            let config = LogConfig {
                segment_bytes_max: 2000,
                index_interval_bytes,
            };
            let (mut log, recovery) = open(&dir, config).await;
            assert_eq!(recovery.cut_bytes, 0);
            for _ in 0..round + 5 {
                time += 1;
                log.append(batch(&[time], 60), Timestamps::Create, NOW)
                    .unwrap();
            }
            flush(&mut log).await;
            log.close().await.unwrap();
            assert_eq!(inspect(&dir).findings, [], "round {round}");
        }
        assert!(files(&dir, "log").len() > 1);
        // The last entry of a full segment is its greatest timestamp, and searches go by it.
        let full = &files(&dir, "timeindex")[0];
        let bytes = std::fs::read(full).unwrap();
        std::fs::write(full, &bytes[..bytes.len() - 12]).unwrap();
        let said = inspect(&dir);
        let [found] = &said.findings[..] else {
            panic!("{said:#?}");
        };
        assert_eq!(found.position, bytes.len() as u64 - 12);
        assert_eq!(found.consequence, Consequence::Remade);
    });
}

#[test]
fn what_is_no_regular_file_is_named_and_keeps_nobody_waiting() {
    run(async {
        let intact = quick_dir();
        closed(&intact).await;
        for name in names(&intact) {
            for is_directory in [true, false] {
                let dir = copied(&intact);
                let path = dir.path().join(&name);
                std::fs::remove_file(&path).unwrap();
                if is_directory {
                    std::fs::create_dir(&path).unwrap();
                } else {
                    let made = std::process::Command::new("mkfifo").arg(&path).status();
                    assert!(made.unwrap().success());
                }
                let said = verify(dir.path(), OPTIONS, &mut |_, _, _| {}).unwrap_err();
                assert!(said.to_string().contains(&name), "{said}");
                let verifying = Opening {
                    verify: true,
                    ..restart()
                };
                let error = Log::open(dir.path(), SPACED, verifying).await.unwrap_err();
                let sentence = error.to_string();
                assert!(sentence.contains(&name), "{sentence}");
                assert!(sentence.contains("move it away"), "{sentence}");
            }
        }
    });
}

#[test]
fn an_empty_segment_below_the_recovery_point_is_damaged_and_not_missing() {
    run(async {
        let dir = quick_dir();
        closed(&dir).await;
        let second = &files(&dir, "log")[1];
        std::fs::write(second, "").unwrap();
        let name = second.file_name().unwrap().to_str().unwrap();
        let said = inspect(&dir);
        let fatal = |found: &&inspect::Finding| found.consequence == Consequence::Fatal;
        let fault = said.findings.iter().find(fatal).unwrap();
        assert_eq!(fault.file, name);
        assert!(fault.what.contains("the log ends at offset"), "{fault:?}");
        match Log::open(dir.path(), SPACED, restart()).await.unwrap_err() {
            LogError::Damaged { file, fault, .. } => {
                assert_eq!(file, name);
                assert!(matches!(fault, Fault::EndsEarly { .. }), "{fault}");
            }
            error => panic!("{error}"),
        }
    });
}

async fn every_byte(intact: &TempDir, is_closed: bool) {
    let mut looked_at = 0;
    let mut worst = [0; 4];
    for name in names(intact) {
        let whole = std::fs::read(intact.path().join(&name)).unwrap();
        for at in 0..whole.len() {
            let what = format!("{name}, byte {at}");
            let dir = copied(intact);
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(dir.path().join(&name), bytes).unwrap();
            let said = inspect(&dir);
            assert_ne!(said.findings, [], "{what}: every byte counts");
            match said.gravest() {
                Some(Consequence::Removed | Consequence::Remade) => worst[0] += 1,
                Some(Consequence::Believed) => worst[1] += 1,
                Some(Consequence::Cut { .. }) => worst[2] += 1,
                Some(Consequence::Fatal) => worst[3] += 1,
                None => unreachable!(),
            }
            assert_agrees(&dir, &said, &what).await;
            looked_at += 1;
        }
    }
    let [remade, believed, cut, fatal] = worst;
    assert!(looked_at > 500 && fatal > 0, "{worst:?}");
    // The indexes of a killed log were in memory.
    assert_eq!(remade > 0, is_closed, "{worst:?}");
    assert_eq!(believed, 0);
    assert_eq!(cut > 0, !is_closed, "{worst:?}");
}

#[test]
fn a_flip_of_any_byte_of_a_closed_log_is_found_and_an_opening_agrees() {
    run(async {
        let dir = quick_dir();
        closed(&dir).await;
        every_byte(&dir, true).await;
    });
}

#[test]
fn a_flip_of_any_byte_of_a_killed_log_is_found_and_an_opening_agrees() {
    run(async {
        let dir = quick_dir();
        killed(&dir).await;
        every_byte(&dir, false).await;
    });
}

#[test]
fn a_file_cut_at_any_byte_of_its_last_batch_is_told_and_an_opening_agrees() {
    run(async {
        for is_closed in [true, false] {
            let intact = quick_dir();
            match is_closed {
                true => closed(&intact).await,
                false => killed(&intact).await,
            }
            let log = files(&intact, "log").pop().unwrap();
            let bytes = std::fs::read(&log).unwrap();
            let mut last = 0;
            verify(intact.path(), OPTIONS, &mut |_, position, _| {
                last = position
            })
            .unwrap();
            let last = usize::try_from(last).unwrap();
            assert!(last < bytes.len());
            for size in last..bytes.len() {
                // As a short file, and as one whose rest never reached the device.
                for padded in [size, bytes.len()] {
                    let what = format!("cut at {size} of {}, {padded}", bytes.len());
                    let dir = copied(&intact);
                    let mut cut = bytes[..size].to_vec();
                    cut.resize(padded, 0);
                    if cut == bytes {
                        continue;
                    }
                    std::fs::write(dir.path().join(log.file_name().unwrap()), &cut).unwrap();
                    let said = inspect(&dir);
                    let gravest = said.gravest();
                    match is_closed {
                        true => assert_eq!(gravest, Some(Consequence::Fatal), "{what}"),
                        // Zeros hold no record, and a batch begins with some.
                        false if cut[last..].iter().all(|byte| *byte == 0) => {
                            assert_eq!(gravest, None, "{what}");
                        }
                        false => {
                            assert!(matches!(gravest, Some(Consequence::Cut { .. })), "{what}")
                        }
                    }
                    assert_agrees(&dir, &said, &what).await;
                }
            }
        }
    });
}

#[test]
fn a_flip_of_any_byte_of_a_log_that_failed_is_found_and_an_opening_agrees() {
    run(async {
        let dir = quick_dir();
        killed(&dir).await;
        std::fs::write(dir.path().join("failed"), "").unwrap();
        every_byte(&dir, false).await;
    });
}

#[test]
fn any_file_cut_at_any_byte_is_told_and_an_opening_agrees() {
    run(async {
        for is_closed in [true, false] {
            let intact = quick_dir();
            match is_closed {
                true => closed(&intact).await,
                false => killed(&intact).await,
            }
            for name in names(&intact) {
                let whole = std::fs::read(intact.path().join(&name)).unwrap();
                for size in 0..whole.len() {
                    let what = format!("{name} cut at {size} of {}", whole.len());
                    let dir = copied(&intact);
                    std::fs::write(dir.path().join(&name), &whole[..size]).unwrap();
                    let said = inspect(&dir);
                    match &*name {
                        "checkpoint" | "generations" => {
                            assert_eq!(said.gravest(), Some(Consequence::Fatal), "{what}");
                        }
                        "producers" => {
                            assert_eq!(said.gravest(), Some(Consequence::Remade), "{what}");
                        }
                        _ => {}
                    }
                    assert_agrees(&dir, &said, &what).await;
                }
            }
        }
    });
}

#[test]
fn a_flip_in_prepared_space_takes_nothing_and_is_told() {
    run(async {
        let intact = quick_dir();
        let roomy = LogConfig {
            segment_bytes_max: 1 << 20,
            ..SPACED
        };
        let (mut log, _) = open(&intact, roomy).await;
        append(&mut log, 1, 20_000);
        let noon = Monotonic(std::time::Duration::from_secs(43_200));
        let prepared = log.preparation(noon).unwrap().run().await.unwrap();
        log.prepared(&prepared);
        append(&mut log, 3, 50);
        let (end, space) = (log.end(), log.prepared_bytes());
        kill(log);
        let path = files(&intact, "log").pop().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let begin = whole.len() - usize::try_from(space).unwrap();
        assert!(whole[begin..].iter().all(|byte| *byte == 0));
        assert_eq!(inspect(&intact).findings, []);
        // Every byte that a batch's header would take, and some behind it.
        let places = (begin..begin + 70).chain([whole.len() / 2, whole.len() - 1]);
        for at in places {
            let what = format!("byte {at}");
            let dir = copied(&intact);
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(dir.path().join(path.file_name().unwrap()), bytes).unwrap();
            let said = inspect(&dir);
            assert!(
                matches!(said.gravest(), Some(Consequence::Cut { .. })),
                "{what}"
            );
            assert_eq!(
                (said.end, said.cut_bytes()),
                (end, (at + 1 - begin) as u64),
                "{what}"
            );
            assert_agrees(&dir, &said, &what).await;
        }
    });
}

#[test]
fn a_flip_of_any_byte_of_a_segment_that_has_no_name_yet_leaves_what_was_said_of_it() {
    run(async {
        let intact = quick_dir();
        let next = unnamed(&intact).await;
        let whole = std::fs::read(&next).unwrap();
        for at in 0..whole.len() {
            let what = format!("byte {at}");
            let dir = copied(&intact);
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(dir.path().join(next.file_name().unwrap()), bytes).unwrap();
            let said = inspect(&dir);
            assert!(said.end < Offset::new(9), "{what}: {said:#?}");
            assert_agrees(&dir, &said, &what).await;
        }
        // One that no segment has begun in is told of, and means nothing.
        std::fs::write(&next, [0; 500]).unwrap();
        let said = inspect(&intact);
        assert_eq!((said.findings.len(), said.notes.len()), (0, 1));
        assert_agrees(&intact, &said, "no segment").await;
        assert!(!next.exists());
    });
}
