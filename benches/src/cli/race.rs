//! `felix-bench race`.

use super::output::{self, Output};
use super::{conclude, misused, value};
use crate::contest::Progress;
use crate::found::{Environment, Findings};
use crate::load::Stop;
use crate::problem::Problem;
use crate::race::{HEATS, Race};
use crate::{broker, pin};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What it takes.
pub(super) fn command() -> Command {
    let path = clap::value_parser!(PathBuf);
    Command::new("race")
        .about("A fresh Felix broker against the floors of this machine: the few ratios that matter")
        .arg(
            Arg::new("quick")
                .long("quick")
                .action(ArgAction::SetTrue)
                .help("Two minutes, and the tail is indicative only; without it an hour and a half, with a million samples a turn but of on_commit"),
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("NAME")
                .value_delimiter(',')
                .value_parser(HEATS)
                .help("Runs only these; default: all"),
        )
        .arg(
            Arg::new("all-floors")
                .long("all-floors")
                .action(ArgAction::SetTrue)
                .help("Lets all floors take turns, as --quick does, and not only the lowest"),
        )
        .arg(
            Arg::new("rounds")
                .long("rounds")
                .value_name("N")
                .default_value("5")
                .value_parser(value::number(1, 100))
                .help("Turns of each side"),
        )
        .arg(
            Arg::new("turn")
                .long("turn")
                .value_name("TIME")
                .value_parser(value::duration)
                .help("How long each turn is measured; default: a second or two if quick, else until there are a million samples"),
        )
        .arg(
            Arg::new("broker")
                .long("broker")
                .value_name("FILE")
                .value_parser(path.clone())
                .help("The felix-broker to start; default: the one beside this program, or on the path"),
        )
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIRECTORY")
                .value_parser(path)
                .help("Where data lies meanwhile: its file system is measured; default: the temporary directory"),
        )
        .arg(
            Arg::new("broker-cpu")
                .long("broker-cpu")
                .value_name("N")
                .value_parser(value::number(0, 4095))
                .help("The processor of broker and floors; default: the first that is allowed"),
        )
        .arg(
            Arg::new("client-cpu")
                .long("client-cpu")
                .value_name("N")
                .value_parser(value::number(0, 4095))
                .help("The processor of the client; default: the last that is allowed"),
        )
        .args(output::arguments())
}

/// Runs it.
pub(super) fn run(words: Vec<String>, matches: &ArgMatches) -> ExitCode {
    let prepared = || {
        let output = Output::of(matches, true)?;
        let race = race(matches)?;
        output.check()?;
        Ok::<_, Problem>((output, race))
    };
    let (output, race) = match prepared() {
        Ok(prepared) => prepared,
        Err(problem) => return misused(&problem),
    };
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => return misused(&Problem::new(format!("signals cannot be caught: {error}"))),
    };
    let progress = Progress::new(output.is_quiet);
    let mut findings = Findings {
        command: words,
        environment: Environment::look(Some(&race.dir)),
        settings: settings(&race),
        comparisons: Vec::new(),
        is_interrupted: false,
        problem: None,
    };
    let outcome = race.run(&mut findings, &stop, &progress);
    progress.end();
    conclude(findings, &output, outcome)
}

fn race(matches: &ArgMatches) -> Result<Race, Problem> {
    let allowed = pin::allowed();
    let cpu = |name: &str, default: Option<&usize>| match matches.get_one::<u64>(name) {
        Some(cpu) => usize::try_from(*cpu).map_err(|error| Problem::new(error.to_string())),
        None => default
            .copied()
            .ok_or_else(|| Problem::new("the kernel names no processor to run on")),
    };
    let broker_cpu = cpu("broker-cpu", allowed.first())?;
    let client_cpu = cpu("client-cpu", allowed.last())?;
    pin::check(broker_cpu)?;
    pin::check(client_cpu)?;
    if broker_cpu == client_cpu {
        return Err(Problem::new(format!(
            "broker and client would share processor {broker_cpu}; they need one each, so choose \
             another with --broker-cpu or --client-cpu"
        )));
    }
    if matches
        .get_one::<Duration>("turn")
        .is_some_and(Duration::is_zero)
    {
        return Err(Problem::new(
            "a turn needs some time to be measured; write --turn 2s",
        ));
    }
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let binary = match path("broker") {
        Some(binary) => binary,
        None => broker::find_binary()?,
    };
    let dir = path("dir").unwrap_or_else(std::env::temp_dir);
    if !dir.is_dir() {
        return Err(Problem::new(format!("{} is no directory", dir.display())));
    }
    Ok(Race {
        rounds: value::count(matches, "rounds"),
        is_quick: matches.get_flag("quick"),
        only: matches
            .get_many("only")
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
        has_all_floors: matches.get_flag("quick") || matches.get_flag("all-floors"),
        turn: matches.get_one::<Duration>("turn").copied(),
        binary,
        dir,
        broker_cpu,
        client_cpu,
    })
}

/// What the broker says that it is.
fn version(race: &Race) -> String {
    let said = std::process::Command::new(&race.binary)
        .arg("--version")
        .output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    said.ok()
        .filter(|said| !said.is_empty())
        .unwrap_or_else(|| "not to be seen".to_owned())
}

fn settings(race: &Race) -> Vec<(String, String)> {
    let kind = match race.is_quick {
        true => "quick",
        false => "full",
    };
    let floors = if race.has_all_floors {
        "all"
    } else {
        "the lowest"
    };
    let turn = race
        .turn
        .map_or_else(|| "as the race says".to_owned(), |turn| format!("{turn:?}"));
    let only = if race.only.is_empty() {
        "all".to_owned()
    } else {
        race.only.join(", ")
    };
    [
        ("race", kind.to_owned()),
        ("broker", version(race)),
        ("heats", only),
        ("floors", floors.to_owned()),
        ("turn", turn),
        ("rounds", race.rounds.to_string()),
        (
            "processor of broker and floors",
            race.broker_cpu.to_string(),
        ),
        ("processor of the client", race.client_cpu.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
