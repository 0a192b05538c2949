//! The texts of the repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 9] = [
    "target",
    ".git",
    ".venv",
    "felix-data",
    "__pycache__",
    "corpus",
    "node_modules",
    "built",
    // Not our code.
    "vendor",
];

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct File {
    /// Relative to the root, with forward slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Where this workspace begins.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("this crate lies two folders below the root")
        .to_path_buf()
}

/// Every text file below `root`, sorted. Files that are not UTF-8 are fixtures, not text.
///
/// # Errors
/// A folder or file cannot be read.
pub fn files(root: &Path) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name();
            // In a linked worktree `.git` is a file.
            if SKIPPED.iter().any(|skipped| name == *skipped) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(fs::read(&path)?)
            {
                let path = path.strip_prefix(root).expect("the walk began at the root");
                found.push(File {
                    path: path.to_string_lossy().into_owned(),
                    text,
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
