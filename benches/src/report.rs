//! Figures as text.

use crate::broker::word;
use crate::figures::Figures;
use crate::idle;
use crate::latency::{Compared, Quantiles};
use crate::machine::Machine;
use crate::memory::SHARDS_FEW;
use crate::plan::SAMPLES_FOR_TAIL;
use crate::throughput::IN_FLIGHT;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The tables of `docs/performance.md`.
#[must_use]
pub fn markdown(figures: &Figures) -> String {
    let tables = [
        machine(&figures.machine, figures.stolen_percent),
        round_trips(figures),
        flush(figures),
        throughput(figures),
        rest(figures),
    ];
    tables.join("\n")
}

fn machine(machine: &Machine, stolen_percent: f64) -> String {
    let kind = if machine.is_virtual {
        "virtual"
    } else {
        "physical"
    };
    let governor = machine.governor.as_deref().unwrap_or("not to be seen");
    format!(
        "Machine: {}, {} processors, {kind}; Linux {}; {}; frequency governor {governor}; load \
         before the run {}; {stolen_percent:.2} % of the processors' time stolen during it.\n",
        machine.processor,
        machine.processors,
        machine.kernel,
        machine.file_system,
        machine.load_before
    )
}

fn round_trips(figures: &Figures) -> String {
    let mut text = String::from(
        "| waiting | policy | side | samples | p50 us | p99 us | p99.9 us |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let mut sizes = String::new();
    for trip in &figures.round_trips {
        let what = format!("{} | {}", trip.waiting.word(), word(trip.policy));
        compared(&mut text, &what, "echo", &trip.compared);
        sizes = format!(
            "{} bytes there and {} back.",
            trip.request_bytes, trip.response_bytes
        );
    }
    format!("{text}\n{sizes} Medians of {} rounds.\n", figures.rounds)
}

fn flush(figures: &Figures) -> String {
    let mut text = String::from(
        "| policy | side | samples | p50 us | p99 us | p99.9 us |\n|---|---|---|---|---|---|\n",
    );
    compared(&mut text, "on_commit", "write and flush", &figures.flush);
    text
}

/// Three rows: the floor, the broker, and how many times the floor's the broker's are.
fn compared(text: &mut String, what: &str, floor: &str, compared: &Compared) {
    let tail = if is_indicative(compared) {
        " (indicative)"
    } else {
        ""
    };
    let mut row = |side: &str, quantiles: &Quantiles| {
        let Quantiles {
            p50_us,
            p99_us,
            p999_us,
        } = quantiles;
        let samples = compared.samples;
        writeln!(
            text,
            "| {what} | {side} | {samples} | {p50_us:.1} | {p99_us:.1} | {p999_us:.1}{tail} |"
        )
    };
    let written = row(floor, &compared.floor).and(row("broker", &compared.broker));
    let [p50, p99, p999] = compared.broker.over(&compared.floor);
    let ratio = writeln!(
        text,
        "| {what} | broker / {floor} | | {p50:.2} x | {p99:.2} x | {p999:.2} x |"
    );
    written.and(ratio).expect("a string takes everything");
}

fn is_indicative(compared: &Compared) -> bool {
    compared.samples < SAMPLES_FOR_TAIL
}

fn throughput(figures: &Figures) -> String {
    let mut text = String::from(
        "| policy | records per second | MB/s of values | slowest and fastest round |\n\
         |---|---|---|---|\n",
    );
    for of in &figures.throughputs {
        let [slowest, fastest] = of.spread;
        writeln!(
            text,
            "| {} | {:.0} | {:.0} | {slowest:.0} to {fastest:.0} |",
            word(of.policy),
            of.records_per_s,
            of.bytes_per_s / 1e6,
        )
        .expect("a string takes everything");
    }
    let records = figures.throughputs.first().map_or(0, |of| of.records);
    let rounds = figures.rounds;
    format!(
        "{text}\nMedians of {rounds} rounds of {records} records, {IN_FLIGHT} requests in flight.\n"
    )
}

fn rest(figures: &Figures) -> String {
    let (idle, memory) = (&figures.idle, &figures.memory);
    let (shards, connections) = (idle::SHARDS, idle::CONNECTIONS);
    format!(
        "| what | figure |\n|---|---|\n\
         | processor time of an idle broker, {shards} shards, {connections} connections | {} ticks \
         of 10 ms in {} s |\n\
         | memory of a broker, {SHARDS_FEW} shards, no connection | {:.1} MiB |\n\
         | memory per open connection that has asked nothing, of {} | {} bytes |\n\
         | memory per open connection that has appended a record, of {} | {} bytes |\n\
         | memory per idle shard, of {} | {} bytes |\n",
        idle.cpu_ticks,
        idle.seconds,
        mib(memory.broker_bytes),
        memory.connections,
        memory.per_new_connection_bytes,
        memory.connections,
        memory.per_used_connection_bytes,
        memory.shards,
        memory.per_shard_bytes,
    )
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0
}

/// Everything as one object.
#[must_use]
pub fn json(figures: &Figures) -> Value {
    let round_trips = figures.round_trips.iter().map(|trip| {
        json!({
            "waiting": trip.waiting.word(),
            "policy": word(trip.policy),
            "request_bytes": trip.request_bytes,
            "response_bytes": trip.response_bytes,
            "compared": compared_json(&trip.compared),
        })
    });
    let throughputs = figures.throughputs.iter().map(|of| {
        json!({
            "policy": word(of.policy),
            "records": of.records,
            "records_per_s": of.records_per_s,
            "bytes_per_s": of.bytes_per_s,
            "slowest_and_fastest": of.spread,
        })
    });
    let (machine, idle, memory) = (&figures.machine, &figures.idle, &figures.memory);
    json!({
        "machine": {
            "processor": machine.processor,
            "processors": machine.processors,
            "virtual": machine.is_virtual,
            "kernel": machine.kernel,
            "file_system": machine.file_system,
            "governor": machine.governor,
            "load_before": machine.load_before,
            "stolen_percent": figures.stolen_percent,
        },
        "rounds": figures.rounds,
        "round_trips": round_trips.collect::<Vec<_>>(),
        "on_commit": compared_json(&figures.flush),
        "throughput": throughputs.collect::<Vec<_>>(),
        "idle": {
            "shards": idle::SHARDS,
            "connections": idle::CONNECTIONS,
            "seconds": idle.seconds,
            "cpu_ticks": idle.cpu_ticks,
        },
        "memory": {
            "broker_bytes": memory.broker_bytes,
            "connections": memory.connections,
            "per_new_connection_bytes": memory.per_new_connection_bytes,
            "per_used_connection_bytes": memory.per_used_connection_bytes,
            "shards": memory.shards,
            "per_shard_bytes": memory.per_shard_bytes,
        },
    })
}

fn compared_json(compared: &Compared) -> Value {
    let side = |quantiles: &Quantiles| {
        json!({
            "p50_us": quantiles.p50_us,
            "p99_us": quantiles.p99_us,
            "p999_us": quantiles.p999_us,
        })
    };
    let [p50, p99, p999] = compared.broker.over(&compared.floor);
    json!({
        "samples": compared.samples,
        "p999_is_indicative": is_indicative(compared),
        "floor": side(&compared.floor),
        "broker": side(&compared.broker),
        "ratio": { "p50": p50, "p99": p99, "p999": p999 },
    })
}
