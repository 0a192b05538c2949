//! Appending, rolling, flushing.

use super::*;

#[test]
fn offsets_follow_each_other_and_bytes_come_back_as_placed() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        assert_eq!((log.start(), log.end()), (Offset::ZERO, Offset::ZERO));
        let first = append(&mut log, 3, 10);
        let second = append(&mut log, 2, 10);
        assert_eq!(first.base_offset(), Offset::ZERO);
        assert_eq!(second.base_offset(), Offset::new(3));
        assert_eq!(log.end(), Offset::new(5));
        assert_eq!(log.durable_end(), Offset::ZERO);
        let written = first.bytes().len() + second.bytes().len();
        assert_eq!(log.dirty_bytes(), written as u64);
        flush(&mut log).await;
        assert_holds(&log, &[first, second]).await;
    });
}

#[test]
fn append_time_never_goes_backwards_not_even_across_openings() {
    run(async {
        let stamp = |log: &mut Log, now| {
            let placed = log.append(batch(&[5], 1), Timestamps::Append, Timestamp(now));
            placed.unwrap().max_timestamp()
        };
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        assert_eq!(stamp(&mut log, 900), Timestamp(900));
        assert_eq!(stamp(&mut log, 100), Timestamp(900));
        kill(log);
        let (mut log, _) = open(&dir, LARGE).await;
        assert_eq!(stamp(&mut log, 100), Timestamp(900), "the batches say so");
        // So far from the end that the next opening reads none of them.
        for timestamp in 1000..1040 {
            let sent = batch(&[timestamp], 300);
            log.append(sent, Timestamps::Create, NOW).unwrap();
        }
        log.close().await.unwrap();
        let (mut log, recovery) = open(&dir, LARGE).await;
        assert!(recovery.scanned_batches < 30);
        assert_eq!(
            stamp(&mut log, 100),
            Timestamp(900),
            "the checkpoint says so"
        );
    });
}

#[test]
fn a_segment_is_rolled_before_it_would_grow_past_its_size() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let probe = batch(&[5], 100).size() as u64;
        let config = LogConfig {
            segment_bytes_max: 3 * probe,
            ..SMALL
        };
        let (mut log, _) = open(&dir, config).await;
        for _ in 0..3 {
            append(&mut log, 1, 100);
        }
        assert_eq!(files(&dir, "log").len(), 1, "exactly full");
        append(&mut log, 1, 100);
        let names: Vec<_> = files(&dir, "log");
        assert_eq!(names.len(), 2);
        assert!(names[1].ends_with("00000000000000000003.log"));
        assert_eq!(std::fs::metadata(&names[0]).unwrap().len(), 3 * probe);
    });
}

#[test]
fn a_batch_larger_than_a_segment_gets_one_of_its_own() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        let mut expected = vec![append(&mut log, 1, 10)];
        expected.push(append(&mut log, 1, 5000));
        expected.push(append(&mut log, 1, 10));
        assert_eq!(files(&dir, "log").len(), 3);
        flush(&mut log).await;
        assert_holds(&log, &expected).await;
        // Even where it is the first of an empty log.
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        append(&mut log, 1, 5000);
        append(&mut log, 1, 10);
        assert_eq!(files(&dir, "log").len(), 2);
    });
}

#[test]
fn a_flush_covers_what_was_written_before_it_and_no_more() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        append(&mut log, 1, 300);
        let early = log.flush().unwrap();
        let late: Vec<_> = (0..10).map(|_| append(&mut log, 1, 300)).collect();
        let flushed = early.run().await;
        log.flushed(flushed).unwrap();
        assert_eq!(log.durable_end(), Offset::new(1));
        let late_bytes: usize = late.iter().map(|batch| batch.bytes().len()).sum();
        assert_eq!(log.dirty_bytes(), late_bytes as u64);
        assert_eq!(
            log.recovery_point(),
            Offset::ZERO,
            "no segment was full yet"
        );
        flush(&mut log).await;
        assert_eq!(log.recovery_point(), log.end());
        assert!(
            files(&dir, "index").len() >= 3,
            "full segments have their indexes"
        );
        assert_eq!(files(&dir, "tmp").len(), 0);
    });
}

#[test]
#[should_panic(expected = "one flush of a log at a time")]
fn a_second_flush_is_not_begun_while_the_first_has_not_returned() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        append(&mut log, 1, 300);
        let _first = log.flush().unwrap();
        let _second = log.flush();
    });
}

#[test]
fn records_are_durable_before_the_index_files_of_their_segment_are_written() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        let mut batches: Vec<_> = (0..2).map(|_| append(&mut log, 1, 700)).collect();
        let flushed = log.flush().unwrap().run().await;
        log.flushed(flushed).unwrap();
        assert_eq!(log.durable_end(), log.end());
        assert!(log.flush().is_none());
        assert!(log.is_unindexed());
        assert_eq!(log.recovery_point(), Offset::ZERO);
        assert!(files(&dir, "index").is_empty());

        // What is written meanwhile is not claimed, and may be flushed meanwhile.
        batches.push(append(&mut log, 1, 700));
        let upkeep = log.upkeep().unwrap();
        let flushed = log.flush().unwrap().run().await;
        let kept_up = upkeep.run().await;
        log.flushed(flushed).unwrap();
        log.kept_up(kept_up).unwrap();
        assert_eq!(log.recovery_point(), Offset::new(2));
        assert_eq!(files(&dir, "index").len(), 1);
        assert!(log.is_unindexed(), "of the segment that was full meanwhile");
        assert_holds(&log, &batches).await;

        // Closing leaves none without.
        log.close().await.unwrap();
        assert_eq!(files(&dir, "index").len(), 3);
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!((recovery.rebuilt_indexes, recovery.cut_bytes), (0, 0));
        assert_holds(&log, &batches).await;
    });
}
