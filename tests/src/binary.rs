//! The broker's executable, built beside the test that runs it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The executable of this build's profile, brought up to date once per test process.
///
/// `FELIX_TESTS_BROKER` names another one.
#[must_use]
pub fn broker() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("FELIX_TESTS_BROKER") {
        Some(path) => path.into(),
        None => build("felix-broker"),
    })
}

/// The executable of `felix-log`, of this build's profile as well.
#[must_use]
pub(crate) fn felix_log() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| build("felix-log"))
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate lies in the repository")
}

fn build(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    // <target>/<profile>/deps/<test>
    let profile_dir = test
        .ancestors()
        .nth(2)
        .expect("cargo puts tests two folders down");
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is no folder that cargo makes", profile_dir.display()),
    };
    let target = profile_dir
        .parent()
        .expect("a profile lies in the target folder");
    // The same packages as `cargo test --workspace` builds, so that the same builds are used.
    let built = Command::new(env!("CARGO"))
        .current_dir(root())
        .args([
            "build",
            "--quiet",
            "--package",
            "felix-broker",
            "--bin",
            name,
        ])
        .args(["--profile", profile])
        .env("CARGO_TARGET_DIR", target)
        .status()
        .expect("cargo runs, since it runs this test");
    assert!(built.success(), "{name} does not build");
    profile_dir.join(name)
}
