//! The load of `felix-bench run`, from its arguments.

use super::value::{self, Rates, chosen};
use crate::client::request::FetchBounds;
use crate::contest::{Load, Workload};
use crate::load::{Arrivals, Contents, Keys, Recipe, Sizes, Skew, Timing, Waiting};
use crate::problem::Problem;
use crate::{open_files, pin};
use clap::{Arg, ArgAction, ArgMatches};
use felix_core::batch::Codec;
use std::time::Duration;

/// Partitions, connections and consumers that may be asked for.
const MANY_MAX: u64 = 100_000;

/// Answers are waited for so long after the end of a turn.
const GRACE: Duration = Duration::from_secs(5);

fn with(name: &'static str, value: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .default_value(default)
        .help(help)
}

/// What is offered, and how.
pub(super) fn load_arguments() -> Vec<Arg> {
    vec![
        with("workload", "WHAT", "produce", "What is done, and until when it is measured")
            .value_parser(["produce", "end-to-end", "fetch", "fan-out"])
            .help("produce: to the acknowledgement; end-to-end: to a consumer that waits; fan-out: \
                   to each of several; fetch: reading what is there, as fast as it comes"),
        with("rate", "RECORDS/S,...", "1000", "Records a second, of all threads; several are run one after the other; max: each answer brings the next")
            .value_parser(|text: &str| text.parse::<Rates>())
        .allow_negative_numbers(true),
        with("arrivals", "HOW", "even", "How far apart requests are due").value_parser(["even", "poisson"]),
        with("duration", "TIME", "10s", "How long each turn is measured").value_parser(value::duration),
        with("warm-up", "TIME", "2s", "Load before it that does not count").value_parser(value::duration),
        with("rounds", "N", "5", "Turns of each side").value_parser(value::number(1, 1000)),
        Arg::new("cpus").long("cpus").value_name("LIST").value_parser(value::cpus)
            .help("Processors of the client's threads, one each; default: the last that is allowed"),
        with("client", "HOW", "parked", "What the client's threads do when there is nothing to do")
            .value_parser(["parked", "spinning"]),
        with("connections", "N", "1", "Connections that produce, of all threads; at least one to each leader")
            .value_parser(value::number(1, MANY_MAX)),
        Arg::new("consumers").long("consumers").value_name("N").value_parser(value::number(1, MANY_MAX))
            .help("How often each batch is delivered; default: 1, or 10 of fan-out"),
        Arg::new("in-flight").long("in-flight").value_name("N").value_parser(value::number(1, 1_000_000))
            .help("Requests of a connection that may be without an answer; what is due beyond waits, \
                   and its wait counts; default: no bound, or 5 where the rate is max"),
        with("partitions", "N", "1", "Partitions of the topic that are used").value_parser(value::number(1, MANY_MAX)),
        with("acks", "ACKS", "all", "0, 1 or all").value_parser(["0", "1", "all"]),
        Arg::new("idempotent").long("idempotent").action(ArgAction::SetTrue)
            .help("Each connection is an idempotent producer"),
        with("fetch-bytes", "BYTES", "1048576", "What a Fetch asks for of each partition")
            .value_parser(value::number(1, 1 << 30)),
        with("fill", "MIB", "256", "fetch: how much is written to each partition first, to be read over and over")
            .value_parser(value::number(1, 1 << 20)),
        with("seed", "N", "1", "Fixes what is left to chance").value_parser(value::number(0, u64::MAX)),
    ]
}

/// What is sent.
pub(super) fn record_arguments() -> Vec<Arg> {
    vec![
        with("batch", "RECORDS", "1", "Records in each request").value_parser(value::number(1, 100_000)),
        with("size", "BYTES", "1024", "Bytes of a value: 1024, 100-2000, or 100x9,10000x1 by weight")
            .value_parser(|text: &str| text.parse::<Sizes>()),
        with("content", "WHAT", "random", "What values hold: random, json or zeros")
            .value_parser(|text: &str| text.parse::<Contents>()),
        with("keys", "KEYS", "none", "none, uniform:N, sequence:N or zipf:N:S; batches are made beforehand, some MiB of them, and sent over and over")
            .value_parser(|text: &str| text.parse::<Keys>()),
        with("skew", "SKEW", "even", "Which partition a batch goes to: even, zipf:S, hot:PERCENT, or keys for that of its first key")
            .value_parser(|text: &str| text.parse::<Skew>()),
        with("compression", "CODEC", "none", "How batches are compressed, once and beforehand")
            .value_parser(["none", "gzip", "snappy", "lz4", "zstd"]),
    ]
}

/// The load at no rate yet.
///
/// # Errors
/// Arguments that exclude each other, or more than this process may have.
pub(super) fn load(matches: &ArgMatches) -> Result<Load, Problem> {
    let word = |name: &str| chosen::<String>(matches, name).as_str();
    let count = |name: &str| value::count(matches, name);
    let optional = |name: &str| {
        let given = matches.get_one::<u64>(name);
        given.map(|_| value::count(matches, name))
    };
    let (workload, consumers) = match word("workload") {
        "produce" => (Workload::Produce, 1),
        "end-to-end" => (Workload::EndToEnd, 1),
        "fetch" => (Workload::Fetch, 1),
        _ => (Workload::EndToEnd, 10),
    };
    let fetch_bytes = i32::try_from(count("fetch-bytes")).expect("its bound is below");
    let simplest = Load::of(workload);
    let load = Load {
        arrivals: match word("arrivals") {
            "poisson" => Arrivals::Poisson,
            _ => Arrivals::Even,
        },
        recipe: recipe(matches),
        acks: match word("acks") {
            "0" => 0,
            "1" => 1,
            _ => -1,
        },
        is_idempotent: matches.get_flag("idempotent"),
        partitions: count("partitions"),
        connections: count("connections"),
        consumers: optional("consumers").unwrap_or(consumers),
        in_flight_max: optional("in-flight").unwrap_or(usize::MAX),
        bounds: FetchBounds {
            max_bytes: fetch_bytes.max(simplest.bounds.max_bytes),
            partition_max_bytes: fetch_bytes,
            ..simplest.bounds
        },
        fill_bytes: *chosen::<u64>(matches, "fill") << 20,
        cpus: match matches.get_one::<Vec<usize>>("cpus") {
            Some(cpus) => cpus.clone(),
            None => simplest.cpus,
        },
        waiting: match word("client") {
            "spinning" => Waiting::Spinning,
            _ => Waiting::Parked,
        },
        timing: Timing::new(
            *chosen(matches, "warm-up"),
            *chosen(matches, "duration"),
            GRACE,
        ),
        seed: *chosen(matches, "seed"),
        ..simplest
    };
    check(&load)?;
    Ok(load)
}

fn check(load: &Load) -> Result<(), Problem> {
    if load.workload == Workload::EndToEnd && load.acks == 0 {
        return Err(Problem::new(
            "end to end needs --acks 1 or all: a delivery is recognised by the offset that the \
             acknowledgement tells",
        ));
    }
    if load.recipe.skew == Skew::Keys && load.recipe.keys == Keys::None {
        return Err(Problem::new(
            "--skew keys needs keys to go by; add --keys uniform:1000 or the like",
        ));
    }
    if load.is_idempotent && load.acks != -1 {
        return Err(Problem::new("an idempotent producer needs --acks all"));
    }
    if load.timing.measured.is_zero() {
        return Err(Problem::new("a turn needs some --duration to be measured"));
    }
    load.cpus.iter().try_for_each(|cpu| pin::check(*cpu))?;
    let consumers = load.consumers.saturating_mul(load.cpus.len());
    open_files::raise(load.connections.saturating_add(consumers))
}

fn recipe(matches: &ArgMatches) -> Recipe {
    Recipe {
        records: value::count(matches, "batch"),
        sizes: chosen::<Sizes>(matches, "size").clone(),
        contents: *chosen(matches, "content"),
        keys: chosen::<Keys>(matches, "keys").clone(),
        skew: chosen::<Skew>(matches, "skew").clone(),
        codec: match chosen::<String>(matches, "compression").as_str() {
            "gzip" => Codec::Gzip,
            "snappy" => Codec::Snappy,
            "lz4" => Codec::Lz4,
            "zstd" => Codec::Zstd,
            _ => Codec::None,
        },
    }
}
