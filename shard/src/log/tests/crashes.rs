//! Logs whose shards brought the process down.

use super::*;
use crate::log::crashes::{NAME, crash_notes, note_crash};
use crate::log::inspect::{Options, verify};
use std::fs;

const MINUTE_MS: i64 = 60 * 1000;

/// A log with a batch, whose shard crashed at these minutes since.
async fn crashed(minutes: &[i64]) -> (TempDir, PlacedBatch) {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(&dir, SMALL).await;
    let placed = append(&mut log, 1, 10);
    log.close().await.unwrap();
    for minute in minutes {
        note_crash(&crash_notes(dir.path()), Timestamp(minute * MINUTE_MS)).unwrap();
    }
    (dir, placed)
}

fn read_files(dir: &TempDir) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir.path()).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_log_whose_shard_crashed_time_and_again_is_opened_once_the_notes_are_gone() {
    run(async {
        let (dir, placed) = crashed(&[0, 4, 10]).await;
        let before = read_files(&dir);
        let error = Log::open(dir.path(), SMALL, restart()).await.unwrap_err();
        let sentence = error.to_string();
        let file = dir.path().join(NAME);
        let cure = format!("remove {} ", file.display());
        assert!(sentence.contains(&cure), "{sentence}");
        assert!(error.may_pass() && !error.leaves_doubt());
        assert_eq!(read_files(&dir), before);
        let options = Options { is_in_use: false };
        let said = verify(dir.path(), options, &mut |_, _, _| {}).unwrap();
        assert!(
            said.notes
                .iter()
                .any(|note| note.contains("crashed 3 times"))
        );

        fs::remove_file(file).unwrap();
        let (log, _) = open(&dir, SMALL).await;
        assert_holds(&log, &[placed]).await;
    });
}

#[test]
fn a_log_whose_shard_crashed_now_and_then_is_opened_and_the_notes_stay() {
    run(async {
        let (dir, placed) = crashed(&[0, 1, 100]).await;
        let (log, _) = open(&dir, SMALL).await;
        assert_holds(&log, &[placed]).await;
        assert!(dir.path().join(NAME).exists());
    });
}

#[test]
fn damaged_notes_of_crashes_count_as_none_and_go() {
    run(async {
        let (dir, placed) = crashed(&[0, 1, 2]).await;
        let file = dir.path().join(NAME);
        let whole = fs::read(&file).unwrap();
        for damaged in [&whole[..whole.len() - 1], &whole[1..], &[0; 1 << 20]] {
            fs::write(&file, damaged).unwrap();
            let (log, _) = open(&dir, SMALL).await;
            assert_holds(&log, std::slice::from_ref(&placed)).await;
            assert!(!file.exists());
        }
    });
}
