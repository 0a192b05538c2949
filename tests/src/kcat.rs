//! kcat, the client most people try first.

use crate::process::{Finished, Process};
use crate::record::{FORMAT, Record};
use std::process::Command;
use std::time::Duration;

/// Longer than any client waits by itself before it gives up.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Starts kcat against a bootstrap address and does not wait for it.
#[must_use]
pub fn start(bootstrap: &str, args: &[&str], input: Option<Vec<u8>>) -> Process {
    let mut command = Command::new("kcat");
    command.args(["-b", bootstrap]).args(args);
    Process::start(&format!("kcat {}", args.join(" ")), &mut command, input)
}

/// Runs kcat to its end, however it ends.
#[must_use]
pub fn run(bootstrap: &str, args: &[&str], input: Option<Vec<u8>>) -> Finished {
    start(bootstrap, args, input).finish(TIMEOUT)
}

/// What kcat prints, asserting that it succeeds.
#[must_use]
pub fn output(bootstrap: &str, args: &[&str]) -> String {
    run(bootstrap, args, None).ok().text()
}

/// Produces one record per line.
pub fn produce(bootstrap: &str, topic: &str, partition: i32, lines: &str) {
    let partition = partition.to_string();
    let args = ["-P", "-t", topic, "-p", &partition];
    drop(run(bootstrap, &args, Some(lines.into())).ok());
}

/// What kcat prints of a topic from `from` to the ends of its partitions, as `format` says, or one of
/// them where `only` names it.
#[must_use]
pub fn read(bootstrap: &str, topic: &str, only: Option<&str>, from: &str, format: &str) -> String {
    let finished = run(bootstrap, &reading(topic, only, from, format), None);
    finished.ok().text()
}

/// Everything a topic holds, each partition in its order.
#[must_use]
pub fn read_all(bootstrap: &str, topic: &str) -> Vec<Record> {
    let args = reading(topic, None, "beginning", FORMAT);
    Record::parse_all(&run(bootstrap, &args, None).ok().stdout)
}

fn reading<'a>(
    topic: &'a str,
    only: Option<&'a str>,
    from: &'a str,
    format: &'a str,
) -> Vec<&'a str> {
    let mut args = vec!["-C", "-t", topic, "-o", from, "-e", "-q", "-f", format];
    // Retention may go on between its question where the log begins and its first fetch, and then it
    // would begin at the end.
    args.extend(["-X", "topic.auto.offset.reset=earliest"]);
    if let Some(partition) = only {
        args.extend(["-p", partition]);
    }
    args
}
