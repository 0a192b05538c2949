//! Notes of the crashes that came while a thread was at work for this log's shard: one that brings
//! the process down time and again is not opened any more, so that the others are served. Drawn in
//! `docs/log-format.md`.

use super::error::{LogError, disk_error_in};
use crate::disk::{self, Calls};
use bytes::{Buf, BufMut};
use felix_core::Timestamp;
use std::io;
use std::path::{Path, PathBuf};

/// The file's name. Who wants the log to be opened all the same removes it.
pub(super) const NAME: &str = "crashes";

const MAGIC: [u8; 4] = *b"FLXX";

/// A note: magic, time, and the checksum of both.
const NOTE_BYTES: usize = 16;

/// A file that would be longer is begun anew: only the last few notes count.
const FILE_BYTES_MAX: u64 = 64 * NOTE_BYTES as u64;

/// So many crashes within the window are too many.
const CRASHES_MAX: usize = 3;

const WINDOW_MS: u64 = 10 * 60 * 1000;

/// Where the crashes of the shard with its log in `directory` are noted.
pub(crate) fn crash_notes(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Adds a note to the file `path`, for a process that is about to end. It is not synced: a power
/// loss ends a row of crashes, too.
pub(crate) fn note_crash(path: &Path, now: Timestamp) -> io::Result<()> {
    disk::add_to_file(path, &note(now), FILE_BYTES_MAX)
}

/// Refuses a log whose shard brought the process down too often. Notes that are not as they were
/// written count as none, and go, so that the next crashes count.
pub(super) fn judge(calls: &Calls<'_>) -> Result<(), LogError> {
    let failed = |doing, cause| disk_error_in(calls.path(), doing, NAME, cause);
    let Some(size) = calls.size_of(NAME).map_err(|e| failed("measure", e))? else {
        return Ok(());
    };
    let times = if size > FILE_BYTES_MAX {
        None
    } else {
        let notes = calls.load(NAME).map_err(|e| failed("read", e))?;
        times(&notes.unwrap_or_default())
    };
    match times {
        Some(times) if are_too_many(&times) => Err(LogError::CrashLoop {
            dir: calls.path().to_owned(),
        }),
        Some(_) => Ok(()),
        None => {
            let dir = calls.path().display();
            tracing::warn!(%dir, "damaged notes of crashes count as none");
            calls.remove(NAME).map_err(|e| failed("remove", e))
        }
    }
}

/// What an opening makes of such notes, for people.
pub(super) fn told(notes: &[u8]) -> Option<String> {
    let is_refused = times(notes).is_some_and(|times| are_too_many(&times));
    is_refused.then(|| {
        format!(
            "the broker crashed {CRASHES_MAX} times within ten minutes while it was at work for this \
             shard: it is not opened until the file {NAME} is removed"
        )
    })
}

fn note(now: Timestamp) -> [u8; NOTE_BYTES] {
    let mut note = [0; NOTE_BYTES];
    let (body, mut checksum) = note.split_at_mut(NOTE_BYTES - 4);
    let mut rest = &mut *body;
    rest.put_slice(&MAGIC);
    rest.put_i64(now.0);
    checksum.put_u32(crc32c::crc32c(body));
    note
}

/// When the crashes were; `None`: something else wrote that, or part of it is lost.
fn times(notes: &[u8]) -> Option<Vec<Timestamp>> {
    let (notes, rest) = notes.as_chunks::<NOTE_BYTES>();
    let time = |found: &[u8; NOTE_BYTES]| {
        let mut fields = found.get(MAGIC.len()..)?;
        let time = Timestamp(fields.get_i64());
        (note(time) == *found).then_some(time)
    };
    let times: Option<Vec<Timestamp>> = notes.iter().map(time).collect();
    times.filter(|_| rest.is_empty())
}

/// Only the last ones are looked at, and against each other: once they are too many, waiting does
/// not make them fewer, for the next one would take the whole broker with it again.
fn are_too_many(times: &[Timestamp]) -> bool {
    let first = times.iter().rev().nth(CRASHES_MAX - 1);
    match (first, times.last()) {
        (Some(first), Some(last)) => last.0.abs_diff(first.0) <= WINDOW_MS,
        (None, _) | (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MINUTE_MS: i64 = 60 * 1000;

    #[test]
    fn the_bytes_of_a_note_are_those_of_the_format_page() {
        let note = note(Timestamp(258));
        assert_eq!(note[..12], *b"FLXX\0\0\0\0\0\0\x01\x02");
        assert_eq!(note[12..], crc32c::crc32c(&note[..12]).to_be_bytes());
        assert_eq!(times(&note), Some(vec![Timestamp(258)]));
    }

    #[test]
    fn three_of_the_last_crashes_within_ten_minutes_are_too_many_whichever_way_the_clock_was_put() {
        for (minutes, are) in [
            (&[][..], false),
            (&[5, 6], false),
            (&[0, 4, 10], true),
            (&[0, 4, 11], false),
            (&[0, 1, 2, 60, 61], false),
            (&[0, 60, 61, 70], true),
            (&[60, 55, 54], true),
        ] {
            let times: Vec<_> = minutes.iter().map(|n| Timestamp(n * MINUTE_MS)).collect();
            assert_eq!(are_too_many(&times), are, "{minutes:?}");
        }
    }

    #[test]
    fn notes_that_are_flipped_or_cut_anywhere_are_not_believed() {
        let whole = [note(Timestamp(1)), note(Timestamp(2))].concat();
        for place in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[place] ^= 1;
            assert_eq!(times(&flipped), None);
            let cut = times(&whole[..place]);
            assert_eq!(cut.is_some(), place % NOTE_BYTES == 0);
        }
        assert_eq!(times(&[0; NOTE_BYTES]), None);
    }

    #[test]
    fn a_file_of_many_notes_begins_anew_and_takes_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let file = crash_notes(dir.path());
        for time in 0..100 {
            note_crash(&file, Timestamp(time)).unwrap();
            let notes = fs::read(&file).unwrap();
            assert!(notes.len() as u64 <= FILE_BYTES_MAX);
            assert_eq!(times(&notes).unwrap().pop(), Some(Timestamp(time)));
        }
    }
}
