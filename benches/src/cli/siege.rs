//! `felix-bench siege`.

use super::output::{self, Output};
use super::site::{self, Site};
use super::{conclude, misused, value};
use crate::contest::Progress;
use crate::found::{Environment, Findings};
use crate::load::Stop;
use crate::problem::Problem;
use crate::siege::{PEERS, Siege};
use clap::{Arg, ArgMatches, Command};
use std::process::ExitCode;
use std::time::Duration;

/// What it takes.
pub(super) fn command() -> Command {
    Command::new("siege")
        .about("One client of a fresh Felix broker, alone and beside peers that mean it no good")
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("NAME")
                .value_delimiter(',')
                .value_parser(PEERS)
                .help("Only these peers; default: all"),
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
                .default_value("5s")
                .value_parser(value::duration)
                .help("How long each turn is measured"),
        )
        .args(site::arguments())
        .args(output::arguments())
}

/// Runs it.
pub(super) fn run(words: Vec<String>, matches: &ArgMatches) -> ExitCode {
    let prepared = || {
        let output = Output::of(matches, true)?;
        let siege = siege(matches)?;
        output.check()?;
        Ok::<_, Problem>((output, siege))
    };
    let (output, siege) = match prepared() {
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
        environment: Environment::look(Some(&siege.dir)),
        settings: settings(&siege),
        comparisons: Vec::new(),
        is_interrupted: false,
        problem: None,
    };
    let outcome = siege.run(&mut findings, &stop, &progress);
    progress.end();
    conclude(findings, &output, outcome)
}

fn siege(matches: &ArgMatches) -> Result<Siege, Problem> {
    let turn = *value::chosen::<Duration>(matches, "turn");
    if turn.is_zero() {
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
    Ok(Siege {
        rounds: value::count(matches, "rounds"),
        turn,
        only: matches
            .get_many("only")
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
        binary,
        dir,
        broker_cpu,
        client_cpu,
    })
}

fn settings(siege: &Siege) -> Vec<(String, String)> {
    [
        ("broker", site::version(&siege.binary)),
        ("turn", format!("{:?}", siege.turn)),
        ("rounds", siege.rounds.to_string()),
        ("processor of the broker", siege.broker_cpu.to_string()),
        (
            "processor of the client and of the peers, who give way to it",
            siege.client_cpu.to_string(),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
