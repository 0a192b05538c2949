//! The matrix of clients: each program of `tests/clients` tries all cells against one real broker,
//! what it says is held against what is expected, what it wrote is read back by others, and
//! docs/client-matrix.md tells the outcome.

mod cells;
mod given;
mod lossy;
mod made;
mod page;
mod variants;

use cells::{CELLS, Cell, Shows};
use felix_tests::clients::{CLIENTS, Client, Expected, Line, State};
use felix_tests::{Broker, Stream};
use lossy::Lossy;
use std::thread;
use std::time::Instant;
use variants::{Secrets, VARIANTS, Variant};

/// Longer than a client takes that asks a few times again after it is told.
const REFUSED_MS_MAX: u64 = 20_000;

/// Of a variant: its clients, and what is not as it should be.
struct Found<'a> {
    outcomes: Vec<Outcome<'a>>,
    faults: Vec<String>,
}

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
    let secrets = Secrets::new();
    let (bare, secured): (Vec<&Variant>, Vec<&Variant>) =
        VARIANTS.iter().partition(|variant| variant.is_bare());
    // Clients mostly wait, so two of them at once take hardly longer than one.
    let found: Vec<Found<'_>> = thread::scope(|scope| {
        let lanes = [bare, secured].map(|variants| {
            scope.spawn(|| -> Vec<_> {
                let run = |variant| run(variant, &secrets, &clients);
                variants.into_iter().map(run).collect()
            })
        });
        let found = lanes.into_iter().flat_map(|lane| lane.join());
        found.flatten().collect()
    });
    assert_eq!(found.len(), VARIANTS.len(), "a variant ended early");
    let mut sections = Vec::new();
    for (variant, found) in VARIANTS.iter().zip(found) {
        let tell = |fault| format!("{}: {fault}", variant.protocol);
        let mut of_variant = found.faults;
        for outcome in &found.outcomes {
            judge(outcome, &expected, &mut of_variant);
        }
        faults.extend(of_variant.into_iter().map(tell));
        sections.push(page::section(variant, &found.outcomes, &expected));
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
/// broker in another life, so that no variant needs a second way in.
fn run<'a>(variant: &Variant, secrets: &Secrets, clients: &[&'a Client]) -> Found<'a> {
    let mut faults = Vec::new();
    let mut broker = Broker::start(&streams(clients));
    let mut lossy = variant.is_readable().then(|| Lossy::start(clients));
    given::write(&broker);
    for client in clients {
        given::write_old(&broker, client.name);
    }
    let settings = secrets.settings(variant, &broker);
    for broker in brokers(&mut broker, &mut lossy) {
        broker.set_tokens(&secrets.tokens());
        let given = settings.iter().map(|(name, value)| (*name, Some(*value)));
        start_as(broker, given);
    }
    let tried = Tried {
        variant,
        secrets,
        broker: &broker,
        lossy: lossy.as_ref(),
    };
    let mut outcomes: Vec<Outcome<'_>> = clients
        .iter()
        .map(|client| tried.by(client, &mut faults))
        .collect();
    for broker in brokers(&mut broker, &mut lossy) {
        start_as(broker, settings.iter().map(|(name, _)| (*name, None)));
    }
    for Outcome { client, lines, .. } in &mut outcomes {
        made::check(&broker, client.name, lines, &mut faults);
        if let Some(lossy) = &lossy {
            made::check_lost(&lossy.broker, client.name, lines, &mut faults);
        }
    }
    Found { outcomes, faults }
}

/// Those of a variant.
fn brokers<'b>(
    broker: &'b mut Broker,
    lossy: &'b mut Option<Lossy>,
) -> impl Iterator<Item = &'b mut Broker> {
    let lossy = lossy.as_mut().map(|lossy| &mut lossy.broker);
    std::iter::once(broker).chain(lossy)
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

/// What clients try, and against whom.
struct Tried<'a> {
    variant: &'a Variant,
    secrets: &'a Secrets,
    broker: &'a Broker,
    lossy: Option<&'a Lossy>,
}

impl Tried<'_> {
    /// All cells of a client: the ordinary ones in one run of its program, the others one by one.
    #[expect(clippy::disallowed_methods, reason = "tests own their clock")]
    #[expect(clippy::print_stdout, reason = "it tells which client takes how long")]
    fn by<'a>(&self, client: &'a Client, faults: &mut Vec<String>) -> Outcome<'a> {
        let begun = Instant::now();
        let access = |shows| self.secrets.access(self.variant, self.broker, shows);
        let right = access(Shows::WhatIsRight);
        let cells = || CELLS.iter().filter(|cell| self.variant.tries(cell));
        let is_ordinary = |cell: &Cell| cell.shows == Shows::WhatIsRight && !cell.needs_relay();
        let ordinary = cells().filter(|cell| is_ordinary(cell));
        let names: Vec<&str> = ordinary.map(|cell| cell.name).collect();
        let mut lines = client.run(&right, &[&["version"], &names[..]].concat());
        let version = lines.remove(0).detail;
        for cell in cells().filter(|cell| !is_ordinary(cell)) {
            lines.push(match self.lossy {
                Some(lossy) if cell.needs_relay() => lossy.try_out(client, &right, cell, faults),
                _ => {
                    let mut told = client.run(&access(cell.shows), &[cell.program()]);
                    not_let_in(cell, told.remove(0))
                }
            });
        }
        println!(
            "{} {}: {:.1} s",
            self.variant.protocol,
            client.name,
            begun.elapsed().as_secs_f64()
        );
        Outcome {
            client,
            version,
            lines,
        }
    }
}

/// What a client told that should not have been let in: that it was not is what should be.
fn not_let_in(cell: &Cell, line: Line) -> Line {
    Line {
        cell: cell.name.to_owned(),
        state: match line.state {
            State::Ok => State::No,
            State::No => State::Ok,
        },
        ..line
    }
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
            let state = format!("{:?}", line.state).to_lowercase();
            faults.push(format!("{name}\t{}\t{state}\t{}", line.cell, line.detail));
        }
        if cell.refuses && line.took_ms > REFUSED_MS_MAX {
            faults.push(format!("{name} {}: took {} ms", line.cell, line.took_ms));
        }
    }
}
