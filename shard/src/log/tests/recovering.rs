//! What recovery cuts, and what it refuses to.

use super::*;

/// Six batches written and never flushed after the opening, as a crash leaves them.
async fn crashed(config: LogConfig) -> (TempDir, Vec<PlacedBatch>) {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(&dir, config).await;
    let batches = (0..6)
        .map(|number| append(&mut log, 1 + number % 3, 30))
        .collect();
    kill(log);
    (dir, batches)
}

/// Zeros at the end of what is cut hold no record and do not count.
fn counted(lost: &[u8]) -> u64 {
    let last = lost.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last as u64 + 1)
}

#[test]
fn a_tail_torn_at_any_byte_leaves_exactly_the_whole_batches() {
    run(async {
        let (dir, batches) = crashed(LARGE).await;
        let path = files(&dir, "log").pop().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let sizes: Vec<usize> = batches.iter().map(|batch| batch.bytes().len()).collect();
        let first_four: usize = sizes[..4].iter().sum();
        for length in first_four..=whole.len() {
            let torn = copy(&dir);
            let path = torn.path().join(path.file_name().unwrap());
            std::fs::write(&path, &whole[..length]).unwrap();
            let (log, recovery) = open(&torn, LARGE).await;
            let kept = match length {
                length if length == whole.len() => 6,
                length if length >= first_four + sizes[4] => 5,
                _ => 4,
            };
            assert_holds(&log, &batches[..kept]).await;
            let kept_bytes: usize = sizes[..kept].iter().sum();
            let lost = counted(&whole[kept_bytes..length]);
            assert_eq!(recovery.cut_bytes, lost, "at {length}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), kept_bytes as u64);
        }
    });
}

#[test]
fn a_flipped_byte_anywhere_in_the_last_batch_cuts_it() {
    run(async {
        let (dir, batches) = crashed(LARGE).await;
        let path = files(&dir, "log").pop().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let last = batches[5].bytes().len();
        for at in whole.len() - last..whole.len() {
            let flipped = copy(&dir);
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            std::fs::write(flipped.path().join(path.file_name().unwrap()), bytes).unwrap();
            let (log, recovery) = open(&flipped, LARGE).await;
            assert_holds(&log, &batches[..5]).await;
            assert!(recovery.cut_bytes > 0, "at {at}");
        }
    });
}

#[test]
fn a_flipped_byte_below_the_recovery_point_is_fatal_and_names_its_place() {
    run(async {
        let (dir, batches) = crashed(LARGE).await;
        // Opening flushes, so all of this is below the recovery point from here on.
        let (mut log, _) = open(&dir, LARGE).await;
        append(&mut log, 1, 30);
        kill(log);
        let path = files(&dir, "log").pop().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let third: usize = batches[..2].iter().map(|batch| batch.bytes().len()).sum();
        bytes[third + 70] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = Log::open(dir.path(), LARGE, restart()).await.unwrap_err();
        let LogError::Damaged {
            file,
            position,
            fault,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(
            (file.as_str(), *position),
            ("00000000000000000000.log", third as u64)
        );
        assert!(matches!(fault, Fault::Batch(_)), "{fault}");
        let text = error.to_string();
        assert!(text.contains(&format!("byte {third}")), "{text}");
        assert!(text.contains(&dir.path().display().to_string()), "{text}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was touched");
    });
}

#[test]
fn a_closed_log_that_lost_its_last_batch_or_a_segment_is_refused() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        for _ in 0..9 {
            append(&mut log, 1, 250);
        }
        log.close().await.unwrap();
        let segments = files(&dir, "log");
        assert_eq!(segments.len(), 3);

        let short = copy(&dir);
        let last = files(&short, "log").pop().unwrap();
        let bytes = std::fs::read(&last).unwrap();
        std::fs::write(&last, &bytes[..bytes.len() / 3]).unwrap();
        let error = Log::open(short.path(), SMALL, restart()).await.unwrap_err();
        assert!(matches!(error, LogError::Damaged { .. }), "{error}");

        let zeroed = copy(&dir);
        let last = files(&zeroed, "log").pop().unwrap();
        std::fs::write(&last, vec![0; bytes.len()]).unwrap();
        let error = Log::open(zeroed.path(), SMALL, restart())
            .await
            .unwrap_err();
        assert!(matches!(error, LogError::Damaged { .. }), "{error}");

        for (missing, path) in segments.iter().enumerate() {
            let gap = copy(&dir);
            std::fs::remove_file(&files(&gap, "log")[missing]).unwrap();
            let error = Log::open(gap.path(), SMALL, restart()).await.unwrap_err();
            let LogError::Damaged { file, fault, .. } = &error else {
                panic!("{error}")
            };
            let name = path.file_name().unwrap().to_str().unwrap();
            if missing < 2 {
                assert_eq!((file.as_str(), fault), (name, &Fault::Missing));
            } else {
                assert!(matches!(fault, Fault::EndsEarly { .. }), "{error}");
            }
        }
    });
}

#[test]
fn zeros_end_the_log_and_what_follows_them_is_dropped_and_counted() {
    run(async {
        let (dir, batches) = crashed(LARGE).await;
        let path = files(&dir, "log").pop().unwrap();
        let whole = std::fs::read(&path).unwrap();

        // Zeros behind the end, as a crash may leave them.
        let mut prepared = whole.clone();
        prepared.resize(whole.len() + 100_000, 0);
        std::fs::write(&path, &prepared).unwrap();
        let copied = copy(&dir);
        let (log, recovery) = open(&copied, LARGE).await;
        assert_eq!(recovery.cut_bytes, 0);
        assert_holds(&log, &batches).await;

        // A hole that a power loss left: the fifth batch never reached the device, the sixth did.
        let before: usize = batches[..4].iter().map(|batch| batch.bytes().len()).sum();
        let hole = batches[4].bytes().len();
        let mut holed = whole.clone();
        holed[before..before + hole].fill(0);
        std::fs::write(&path, &holed).unwrap();
        let (mut log, recovery) = open(&dir, LARGE).await;
        assert_eq!(recovery.cut_bytes, counted(&holed[before..]));
        assert_holds(&log, &batches[..4]).await;
        let next = append(&mut log, 1, 5);
        assert_eq!(next.base_offset(), batches[4].base_offset());
    });
}

#[test]
fn segments_after_a_cut_are_dropped_even_if_they_are_whole() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        let batches: Vec<_> = (0..12).map(|_| append(&mut log, 1, 250)).collect();
        kill(log);
        let segments = files(&dir, "log");
        assert_eq!(segments.len(), 4);
        let lost = |path: &PathBuf, from: usize| counted(&std::fs::read(path).unwrap()[from..]);
        let mut bytes = std::fs::read(&segments[1]).unwrap();
        let third = bytes.len() / 3;
        bytes[third + 100] ^= 1;
        std::fs::write(&segments[1], bytes).unwrap();
        let cut = lost(&segments[1], third) + lost(&segments[2], 0) + lost(&segments[3], 0);
        let (mut log, recovery) = open(&dir, SMALL).await;
        assert_eq!(files(&dir, "log").len(), 2);
        assert_eq!(recovery.cut_bytes, cut);
        assert_holds(&log, &batches[..4]).await;
        let mut expected = batches[..4].to_vec();
        expected.extend((0..8).map(|_| append(&mut log, 1, 250)));
        log.close().await.unwrap();
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!((recovery.cut_bytes, recovery.rebuilt_indexes), (0, 0));
        assert_holds(&log, &expected).await;
    });
}

#[test]
fn a_full_segment_whose_end_was_lost_to_zeros_is_the_one_that_grows() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        let mut batches: Vec<_> = (0..20).map(|_| append(&mut log, 2, 40)).collect();
        kill(log);
        let paths = files(&dir, "log");
        assert!(paths.len() >= 3);
        // Never flushed: the device has the first segment's length and not its last batch, or has
        // neither.
        let whole = std::fs::read(&paths[0]).unwrap();
        let size = batches[0].bytes().len();
        batches.truncate(whole.len() / size - 1);
        let kept = batches.len() * size;
        for zeros in [0, size] {
            let lost = copy(&dir);
            let first = lost.path().join(paths[0].file_name().unwrap());
            let bytes = [&whole[..kept], &vec![0; zeros]].concat();
            std::fs::write(first, bytes).unwrap();
            let (mut log, recovery) = open(&lost, SMALL).await;
            assert_holds(&log, &batches).await;
            assert!(recovery.cut_bytes > 0);
            let mut grown = batches.clone();
            grown.extend((0..20).map(|_| append(&mut log, 1, 40)));
            flush(&mut log).await;
            kill(log);
            let (log, _) = open(&lost, SMALL).await;
            assert_holds(&log, &grown).await;
        }
    });
}

#[test]
fn where_the_generation_table_is_gone_too_a_generation_that_falls_cuts_the_log() {
    run(async {
        let (dir, batches) = crashed(LARGE).await;
        std::fs::remove_file(dir.path().join("generations")).unwrap();
        let path = files(&dir, "log").pop().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        // The generation of the third batch, which its checksum does not cover.
        let third = batches[0].bytes().len() + batches[1].bytes().len();
        bytes[third + 15] = 200;
        std::fs::write(&path, bytes).unwrap();
        let (log, recovery) = open(&dir, LARGE).await;
        assert_eq!(log.end(), batches[2].next_offset());
        assert!(recovery.cut_bytes > 0);
        let found = all_bytes(&read_all(&log).await);
        kill(log);
        // The table made from what was found agrees with it.
        let (log, _) = open(&dir, LARGE).await;
        assert_eq!(all_bytes(&read_all(&log).await), found);
    });
}

#[test]
fn an_empty_segment_after_an_unfinished_roll_is_the_one_that_grows() {
    run(async {
        let (dir, batches) = crashed(LARGE).await;
        let end = batches[5].next_offset();
        std::fs::write(dir.path().join(format!("{:020}.log", end.get())), b"").unwrap();
        let (mut log, recovery) = open(&dir, LARGE).await;
        assert_eq!(recovery.cut_bytes, 0);
        assert_holds(&log, &batches).await;
        let mut expected = batches;
        expected.push(append(&mut log, 1, 1));
        kill(log);
        let (log, _) = open(&dir, LARGE).await;
        assert_holds(&log, &expected).await;
    });
}

#[test]
fn a_foreign_file_is_refused_by_name_and_what_kafka_keeps_beside_a_log_is_left_alone() {
    run(async {
        for name in [
            "7.log",
            "0000000000000000000x.log",
            "old.index",
            "99999999999999999999.log",
            "00000000000000000000.log.deleted",
            "README",
            "notes.txt",
        ] {
            let (dir, _) = crashed(LARGE).await;
            std::fs::write(dir.path().join(name), b"x").unwrap();
            let error = Log::open(dir.path(), LARGE, restart()).await.unwrap_err();
            let LogError::Foreign { file, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(file, name);
        }
        let (dir, batches) = crashed(LARGE).await;
        let beside = [
            "leader-epoch-checkpoint",
            "partition.metadata",
            "00000000000000000007.snapshot",
        ];
        for name in beside {
            std::fs::write(dir.path().join(name), b"x").unwrap();
        }
        std::fs::write(dir.path().join("checkpoint.3.tmp"), b"x").unwrap();
        std::fs::write(dir.path().join("00000000000000000077.index"), b"x").unwrap();
        let (log, _) = open(&dir, LARGE).await;
        assert_holds(&log, &batches).await;
        assert!(beside.iter().all(|name| dir.path().join(name).exists()));
        assert!(!dir.path().join("checkpoint.3.tmp").exists());
        assert!(!dir.path().join("00000000000000000077.index").exists());
    });
}

#[test]
fn a_damaged_table_is_refused_by_name() {
    run(async {
        for name in ["checkpoint", "generations"] {
            let (dir, _) = crashed(LARGE).await;
            let path = dir.path().join(name);
            let whole = std::fs::read(&path).unwrap();
            for at in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] ^= 4;
                std::fs::write(&path, bytes).unwrap();
                let error = Log::open(dir.path(), LARGE, restart()).await.unwrap_err();
                let LogError::Damaged { file, .. } = &error else {
                    panic!("{error}")
                };
                assert_eq!(file, name);
            }
            std::fs::write(&path, b"").unwrap();
            assert!(Log::open(dir.path(), LARGE, restart()).await.is_err());
        }
    });
}

/// Names and bytes of all files.
fn contents(dir: &TempDir) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = ["log", "index", "timeindex"]
        .iter()
        .flat_map(|ending| files(dir, ending))
        .chain(["checkpoint", "generations"].map(|name| dir.path().join(name)))
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

#[test]
fn a_log_that_is_refused_is_left_as_it_is_down_to_its_indexes() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        for number in 0..20 {
            append(&mut log, 1 + number % 3, 30);
        }
        log.close().await.unwrap();
        let logs = files(&dir, "log");
        assert!(logs.len() >= 3);
        // Of the first, one in the middle and the last segment: a flipped bit, half of it, none.
        for number in [0, 1, logs.len() - 1] {
            for keep in [usize::MAX, 2, 0] {
                let damaged = copy(&dir);
                let path = damaged.path().join(logs[number].file_name().unwrap());
                let mut bytes = std::fs::read(&path).unwrap();
                match keep {
                    0 => std::fs::remove_file(&path).unwrap(),
                    2 => std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap(),
                    _ => {
                        let last = bytes.len() - 3;
                        bytes[last] ^= 1;
                        std::fs::write(&path, &bytes).unwrap();
                    }
                }
                let before = contents(&damaged);
                let error = Log::open(damaged.path(), SMALL, restart())
                    .await
                    .unwrap_err();
                assert!(matches!(error, LogError::Damaged { .. }), "{error}");
                assert!(contents(&damaged) == before, "{number}, {keep}: {error}");
            }
        }
    });
}

#[test]
fn a_read_ends_before_damage_that_no_opening_met_and_the_next_one_tells_of_it() {
    run(async {
        let (dir, batches) = crashed(LARGE).await;
        let (log, _) = open(&dir, LARGE).await;
        let path = files(&dir, "log").pop().unwrap();
        let third: usize = batches[..2].iter().map(|batch| batch.bytes().len()).sum();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[third..third + 70].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        let before = log.read(log.start(), log.end(), 1 << 20).run().await;
        assert_eq!(
            all_bytes(&super::batches(before.unwrap())),
            all_bytes(&batches[..2])
        );
        let at = log.read(batches[2].base_offset(), log.end(), 1 << 20);
        let error = at.run().await.unwrap_err();
        assert!(
            error.to_string().contains(&format!("byte {third}")),
            "{error}"
        );
    });
}

#[test]
fn a_flush_that_fails_at_an_opening_is_known_to_the_next() {
    run(async {
        let (dir, batches) = crashed(LARGE).await;
        let before = std::fs::read(dir.path().join("checkpoint")).unwrap();
        // A regular file that reads as an empty segment, and cannot be flushed.
        let end = batches[5].next_offset();
        let unflushable = dir.path().join(segment::log_name(end));
        let comm = format!("/proc/{}/comm", std::process::id());
        std::os::unix::fs::symlink(comm, &unflushable).unwrap();
        let error = Log::open(dir.path(), LARGE, restart()).await.unwrap_err();
        assert!(error.to_string().contains("could not flush"), "{error}");
        assert!(dir.path().join("failed").exists());
        let checkpoint = std::fs::read(dir.path().join("checkpoint")).unwrap();
        assert!(checkpoint == before, "nothing more is claimed");
        // It needs none of the files that failed: what was whole in them is written to others.
        let (log, recovery) = open(&dir, LARGE).await;
        assert_eq!(recovery.scanned_batches, 6);
        assert_holds(&log, &batches).await;
        assert!(!dir.path().join("failed").exists());
    });
}
