//! `felix-bench run`.

use super::output::{self, Output};
use super::sides::{self, Sides};
use super::value::{Rates, chosen, count};
use super::{Outcome, conclude, misused};
use super::{offer, security};
use crate::contest::{Load, Progress, Workload, compare};
use crate::found::{Comparison, Environment, Figure, Findings};
use crate::load::{Skew, Stop};
use crate::problem::Problem;
use clap::{ArgMatches, Command};
use std::process::ExitCode;

/// What it takes.
pub(super) fn command() -> Command {
    Command::new("run")
        .about("Offers load to one or several brokers that speak Kafka, in turns with the floor")
        .next_help_heading("Brokers")
        .args(sides::arguments())
        .args(security::arguments())
        .next_help_heading("Floor")
        .args(sides::floor_arguments())
        .next_help_heading("Load")
        .args(offer::load_arguments())
        .next_help_heading("Records")
        .args(offer::record_arguments())
        .next_help_heading("Result")
        .args(output::arguments())
}

/// Runs it.
pub(super) fn run(words: Vec<String>, matches: &ArgMatches) -> ExitCode {
    let prepared = || {
        let output = Output::of(matches, false)?;
        let load = offer::load(matches)?;
        let sides = Sides::of(matches, &load)?;
        let rates: &Rates = chosen(matches, "rate");
        if rates.0.contains(&None) && load.recipe.skew == Skew::Keys {
            return Err(Problem::new(
                "--skew keys needs a --rate: where each answer brings the next request, its \
                 connection says which partition that goes to",
            ));
        }
        output.check()?;
        Ok::<_, Problem>((output, load, sides))
    };
    let (output, load, mut sides) = match prepared() {
        Ok(prepared) => prepared,
        Err(problem) => return misused(&problem),
    };
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => return misused(&Problem::new(format!("signals cannot be caught: {error}"))),
    };
    let progress = Progress::new(output.is_quiet);
    let mut findings = Findings {
        command: security::without_secrets(words),
        environment: Environment::look(None),
        settings: settings(matches),
        comparisons: Vec::new(),
        is_interrupted: false,
        problem: None,
    };
    let rates: &Rates = chosen(matches, "rate");
    let rounds = count(matches, "rounds");
    let outcome = steps(
        &mut findings,
        rates,
        load,
        &mut sides,
        rounds,
        &stop,
        &progress,
    );
    progress.end();
    conclude(findings, &output, outcome)
}

fn steps(
    findings: &mut Findings,
    rates: &Rates,
    load: Load,
    sides: &mut Sides,
    rounds: usize,
    stop: &Stop,
    progress: &Progress,
) -> Outcome {
    for rate in &rates.0 {
        if stop.is_asked() {
            findings.is_interrupted = true;
            break;
        }
        let in_flight_max = match (load.in_flight_max, rate) {
            (usize::MAX, None) => 5,
            (asked, _) => asked,
        };
        // Reading what is there knows no rate.
        let rate = rate.filter(|_| load.workload != Workload::Fetch);
        let load = Load {
            rate,
            in_flight_max,
            ..load.clone()
        };
        progress.say("reaching the sides");
        sides.reach(&load)?;
        let comparison = comparison(&load, rate);
        let mut contenders = sides.contenders(&load)?;
        compare(
            findings,
            comparison,
            &load,
            &mut contenders,
            rounds,
            stop,
            progress,
        )?;
        if load.workload == Workload::Fetch {
            break;
        }
    }
    Ok(())
}

fn comparison(load: &Load, rate: Option<f64>) -> Comparison {
    let workload = match load.workload {
        Workload::Produce => "produce",
        Workload::EndToEnd if load.consumers > 1 => "fan_out",
        Workload::EndToEnd => "end_to_end",
        Workload::Fetch => "fetch",
    };
    let name = match (rate, load.workload) {
        (Some(rate), _) => format!("{workload}@{rate}"),
        (None, Workload::Fetch) => workload.to_owned(),
        (None, _) => format!("{workload}@max"),
    };
    let figure = match rate {
        Some(_) => Figure::Latency,
        None => Figure::Throughput,
    };
    let until = match load.workload {
        Workload::Produce if load.acks == 0 => {
            "from when a request is due until the socket has it; nothing is acknowledged"
        }
        Workload::Produce => "from when a request is due to its acknowledgement",
        Workload::EndToEnd => {
            "from when a request is due to the arrival of its batch at each consumer"
        }
        Workload::Fetch => "as fast as it comes",
    };
    let loop_word = match (rate, load.workload) {
        (Some(_), _) | (_, Workload::Fetch) => "",
        (None, _) => {
            "; each answer brings the next request, so stalls are seen by few (a closed loop)"
        }
    };
    let acks = match load.acks {
        -1 => "all".to_owned(),
        acks => acks.to_string(),
    };
    let some = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let sent = format!(
        "{} of {} bytes a batch in {}",
        some(load.recipe.records, "record"),
        load.recipe.sizes,
        some(load.partitions, "partition"),
    );
    let consumers = some(load.consumers, "consumer");
    let who = match load.workload {
        Workload::Produce => format!("acks={acks}, {}", some(load.connections, "connection")),
        Workload::EndToEnd if load.consumers > 1 => format!(
            "acks={acks}, {}, {consumers}; the floor answers once",
            some(load.connections, "connection")
        ),
        Workload::EndToEnd => format!(
            "acks={acks}, {}, {consumers}",
            some(load.connections, "connection")
        ),
        Workload::Fetch => format!("{consumers}, {} MiB each", load.fill_bytes >> 20),
    };
    let waiting = load.waiting.word();
    let what = format!("{until}; {sent}, {who}; clients wait {waiting}{loop_word}");
    Comparison {
        name,
        what,
        figure,
        offered: rate,
        sides: Vec::new(),
    }
}

/// Every argument as it was written or as it is by default, but for secrets.
fn settings(matches: &ArgMatches) -> Vec<(String, String)> {
    let ids = matches.ids().map(|id| id.as_str());
    let shown = ids.filter(|id| !security::is_secret(id)).filter_map(|id| {
        let raw = matches.get_raw(id)?;
        let words: Vec<_> = raw
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        Some((id.to_owned(), words.join(" ")))
    });
    shown.filter(|(_, value)| !value.is_empty()).collect()
}
