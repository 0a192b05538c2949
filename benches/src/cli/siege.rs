//! `felix-bench siege`.

use super::output;
use super::site::{self, Site};
use super::trial::Trial;
use super::value;
use crate::problem::Problem;
use crate::siege::{PEERS, Siege};
use clap::{Arg, ArgAction, ArgMatches, Command};
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
        .arg(
            Arg::new("tls")
                .long("tls")
                .action(ArgAction::SetTrue)
                .help("The listener has TLS; peers that send requests speak it as well"),
        )
        .args(site::arguments())
        .args(output::arguments())
}

/// Runs it.
pub(super) fn run(words: Vec<String>, matches: &ArgMatches) -> ExitCode {
    Trial::run(words, matches, |matches| {
        let siege = siege(matches)?;
        Ok(Trial {
            dir: siege.dir.clone(),
            settings: settings(&siege),
            run: Box::new(move |findings, stop, progress| siege.run(findings, stop, progress)),
        })
    })
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
        has_tls: matches.get_flag("tls"),
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
        ("TLS", siege.has_tls.to_string()),
        ("processor of the broker", siege.broker_cpu.to_string()),
        (
            "processor of the client and of the peers, who give way to it",
            siege.client_cpu.to_string(),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
