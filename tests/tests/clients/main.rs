//! The matrix of clients: each program of `tests/clients` tries all cells against one real broker,
//! what it says is held against what is expected, what it wrote is read back by others, and
//! docs/client-matrix.md tells the outcome.

mod cells;
mod given;
mod made;
mod page;

use cells::CELLS;
use felix_tests::clients::{Access, CLIENTS, Client, Expected, Line, State};
use felix_tests::{Broker, Relay, Stream};
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;

/// A setting of the broker and its value.
type Setting = (&'static str, &'static str);

/// A way to reach the broker.
#[derive(Clone, Copy, Debug)]
struct Variant {
    /// As the page calls it.
    title: &'static str,
    /// The broker's settings, which may name files in a folder of the variant's own.
    settings: fn(&Path) -> Vec<Setting>,
    /// The file in that folder with the certificate to trust, if the broker speaks TLS. A relay cannot
    /// tell answers apart there, so none are lost.
    ca: Option<&'static str>,
    /// Who the clients are.
    user: Option<(&'static str, &'static str)>,
}

/// Each gets brokers of its own, and each client tries all cells there.
const VARIANTS: &[Variant] = &[Variant {
    title: "Without TLS and SASL",
    settings: |_| Vec::new(),
    ca: None,
    user: None,
}];

/// Answers to Produce that are lost, one after the other, before one comes through.
const LOST_ANSWERS: u32 = 2;

/// Longer than a client takes that asks a few times again after it is told.
const REFUSED_MS_MAX: u64 = 20_000;

/// Of a client in a variant: what each cell told.
struct Outcome<'a> {
    client: &'a Client,
    version: String,
    lines: Vec<Line>,
}

#[test]
fn every_client_does_what_is_written_of_it() {
    let expected = Expected::read();
    let clients = present();
    let mut faults = strangers(&expected);
    let mut sections = Vec::new();
    for variant in VARIANTS {
        let outcomes = run(variant, &clients, &mut faults);
        for outcome in &outcomes {
            judge(outcome, &expected, &mut faults);
        }
        sections.push(page::section(variant.title, &outcomes, &expected));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    page::check(&sections, clients.len() == CLIENTS.len());
}

/// The clients that are set up here. Where everything must be there, everything is.
#[expect(clippy::print_stdout, reason = "a test that skips a client names it")]
fn present() -> Vec<&'static Client> {
    let (here, missing): (Vec<_>, Vec<_>) = CLIENTS.iter().partition(|client| client.is_set_up());
    let names: Vec<&str> = missing.iter().map(|client| client.name).collect();
    assert!(
        names.is_empty() || !felix_tests::is_strict(),
        "not set up: {names:?}; scripts/setup-clients.sh says what is missing"
    );
    for name in names {
        println!("NOT CHECKED: {name} is not set up; see scripts/setup-clients.sh");
    }
    assert!(!here.is_empty(), "no client is set up");
    here
}

fn strangers(expected: &Expected) -> Vec<String> {
    let clients: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
    let cells: Vec<&str> = CELLS.iter().map(|cell| cell.name).collect();
    let found = expected.strangers(&clients, &cells);
    let tell = |row| format!("expected.tsv knows no such client or cell: {row}");
    found.into_iter().map(tell).collect()
}

/// Tries everything, and reads back what was written.
///
/// What clients find and what they leave is written and read without TLS and users, by the same
/// brokers in another life, so that no variant needs a second way in.
fn run<'a>(
    variant: &Variant,
    clients: &[&'a Client],
    faults: &mut Vec<String>,
) -> Vec<Outcome<'a>> {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let settings = (variant.settings)(home.path());
    let relay = Relay::listen();
    let mut broker = Broker::start(&streams(clients));
    let mut lossy = lossy_broker(clients, &relay);
    given::write(&broker);
    for client in clients {
        given::write_old(&broker, client.name);
    }
    for broker in [&mut broker, &mut lossy] {
        start_as(
            broker,
            settings.iter().map(|(name, value)| (*name, Some(*value))),
        );
    }
    let access = access(variant, &home, &broker, &relay);
    let outcomes: Vec<Outcome<'_>> = clients
        .iter()
        .map(|client| try_out(client, &access, &relay, faults))
        .collect();
    for broker in [&mut broker, &mut lossy] {
        start_as(broker, settings.iter().map(|(name, _)| (*name, None)));
    }
    for outcome in &outcomes {
        made::check(&broker, outcome.client.name, &outcome.lines, faults);
        made::check_lost(&lossy, outcome.client.name, &outcome.lines, faults);
    }
    outcomes
}

/// Ends a broker in order and starts it again with these settings.
fn start_as(
    broker: &mut Broker,
    settings: impl Iterator<Item = (&'static str, Option<&'static str>)>,
) {
    let ended = broker.terminate();
    assert!(ended.success(), "{ended}");
    for (name, value) in settings {
        broker.set(name, value);
    }
    broker.start_again();
}

/// With TLS by the name that a broker's own certificate has.
fn access(variant: &Variant, home: &TempDir, broker: &Broker, relay: &Relay) -> Access {
    let bootstrap = match variant.ca {
        Some(_) => format!("localhost:{}", broker.port()),
        None => broker.bootstrap(),
    };
    Access {
        bootstrap,
        lossy: variant.ca.is_none().then(|| relay.address()),
        ca: variant.ca.map(|file| home.path().join(file)),
        user: (variant.user).map(|(user, password)| (user.to_owned(), password.to_owned())),
    }
}

/// All cells of a client; those that lose answers one by one.
#[expect(clippy::disallowed_methods, reason = "tests own their clock")]
#[expect(clippy::print_stdout, reason = "it tells which client takes how long")]
fn try_out<'a>(
    client: &'a Client,
    access: &Access,
    relay: &Relay,
    faults: &mut Vec<String>,
) -> Outcome<'a> {
    let begun = Instant::now();
    let ordinary = CELLS.iter().filter(|cell| !cell.loses);
    let names: Vec<&str> = ordinary.map(|cell| cell.name).collect();
    let mut lines = client.run(access, &[&["version"], &names[..]].concat());
    let version = lines.remove(0).detail;
    let lossy = CELLS.iter().filter(|_| access.lossy.is_some());
    for cell in lossy.filter(|cell| cell.loses) {
        relay.lose(LOST_ANSWERS);
        let told = client.run(access, &[cell.name]);
        let left = relay.left_to_lose();
        relay.lose(0);
        if told[0].state == State::Ok && left != 0 {
            faults.push(format!(
                "{} {}: {left} answers were not lost",
                client.name, cell.name
            ));
        }
        lines.extend(told);
    }
    println!("{}: {:.1} s", client.name, begun.elapsed().as_secs_f64());
    Outcome {
        client,
        version,
        lines,
    }
}

/// A broker whose clients are sent to the relay.
fn lossy_broker(clients: &[&Client], relay: &Relay) -> Broker {
    let address = given::leak(relay.address());
    let settings = [
        ("FELIX_KAFKA_CORE_PORTS", "false"),
        ("FELIX_KAFKA_ADVERTISE_ADDR", address),
    ];
    let streams: Vec<Stream> = (clients.iter())
        .map(|client| Stream::new(given::topic(client.name, "lost"), 1))
        .collect();
    let broker = Broker::start_with(&streams, &settings);
    relay.hand_on_to(broker.port());
    broker
}

fn streams(clients: &[&Client]) -> Vec<Stream> {
    let mut streams = given::streams();
    for client in clients {
        for suffix in ["made", "tail", "large"] {
            streams.push(Stream::new(given::topic(client.name, suffix), 1));
        }
    }
    streams
}

/// Holds what each cell told against what is expected of it.
fn judge(outcome: &Outcome<'_>, expected: &Expected, faults: &mut Vec<String>) {
    let name = outcome.client.name;
    for line in &outcome.lines {
        let cell = CELLS.iter().find(|cell| cell.name == line.cell);
        let cell = cell.expect("only these were asked for");
        let as_expected = match expected.of(name, cell.name) {
            Some(differs) => line.state == differs.state && line.detail.contains(differs.text),
            None => line.state == State::Ok && cell.is_ordinary(&line.detail),
        };
        if !as_expected {
            faults.push(format!(
                "{name}\t{}\t{:?}\t{}",
                line.cell, line.state, line.detail
            ));
        }
        if cell.refuses && line.took_ms > REFUSED_MS_MAX {
            faults.push(format!("{name} {}: took {} ms", line.cell, line.took_ms));
        }
    }
}
