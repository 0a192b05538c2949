//! Tells the program which commit it was built from, where git knows.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for path in ["build.rs", "src"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let manifest_dir = std::env::var("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let Some(root) = manifest_dir
        .ok()
        .and_then(|dir| Some(dir.parent()?.to_owned()))
    else {
        return;
    };
    if let Some(commit) = commit(&root) {
        println!("cargo::rustc-env=FELIX_BENCH_COMMIT={commit}");
    }
}

/// The short commit, and whether files differ from it.
fn commit(root: &Path) -> Option<String> {
    // The sources may have been copied into a repository that knows nothing of them.
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let branch = git(root, &["rev-parse", "--symbolic-full-name", "HEAD"])?;
    for name in ["HEAD", "index", "packed-refs", &branch] {
        let path = git(root, &["rev-parse", "--git-path", name])?;
        // A path that is not there would have this run in every build.
        if root.join(&path).exists() {
            println!("cargo::rerun-if-changed={}", root.join(path).display());
        }
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    // Without the lock, so that looking does not renew the index and with it this very answer.
    let changes = git(root, &["--no-optional-locks", "status", "--porcelain"])?;
    let state = if changes.is_empty() {
        ""
    } else {
        ", with changes"
    };
    Some(format!("{commit}{state}"))
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
