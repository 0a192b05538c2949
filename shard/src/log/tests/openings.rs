//! Opening again: generations, control batches, what a clean closing saves.

use super::*;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

#[test]
fn reopening_keeps_everything_and_raises_the_generation() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut expected = Vec::new();
        for round in 1..6_u32 {
            let (mut log, recovery) = open(&dir, SMALL).await;
            assert_eq!(recovery.cut_bytes, 0);
            assert_eq!(log.generation(), Generation::new(round));
            assert_holds(&log, &expected).await;
            for _ in 0..4 {
                let placed = append(&mut log, 2, 120);
                assert_eq!(placed.generation(), Generation::new(round));
                expected.push(placed);
            }
            if round % 2 == 0 {
                log.close().await.unwrap();
            } else {
                kill(log);
            }
        }
        let (log, _) = open(&dir, SMALL).await;
        let end_of = |generation| log.generation_end(Generation::new(generation));
        assert_eq!(end_of(1), Some((Generation::new(1), Offset::new(8))));
        assert_eq!(end_of(5), Some((Generation::new(5), Offset::new(40))));
        assert_eq!(end_of(6), Some((Generation::new(6), Offset::new(40))));
        assert_eq!(end_of(7), None);
    });
}

#[test]
fn the_generation_is_above_the_floor_and_never_falls() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening {
            generation_floor: Generation::new(500),
            ..restart()
        };
        let (log, _) = Log::open(dir.path(), SMALL, opening).await.unwrap();
        assert_eq!(log.generation(), Generation::new(501));
        kill(log);
        let (log, _) = open(&dir, SMALL).await;
        assert_eq!(log.generation(), Generation::new(502));
    });
}

#[test]
fn a_lost_generation_table_is_made_anew_from_the_batches() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..3 {
            let (mut log, _) = open(&dir, SMALL).await;
            append(&mut log, 1, 400);
            log.close().await.unwrap();
        }
        std::fs::remove_file(dir.path().join("generations")).unwrap();
        let (log, _) = open(&dir, SMALL).await;
        assert_eq!(log.generation(), Generation::new(4));
        let end_of_2 = log.generation_end(Generation::new(2));
        assert_eq!(end_of_2, Some((Generation::new(2), Offset::new(2))));
    });
}

#[test]
fn a_promotion_takes_one_offset_that_no_reader_sees() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (log, _) = Log::open(dir.path(), SMALL, promotion()).await.unwrap();
        assert_eq!(log.end(), Offset::ZERO, "an empty log gets none");
        kill(log);
        let (mut log, _) = open(&dir, SMALL).await;
        let before = append(&mut log, 2, 10);
        kill(log);

        let (log, _) = Log::open(dir.path(), SMALL, promotion()).await.unwrap();
        assert_eq!(log.end(), Offset::new(3));
        assert_eq!(log.durable_end(), Offset::new(3));
        assert_eq!(log.visible_end(log.end()), Offset::new(2));
        assert_eq!(
            all_bytes(&read_all(&log).await),
            all_bytes(std::slice::from_ref(&before))
        );
        log.close().await.unwrap();

        // Known without reading after a clean closing, and by reading after a kill.
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!(log.visible_end(log.end()), Offset::new(2));
        assert_eq!((log.end(), recovery.cut_bytes), (Offset::new(3), 0));
        kill(log);
        let (log, _) = Log::open(dir.path(), SMALL, promotion()).await.unwrap();
        assert_eq!(log.end(), Offset::new(4));
        assert_eq!(log.visible_end(log.end()), Offset::new(2), "two in a row");
        kill(log);
        let (mut log, _) = open(&dir, SMALL).await;
        assert_eq!(log.visible_end(log.end()), Offset::new(2));
        let after = append(&mut log, 1, 10);
        assert_eq!(after.base_offset(), Offset::new(4));
        assert_eq!(log.visible_end(log.end()), Offset::new(5));
        assert_eq!(
            all_bytes(&read_all(&log).await),
            all_bytes(&[before, after.clone()])
        );
        // From inside the gap: what follows it.
        let read = log.read(Offset::new(2), log.end(), 1).run().await.unwrap();
        assert_eq!(all_bytes(&batches(read)), all_bytes(&[after]));
    });
}

#[test]
fn after_a_clean_closing_an_opening_reads_only_the_tail() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        let mut expected = Vec::new();
        for now in 0..200 {
            let sent = batch(&[5], 300);
            let placed = log.append(sent, Timestamps::Append, Timestamp(now));
            expected.push(placed.unwrap());
        }
        let batch_bytes = expected[0].bytes().len();
        log.close().await.unwrap();
        let (log, recovery) = open(&dir, LARGE).await;
        assert_eq!((recovery.rebuilt_indexes, recovery.cut_bytes), (0, 0));
        // From the last entry of the offset index, which is at most one interval and two batches
        // before the end.
        let most = 4096 / batch_bytes as u64 + 2;
        assert!(recovery.scanned_batches <= most, "{recovery:?}");
        assert_holds(&log, &expected).await;
    });
}

#[test]
fn an_opening_is_idempotent() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        let expected: Vec<_> = (0..9).map(|_| append(&mut log, 1, 250)).collect();
        kill(log);
        let last = files(&dir, "log").pop().unwrap();
        let mut torn = std::fs::read(&last).unwrap();
        torn.extend([7; 20]);
        std::fs::write(&last, torn).unwrap();
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!(recovery.cut_bytes, 20);
        kill(log);
        for _ in 0..3 {
            let (log, recovery) = open(&dir, SMALL).await;
            assert_eq!(recovery.cut_bytes, 0);
            assert_holds(&log, &expected).await;
            kill(log);
        }
    });
}

#[test]
fn a_closing_after_which_nothing_was_written_writes_nothing() {
    run(async {
        for count in [0, 9] {
            let dir = tempfile::tempdir().unwrap();
            let (mut log, _) = open(&dir, SMALL).await;
            let expected: Vec<_> = (0..count).map(|_| append(&mut log, 1, 250)).collect();
            log.close().await.unwrap();
            let found = || {
                let entries = std::fs::read_dir(dir.path()).unwrap();
                let files = entries.map(|entry| {
                    let entry = entry.unwrap();
                    (entry.file_name(), entry.metadata().unwrap().ino())
                });
                // An opening raises the generation.
                let files = files.filter(|(name, _)| name != "generations");
                files.collect::<BTreeMap<_, _>>()
            };
            let before = found();
            let (log, _) = open(&dir, SMALL).await;
            log.close().await.unwrap();
            assert_eq!(found(), before, "a file was replaced");
            let (mut log, recovery) = open(&dir, SMALL).await;
            assert_eq!(recovery.rebuilt_indexes, 0);
            append(&mut log, 1, 250);
            log.close().await.unwrap();
            assert_ne!(found(), before);
            let (log, recovery) = open(&dir, SMALL).await;
            assert_eq!(recovery.rebuilt_indexes, 0);
            assert_eq!(
                all_bytes(&read_all(&log).await[..count]),
                all_bytes(&expected)
            );
        }
    });
}
