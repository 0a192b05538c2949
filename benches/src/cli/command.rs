//! What can be asked for.

use super::{floor, footprint, race, run, siege};
use clap::Command;

const ABOUT: &str =
    "Measures brokers that speak Kafka, with an open loop and beside the floors of the machine";

const LONG_ABOUT: &str = "\
Measures brokers that speak Kafka, with an open loop and beside the floors of the machine.

Each request has a time at which it is due, whatever became of those before it, and its latency \
counts from then: a stall is seen by all requests that would have come meanwhile (coordinated \
omission is corrected). Sides take turns, and each figure is also told as a multiple of its floor, \
which is what this machine does at least.";

const EXAMPLES: &str = "\
Examples:
  felix-bench race --quick
      A fresh Felix broker against the floors, in two minutes
  felix-bench run --target 127.0.0.1:9092 --topic load --rate 10000 --html report.html
      Produces 10,000 records a second to any broker, and writes a report with plots
  felix-bench run --target felix=10.0.0.1:9092 --target kafka=10.0.0.2:9092 --topic load \\
      --workload end-to-end --rate 1000,10000,50000
      Two brokers in turns, at three rates";

/// The program.
pub(super) fn command() -> Command {
    Command::new("felix-bench")
        .about(ABOUT)
        .long_about(LONG_ABOUT)
        .after_help(EXAMPLES)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run::command())
        .subcommand(race::command())
        .subcommand(siege::command())
        .subcommand(floor::command())
        .subcommand(footprint::command())
}
