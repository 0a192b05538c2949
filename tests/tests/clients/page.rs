//! docs/client-matrix.md: what the run has found, as a reader wants it.

use crate::Outcome;
use crate::cells::CELLS;
use crate::variants::Variant;
use felix_tests::clients::{Expected, State};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Set to write the page instead of checking it.
const REFRESH: &str = "FELIX_TESTS_REFRESH_DOCS";

const HEAD: &str = "# Clients that were tried

`tests/tests/clients` writes this page: each client's program in `tests/clients` tries every column
against one real broker, and what it wrote is read back by others. What the columns stand for says
[tests/clients/README.md](../tests/clients/README.md); what to set, and what clients print where
something is refused, [kafka-compatibility.md](kafka-compatibility.md#clients-one-by-one).

\"yes\" means that it does what it should; in the columns of refusals, that the client ends by itself
and shows Felix's sentence whole. Everything else has a note below its table.
";

/// What is tried where not everything is.
const PART: &str = ": of acks `all`, of the codecs gzip, and of the places to begin the earliest.";

/// A variant's table and notes.
pub(crate) fn section(variant: &Variant, outcomes: &[Outcome<'_>], expected: &Expected) -> String {
    let mut notes: Vec<String> = Vec::new();
    let columns = columns(variant);
    let Variant {
        title, protocol, ..
    } = variant;
    let mut text = format!("\n## {title}\n\n`{protocol}`");
    if !variant.is_bare() {
        text.push_str(PART);
    }
    text.push_str("\n\n| client | version |");
    for column in &columns {
        write!(text, " {column} |").expect("a string takes everything");
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---|".repeat(columns.len()));
    text.push('\n');
    for outcome in outcomes {
        write!(text, "| {} | {} |", outcome.client.title, outcome.version)
            .expect("a string takes everything");
        for column in &columns {
            let shown = entry(variant, column, outcome, expected, &mut notes);
            write!(text, " {shown} |").expect("a string takes everything");
        }
        text.push('\n');
    }
    text.push('\n');
    for (number, note) in (1..).zip(&notes) {
        writeln!(text, "{number}. {note}").expect("a string takes everything");
    }
    text
}

/// Compares the page with what was found, or writes it where that is asked for. Where clients are
/// missing their rows are, too, and only the others are compared.
pub(crate) fn check(sections: &[String], is_whole: bool) {
    let path = path();
    let made = format!("{HEAD}{}", sections.concat());
    if std::env::var_os(REFRESH).is_some() {
        assert!(
            is_whole,
            "the page tells of all clients, and some are not set up"
        );
        std::fs::write(&path, made).expect("it is ours");
        return;
    }
    let had = std::fs::read_to_string(&path).unwrap_or_default();
    if is_whole {
        assert!(
            had == made,
            "docs/client-matrix.md is not what was found. To write it anew:\n    \
             {REFRESH}=1 cargo test -p felix-tests --test clients\nfound:\n{made}"
        );
    }
}

fn path() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../docs/client-matrix.md")
}

/// Names of a variant's columns, each once.
fn columns(variant: &Variant) -> Vec<&'static str> {
    let cells = CELLS.iter().filter(|cell| variant.shows(cell));
    let mut columns: Vec<&str> = cells.map(|cell| cell.column).collect();
    columns.dedup();
    columns
}

/// What stands in a column of a client, with the numbers of its notes.
fn entry(
    variant: &Variant,
    column: &str,
    outcome: &Outcome<'_>,
    expected: &Expected,
    notes: &mut Vec<String>,
) -> String {
    let cells: Vec<&str> = (CELLS.iter())
        .filter(|cell| cell.column == column && variant.shows(cell))
        .map(|cell| cell.name)
        .collect();
    let mut failed = 0;
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for cell in &cells {
        let Some(differs) = expected.of(outcome.client.name, cell) else {
            continue;
        };
        failed += usize::from(differs.state == State::No);
        match said.iter_mut().find(|(note, _)| *note == differs.note) {
            Some((_, of)) => of.push(cell),
            None => said.push((differs.note, vec![cell])),
        }
    }
    let numbers: Vec<String> = (said.into_iter())
        .map(|(note, of)| number(&told(note, &of, &cells), notes).to_string())
        .collect();
    let word = match failed {
        0 => "yes",
        _ if failed == cells.len() => "no",
        _ => "in part",
    };
    if numbers.is_empty() {
        return word.to_owned();
    }
    format!("{word} ({})", numbers.join(", "))
}

/// A note, and of which cells it is if those are not all of the column.
fn told(note: &str, of: &[&str], cells: &[&str]) -> String {
    if of.len() == cells.len() {
        return note.to_owned();
    }
    format!("{}: {note}", of.join(", "))
}

/// The number of a note, which may be new.
fn number(note: &str, notes: &mut Vec<String>) -> usize {
    let known = notes.iter().position(|had| had == note);
    1 + known.unwrap_or_else(|| {
        notes.push(note.to_owned());
        notes.len() - 1
    })
}
