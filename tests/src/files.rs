//! Files of a shard's directory.

use std::path::{Path, PathBuf};

/// Those with this ending, in the order of their names.
#[must_use]
pub fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("the directory can be read");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let has_ending = |path: &PathBuf| path.extension().is_some_and(|found| found == ending);
    let mut files: Vec<PathBuf> = paths.filter(has_ending).collect();
    files.sort();
    files
}
