//! The two files that every log has from its beginning: whoever keeps a list of logs writes them
//! before it notes that the log is there, so that one that is noted and lacks them is known to be
//! lost and is not mistaken for a new one.

use super::checkpoint::{self, Checkpoint};
use super::generations::{self, Generations};
use crate::disk::{is_empty, is_gone};
use felix_core::{Offset, Timestamp};
use std::path::Path;

/// Names and bytes of the files of a log that has no records and was never opened. To be put
/// beside no others.
#[must_use]
pub fn founding_files() -> [(&'static str, Vec<u8>); 2] {
    let beginning = Offset::default();
    let checkpoint = Checkpoint {
        recovery_point: beginning,
        start: beginning,
        visible_end: beginning,
        append_time: Timestamp::default(),
        begun: None,
        appended: Vec::new(),
    };
    [
        (checkpoint::NAME, checkpoint.encode()),
        (generations::NAME, Generations::default().encode()),
    ]
}

/// What of a log that was founded is not there; `None`: all is there, or it cannot be told, which
/// the opening will find out.
#[must_use]
pub fn what_is_missing(dir: &Path) -> Option<String> {
    if is_gone(dir) {
        return Some("the directory is missing".into());
    }
    if is_empty(dir) {
        return Some("the directory is empty".into());
    }
    let files = [checkpoint::NAME, generations::NAME];
    let gone = files.iter().find(|name| is_gone(&dir.join(name)))?;
    Some(format!("its file {gone} is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_lacks_its_directory_or_one_of_the_two_files_or_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("shard");
        let missing = || what_is_missing(&dir);
        assert_eq!(missing().unwrap(), "the directory is missing");
        std::os::unix::fs::symlink("/not mounted", &dir).unwrap();
        assert_eq!(missing().unwrap(), "the directory is missing");
        std::fs::remove_file(&dir).unwrap();
        std::fs::write(&dir, "").unwrap();
        assert_eq!(missing().unwrap(), "its file checkpoint is missing");
        std::fs::remove_file(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        assert_eq!(missing().unwrap(), "the directory is empty");
        for (name, bytes) in founding_files() {
            assert!(missing().is_some());
            std::fs::write(dir.join(name), bytes).unwrap();
        }
        assert_eq!(missing(), None);
        std::fs::remove_file(dir.join("generations")).unwrap();
        assert_eq!(missing().unwrap(), "its file generations is missing");
    }
}
