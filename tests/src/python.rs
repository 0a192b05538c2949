//! Scripts over confluent-kafka, run in the environment that `scripts/setup-test.sh` makes.

use crate::binary::root;
use crate::process::{Finished, Process};
use std::process::Command;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(300);

/// Starts a script of `tests/python` and does not wait for it.
#[must_use]
pub fn start(script: &str, args: &[&str], input: Option<Vec<u8>>) -> Process {
    let folder = root().join("tests/python");
    let python = folder.join(".venv/bin/python");
    assert!(
        python.exists(),
        "{} is missing; `make test`, or scripts/setup-test.sh alone, sets it up",
        python.display()
    );
    let mut command = Command::new(python);
    command.arg(folder.join(script)).args(args);
    Process::start(&format!("{script} {}", args.join(" ")), &mut command, input)
}

/// Runs a script to its end and asserts that it succeeds.
#[must_use]
pub fn run(script: &str, args: &[&str], input: Option<Vec<u8>>) -> Finished {
    start(script, args, input).finish(TIMEOUT).ok()
}
