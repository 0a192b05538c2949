//! What a program has printed.

use std::process::Output;

/// Its standard output, JSON line by line.
pub(crate) fn lines(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// All it said.
pub(crate) fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(text).unwrap()
}
