//! `felix-bench race`.

use super::output;
use super::site::{self, Site};
use super::trial::Trial;
use super::value;
use crate::problem::Problem;
use crate::race::{HEATS, Race};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::process::ExitCode;
use std::time::Duration;

/// What it takes.
pub(super) fn command() -> Command {
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
        .args(site::arguments())
        .args(output::arguments())
}

/// Runs it.
pub(super) fn run(words: Vec<String>, matches: &ArgMatches) -> ExitCode {
    Trial::run(words, matches, |matches| {
        let race = race(matches)?;
        Ok(Trial {
            dir: race.dir.clone(),
            settings: settings(&race),
            run: Box::new(move |findings, stop, progress| race.run(findings, stop, progress)),
        })
    })
}

fn race(matches: &ArgMatches) -> Result<Race, Problem> {
    if matches
        .get_one::<Duration>("turn")
        .is_some_and(Duration::is_zero)
    {
        return Err(Problem::new(
            "a turn needs some time to be measured; write --turn 2s",
        ));
    }
    let Site {
        binary,
        dir,
        broker_cpu,
        client_cpu,
    } = Site::of(matches)?;
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
        ("broker", site::version(&race.binary)),
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
