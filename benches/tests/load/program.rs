//! Running the program.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program under test, with nothing of our own settings.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_felix-bench"));
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("it starts")
}

/// What it said on standard error.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs it to its end, which must be a good one: the object it printed.
pub(crate) fn object(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).expect("it printed an object")
}

/// The side of that name in the n-th comparison of an object.
pub(crate) fn side<'a>(object: &'a Value, comparison: usize, name: &str) -> &'a Value {
    let sides = object["comparisons"][comparison]["sides"]
        .as_array()
        .expect("it has sides");
    let side = sides.iter().find(|side| side["name"] == name);
    side.unwrap_or_else(|| panic!("no side {name} in {object:#}"))
}

/// The samples of each of its rounds.
pub(crate) fn samples(side: &Value) -> Vec<u64> {
    let rounds = side["rounds"].as_array().expect("it has rounds");
    rounds
        .iter()
        .map(|round| round["samples"].as_u64().expect("a count"))
        .collect()
}

/// Nothing was refused or left without an answer.
pub(crate) fn assert_unharmed(side: &Value) {
    assert_eq!(side["unanswered"], 0, "{side:#}");
    assert!(
        side["errors"]
            .as_object()
            .is_some_and(serde_json::Map::is_empty),
        "{side:#}"
    );
}

/// A file as an argument.
pub(crate) fn path(path: &Path) -> &str {
    path.to_str().expect("paths of tests are plain")
}
