//! Takes the figures of `docs/performance.md` on this machine and prints them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program that prints what it finds"
)]

use clap::{Arg, ArgAction, Command};
use felix_benches::{Figures, Plan, broker, echo, json, markdown};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The processes that are measured are started by way of this program again.
    let mut words = std::env::args().skip(1);
    let role = words.next().unwrap_or_default();
    let run = match role.as_str() {
        echo::WORD => Some(echo::serve as fn(&[String])),
        broker::WORD => Some(broker::become_broker as fn(&[String])),
        _ => None,
    };
    if let Some(run) = run {
        run(&words.collect::<Vec<_>>());
        return ExitCode::SUCCESS;
    }
    if cfg!(debug_assertions) {
        eprintln!("figures of a debug build say nothing; run it with --release");
        return ExitCode::FAILURE;
    }
    let matches = command().get_matches();
    let plan = if matches.get_flag("quick") {
        Plan::quick()
    } else {
        Plan::full()
    };
    let path = |name| matches.get_one::<String>(name).map(PathBuf::from);
    let (binary, dir) = (path("broker"), path("dir"));
    let figures = Figures::take(
        &plan,
        binary.as_deref(),
        &dir.unwrap_or_else(std::env::temp_dir),
        |what| eprintln!("felix-benches: {what}"),
    );
    if matches.get_flag("json") {
        println!("{:#}", json(&figures));
    } else {
        print!("{}", markdown(&figures));
    }
    ExitCode::SUCCESS
}

fn command() -> Command {
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .action(ArgAction::SetTrue)
            .help(help)
    };
    Command::new("figures")
        .about("Takes the figures of docs/performance.md on this machine; needs processors 0 and 1")
        .arg(switch("quick", "A tenth of the work; the tail is indicative only"))
        .arg(switch("json", "One JSON object instead of tables"))
        .arg(
            Arg::new("broker")
                .long("broker")
                .value_name("FILE")
                .help("The absolute path of another felix-broker than the one of this source"),
        )
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIRECTORY")
                .help("Where the broker's data lies while it is measured; default: the system's temporary directory"),
        )
}
