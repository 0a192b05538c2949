//! The broker's executable, built beside this one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The release executable in the target directory of this program, brought up to date.
pub(crate) fn broker() -> PathBuf {
    let figures = std::env::current_exe().expect("a running program has a path");
    // <target>/release/figures
    let target = figures.ancestors().nth(2).expect("cargo puts it there");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let built = Command::new(env!("CARGO"))
        .current_dir(root.expect("this crate lies in the repository"))
        .args(["build", "--quiet", "--release", "--locked"])
        .args(["--package", "felix-broker", "--bin", "felix-broker"])
        .env("CARGO_TARGET_DIR", target)
        .status()
        .expect("cargo runs, since it built this program");
    assert!(built.success(), "felix-broker does not build");
    target.join("release/felix-broker")
}
