//! What can be asked for.

use clap::{Arg, ArgAction, Command};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  felix-log verify ./felix-data
      Reads every batch of every shard, and says what an opening would make of each fault
  felix-log dump ./felix-data/streams/dev/*/default.clicks-0 --from 1000 --limit 10 --records
      Ten batches from offset 1000 on, with their records
  felix-log stat ./felix-data --json
      What each shard holds, as JSON lines

Exit codes: 0, all is well; 1, a fault was found, or something could not be read; 2, the arguments
make no sense, or what they name is not a log.";

/// The program.
pub(crate) fn command() -> Command {
    Command::new("felix-log")
        .about("Looks at the files of Felix's logs, and never writes to them; measures the log")
        .after_help(EXAMPLES)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(dump())
        .subcommand(verify())
        .subcommand(stat())
        .subcommand(crate::bench::arguments(Command::new("bench")))
        .subcommand(crate::bench::part_arguments())
}

fn path(help: &'static str) -> Arg {
    Arg::new("path")
        .value_name("PATH")
        .required(true)
        .value_parser(clap::value_parser!(PathBuf))
        .help(help)
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

fn number(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .value_parser(clap::value_parser!(u64))
        .help(help)
}

fn json() -> Arg {
    switch("json", "JSON, one object a line")
}

fn dump() -> Command {
    Command::new("dump")
        .about("Shows what is in a file of a log, or in all files of a shard's directory")
        .arg(path("A .log, .index or .timeindex file, checkpoint, generations, producers, or a shard's directory"))
        .arg(json())
        .arg(switch("records", "Shows the records of each batch: keys, values and headers"))
        .arg(number("from", "OFFSET", "From the batch on that holds this offset"))
        .arg(number("limit", "N", "At most so many batches, or entries of an index"))
}

fn verify() -> Command {
    Command::new("verify")
        .about("Reads every batch and index entry, and tells each fault with what an opening makes of it")
        .arg(path("A shard's directory, or a broker's data directory"))
        .arg(json())
}

fn stat() -> Command {
    Command::new("stat")
        .about("Counts what is in each shard, and in all of them")
        .arg(path("A shard's directory, or a broker's data directory"))
        .arg(json())
}
