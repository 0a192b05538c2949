//! What the arguments ask for.

use super::load::{Load, Setup};
use super::{machine, pace};
use crate::output::Trouble;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use felix_core::Durability;
use felix_core::limits::BATCH_BYTES_MAX;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  felix-log bench /var/lib --policy on_commit --waiters 1,64
      Flushed appends, one and 64 at a time, as fast as they are answered
  felix-log bench /var/lib --policy none,periodic --rate 20000 --seconds 10
      20,000 appends a second, beside a bare write loop that does as many
  felix-log bench /var/lib --scenarios
      The targets of docs/performance.md: ten minutes, up to 6 GiB in DIR

Latencies count from when an append was due. Figures are medians of the rounds' own.";

/// Names of policies.
const POLICIES: [&str; 3] = ["none", "periodic", "on_commit"];

/// A header and a small record.
const BATCH_BYTES_MIN: u64 = 128;

/// The arguments of `felix-log bench`.
pub(crate) fn arguments(command: Command) -> Command {
    let list = |name, value, help| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .value_delimiter(',')
            .help(help)
    };
    let count =
        |range: std::ops::RangeInclusive<u64>| RangedU64ValueParser::<usize>::new().range(range);
    command
        .about("Measures the log: appends to the real engine in DIR, beside bare writes of as many bytes")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Where the files go: into a new directory there, which is removed again"),
        )
        .arg(list("policy", "POLICY", "When an append is acknowledged").default_value("none,periodic,on_commit").value_parser(PossibleValuesParser::new(POLICIES)))
        .arg(list("batch-bytes", "BYTES", "Bytes of each batch, about").default_value("1024").value_parser(count(BATCH_BYTES_MIN..=BATCH_BYTES_MAX as u64)))
        .arg(list("waiters", "N", "Appends under way at once").default_value("1").value_parser(count(1..=65_536)))
        .arg(list("shards", "N", "Shards that take turns").default_value("1").value_parser(count(1..=10_000)))
        .arg(list("rate", "N", "Appends a second, whenever they are answered; without it each answer brings the next").value_parser(value_parser!(u64).range(1..=10_000_000)))
        .arg(list("cpus", "CPU", "The processors of the engine's cores; without it, the last one").value_parser(value_parser!(usize)))
        .arg(Arg::new("seconds").long("seconds").value_name("S").default_value("2").value_parser(seconds).help("How long each side is measured in each round"))
        .arg(Arg::new("rounds").long("rounds").value_name("N").default_value("5").value_parser(count(1..=1000)).help("How often each side has its turn"))
        .arg(Arg::new("flush-interval-ms").long("flush-interval-ms").value_name("MS").default_value("50").value_parser(value_parser!(u64).range(1..=60_000)).help("From the first unflushed write of a periodic shard to its flush"))
        .arg(Arg::new("segment-bytes").long("segment-bytes").value_name("BYTES").default_value("1073741824").value_parser(value_parser!(u64).range(65_536..=2_147_483_647)).help("Bytes at which a segment is full"))
        .arg(list("scenarios", "NAME", "Measures what docs/performance.md has targets for, all of it or those named").num_args(0..).value_parser(PossibleValuesParser::new(super::scenarios::names())))
        .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue).requires("scenarios").help("A fraction of each scenario, to see that it runs; its figures say nothing"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("JSON, one object a line"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if !(0.01..=3600.0).contains(&seconds) {
        return Err("from 0.01 to 3600".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// How to measure.
pub(crate) fn setup(matches: &ArgMatches) -> Result<Setup, Trouble> {
    let one = |name| {
        matches
            .get_one::<u64>(name)
            .copied()
            .expect("it has a default")
    };
    let allowed = machine::allowed();
    let last = allowed.last().copied();
    let cpus: Vec<usize> = match matches.get_many("cpus") {
        Some(cpus) => cpus.copied().collect(),
        None => last.into_iter().collect(),
    };
    for (place, cpu) in cpus.iter().enumerate() {
        if !allowed.contains(cpu) {
            return Err(Trouble::NotOurs(format!(
                "processor {cpu} is none that this program may use; there are {allowed:?}"
            )));
        }
        if cpus[..place].contains(cpu) {
            return Err(Trouble::NotOurs(format!("processor {cpu} is named twice")));
        }
    }
    let span: Duration = *matches.get_one("seconds").expect("it has a default");
    Ok(Setup {
        cpus,
        all_cpus: allowed,
        flush_interval: Duration::from_millis(one("flush-interval-ms")),
        segment_bytes: one("segment-bytes"),
        warm_up: span.div_f64(5.0).min(Duration::from_millis(500)),
        span,
        rounds: *matches.get_one("rounds").expect("it has a default"),
        lead: pace::LEAD,
    })
}

/// What to measure: each combination of what is listed.
pub(crate) fn loads(matches: &ArgMatches, setup: &Setup) -> Result<Vec<Load>, Trouble> {
    let sizes = |name| {
        matches
            .get_many::<usize>(name)
            .expect("it has a default")
            .copied()
    };
    let policies = matches
        .get_many::<String>("policy")
        .expect("it has a default");
    let policies: Vec<Durability> = policies.map(|name| durability(name)).collect();
    let rates: Vec<Option<u64>> = match matches.get_many::<u64>("rate") {
        None => vec![None],
        Some(rates) => rates.copied().map(Some).collect(),
    };
    let mut loads = Vec::new();
    for durability in policies {
        for batch_bytes in sizes("batch-bytes") {
            for waiters in sizes("waiters") {
                for shards in sizes("shards") {
                    for rate in rates.iter().copied() {
                        loads.push(Load {
                            durability,
                            batch_bytes,
                            waiters,
                            shards,
                            rate,
                        });
                    }
                }
            }
        }
    }
    let cores = setup.cpus.len();
    let largest = loads.iter().map(|load| load.batch_bytes).max();
    if largest.is_some_and(|bytes| bytes as u64 > setup.segment_bytes) {
        return Err(Trouble::NotOurs(
            "--segment-bytes is below --batch-bytes: no segment takes such a batch".to_owned(),
        ));
    }
    match loads
        .iter()
        .find(|load| load.shards < cores || load.waiters < cores)
    {
        None => Ok(loads),
        Some(load) => Err(Trouble::NotOurs(format!(
            "{cores} cores need as many --shards and --waiters: {} would leave one idle",
            load.words()
        ))),
    }
}

fn durability(name: &str) -> Durability {
    match name {
        "none" => Durability::None,
        "periodic" => Durability::Periodic,
        _ => Durability::OnCommit,
    }
}
