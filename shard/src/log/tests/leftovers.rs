//! Segments that a disk brings back.

use super::*;
use crate::log::inspect::{Options, verify};

const OPTIONS: Options = Options { is_in_use: false };

/// A log whose third segment an opening dropped as behind a cut in the second, and that has grown
/// past where it began since; its file; all that the log has.
async fn grown_past_a_dropped_segment() -> (TempDir, PathBuf, Vec<u8>, Vec<PlacedBatch>) {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(&dir, SMALL).await;
    let mut all: Vec<_> = (0..12).map(|_| append(&mut log, 2, 100)).collect();
    kill(log);
    let segments = files(&dir, "log");
    let third = segments[2].clone();
    let dropped = std::fs::read(&third).unwrap();
    let mut second = std::fs::read(&segments[1]).unwrap();
    let last = second.len() - 1;
    second[last] ^= 1;
    std::fs::write(&segments[1], second).unwrap();
    let (mut log, recovery) = open(&dir, LARGE).await;
    assert!(recovery.cut_bytes > 0 && !third.exists());
    all.truncate(usize::try_from(log.end().get()).unwrap() / 2);
    all.extend((0..12).map(|_| append(&mut log, 2, 100)));
    kill(log);
    (dir, third, dropped, all)
}

#[test]
fn a_segment_that_was_dropped_and_is_there_again_takes_nothing_of_what_was_written_since() {
    run(async {
        for comes_back in [None, Some(0), Some(100), Some(usize::MAX)] {
            let (dir, third, mut dropped, all) = grown_past_a_dropped_segment().await;
            if let Some(bytes) = comes_back {
                dropped.truncate(bytes);
                std::fs::write(&third, &dropped).unwrap();
            }
            let verdict = verify(dir.path(), OPTIONS, &mut |_, _, _| {}).unwrap();
            assert_eq!(verdict.findings, []);
            assert_eq!(verdict.notes.len(), usize::from(comes_back.is_some()));
            let (log, recovery) = open(&dir, LARGE).await;
            assert_holds(&log, &all).await;
            assert!(!third.exists());
            assert_eq!(recovery.cut_bytes, 0);
        }
    });
}

#[test]
fn a_segment_that_is_of_this_log_is_no_leftover_and_the_one_before_it_is_refused() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        for _ in 0..12 {
            append(&mut log, 2, 100);
        }
        log.close().await.unwrap();
        // The second segment's batches stand in the first one, too.
        let segments = files(&dir, "log");
        let mut first = std::fs::read(&segments[0]).unwrap();
        first.extend(std::fs::read(&segments[1]).unwrap());
        std::fs::write(&segments[0], first).unwrap();
        let before: Vec<_> = files(&dir, "log");
        let refused = Log::open(dir.path(), SMALL, restart()).await;
        let error = refused.expect_err("the segments overlap").to_string();
        assert!(error.contains(".log"), "{error}");
        assert_eq!(files(&dir, "log"), before, "nothing was removed");
    });
}
