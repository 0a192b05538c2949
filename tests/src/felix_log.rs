//! `felix-log`, which looks at the files of logs from outside.

use crate::binary;
use crate::process::Process;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(120);

/// Each fault that it finds in the logs of a data directory, in its words.
#[must_use]
pub fn faults(data: &Path) -> Vec<String> {
    let mut command = Command::new(binary::felix_log());
    command.arg("verify").arg(data).arg("--json");
    let finished = Process::start("felix-log verify", &mut command, None).finish(TIMEOUT);
    let text = finished.text();
    let shards = text
        .lines()
        .filter(|line| line.contains("\"type\":\"shard\""));
    assert!(
        shards.count() > 0,
        "no shard was looked at: {}",
        finished.stderr
    );
    let faults = text
        .lines()
        .filter(|line| line.contains("\"type\":\"fault\""));
    faults.map(str::to_owned).collect()
}

/// Everything that it shows of a file of a log, one JSON object a line, faults or not.
#[must_use]
pub fn dump(file: &Path) -> Vec<String> {
    let mut command = Command::new(binary::felix_log());
    command.arg("dump").arg(file).arg("--json");
    let finished = Process::start("felix-log dump", &mut command, None).finish(TIMEOUT);
    finished.text().lines().map(str::to_owned).collect()
}
