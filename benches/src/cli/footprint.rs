//! `felix-bench footprint`.

use super::{complain, misused, value};
use crate::contest::Progress;
use crate::footprint::{self, FootprintPlan};
use crate::{broker, pin};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::PathBuf;
use std::process::ExitCode;

/// What it takes.
pub(super) fn command() -> Command {
    let path = clap::value_parser!(PathBuf);
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .action(ArgAction::SetTrue)
            .help(help)
    };
    Command::new("footprint")
        .about("What a fresh Felix broker costs that has nothing to do: processor time and memory")
        .arg(switch("quick", "A quarter of everything"))
        .arg(switch("json", "One JSON object instead of a table"))
        .arg(switch("quiet", "Says nothing of the progress"))
        .arg(Arg::new("broker").long("broker").value_name("FILE").value_parser(path.clone())
            .help("The felix-broker to start; default: the one beside this program, or on the path"))
        .arg(Arg::new("dir").long("dir").value_name("DIRECTORY").value_parser(path)
            .help("Where its data lies meanwhile; default: the temporary directory"))
        .arg(Arg::new("broker-cpu").long("broker-cpu").value_name("N")
            .value_parser(value::number(0, 4095))
            .help("The processor of the broker; default: the first that is allowed"))
}

/// Runs it.
#[expect(
    clippy::print_stdout,
    reason = "a command line program prints what it found"
)]
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let cpu = matches
        .get_one::<u64>("broker-cpu")
        .and_then(|cpu| usize::try_from(*cpu).ok());
    let cpu = cpu
        .or_else(|| pin::allowed().first().copied())
        .unwrap_or_default();
    let plan = match matches.get_flag("quick") {
        true => FootprintPlan::quick(vec![cpu]),
        false => FootprintPlan::full(vec![cpu]),
    };
    let binary = match path("broker").map_or_else(broker::find_binary, Ok) {
        Ok(binary) => binary,
        Err(problem) => return misused(&problem),
    };
    let dir = path("dir").unwrap_or_else(std::env::temp_dir);
    let progress = Progress::new(matches.get_flag("quiet"));
    let taken = footprint::take(&plan, &binary, &dir, |what| progress.say(what));
    progress.end();
    match taken {
        Ok(footprint) if matches.get_flag("json") => {
            println!("{:#}", serde_json::json!(footprint));
            ExitCode::SUCCESS
        }
        Ok(footprint) => {
            println!("{footprint}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
        }
    }
}
