//! Everything for a terminal.

use super::figures::Figures;
use super::grid::{Grid, Row};
use super::warnings::warnings;
use super::{steal, words};
use crate::found::{Comparison, Findings};

/// Between columns.
const GAP: &str = "  ";
/// Letters of a name; a longer one is cut.
const NAME_MAX: usize = 36;
/// Letters of a line of sentences.
const LINE_MAX: usize = 100;

/// One block for each comparison: its sides, their multiples of the floors, and what to know
/// before believing them.
#[must_use]
pub fn table(findings: &Findings) -> String {
    let mut text = String::new();
    for said in words::ended(findings) {
        text += &paragraph(&said);
        text.push('\n');
    }
    if findings.comparisons.is_empty() {
        return text + words::NOTHING + "\n";
    }
    let mut any_stolen = false;
    for comparison in &findings.comparisons {
        let figures = Figures::of(comparison);
        any_stolen |= figures.sides.iter().any(|side| side.steal.slots_stolen > 0);
        text += &block(comparison, &figures);
        text.push('\n');
    }
    text += &paragraph(words::METHOD);
    if any_stolen {
        text += &paragraph(&format!("Stolen time: {}", steal::RULE));
    }
    text
}

fn block(comparison: &Comparison, figures: &Figures<'_>) -> String {
    let offered = words::offered(comparison);
    let what = comparison.what.trim_end_matches('.');
    let mut text = paragraph(&format!("{}: {what}; {offered}.", comparison.name));
    text += &grid(&Grid::of(figures));
    text.extend(words::indicative(figures).map(|line| paragraph(&line)));
    for line in words::stolen(figures) {
        text += &paragraph(&format!("Stolen time: {line}"));
    }
    for line in words::stalls(figures) {
        text += &paragraph(&format!("Stalls: {line}"));
    }
    for line in warnings(figures) {
        text += &paragraph(&format!("!! {line}"));
    }
    text
}

/// Lines that fit a terminal.
fn paragraph(sentences: &str) -> String {
    let mut text = String::new();
    let mut letters = 0;
    for word in printable(sentences).split(' ') {
        let length = word.chars().count();
        if letters > 0 && letters + 1 + length > LINE_MAX {
            text.push('\n');
            letters = 0;
        } else if letters > 0 {
            text.push(' ');
            letters += 1;
        }
        text += word;
        letters += length;
    }
    text + "\n"
}

/// Names to the left, numbers to the right, spreads on a line of their own.
fn grid(grid: &Grid) -> String {
    let mut lines = vec![grid.headings.clone()];
    for row in &grid.rows {
        lines.extend(cells(row));
    }
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..grid.headings.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            row += GAP;
            row += &if column == 0 {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            };
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}

fn cells(row: &Row) -> Vec<Vec<String>> {
    let floor = if row.is_floor { " (floor)" } else { "" };
    let mut first = vec![format!("{}{floor}", short(&printable(&row.name)))];
    let mut second = vec![String::new()];
    for cell in &row.cells {
        first.push(cell.text.clone());
        second.push(cell.spread.clone().unwrap_or_default());
    }
    let has_spread = second.iter().any(|cell| !cell.is_empty());
    let second = has_spread.then_some(second);
    [first].into_iter().chain(second).collect()
}

fn short(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_MAX - 3).collect();
    kept + "..."
}

/// A terminal obeys control characters, wherever a name comes from.
fn printable(text: &str) -> String {
    let shown = |letter: char| {
        if letter.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            letter
        }
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{comparison, findings, round, round_of, side};
    use super::*;
    use crate::found::Figure;
    use std::time::Duration;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn line<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
        let mut lines = text.lines().map(str::trim);
        let line = lines.find(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("no {start:?} in:\n{text}"));
        line.split_whitespace().collect()
    }

    #[test]
    fn sides_stand_above_their_multiples() {
        let rounds = |base| [base, 2 * base, 4 * base].map(|took| round_of([us(took)]));
        let text = table(&findings(vec![comparison(
            "produce_ack",
            vec![
                side("echo", true, rounds(50).to_vec()),
                side("felix", false, rounds(75).to_vec()),
            ],
        )]));
        assert!(text.starts_with("produce_ack: one record a request; each answer"));
        let echo = line(&text, "echo (floor)");
        assert_eq!(echo[2..6], ["3", "1", "1.00", "100"], "{text}");
        assert_eq!(line(&text, "50.0..200")[0], "50.0..200");
        assert_eq!(line(&text, "felix / echo")[3..6], ["1.50", "x", "1.50"]);
        assert!(text.contains("p99.9 us (indicative)"), "{text}");
        let reason = "Indicative: the shortest round has 1 samples, and p99.9 takes 1,000,000.";
        assert!(text.contains(reason), "{text}");
        assert!(!text.contains("p99.99"), "{text}");
        assert!(!text.contains("!!"), "{text}");
    }

    #[test]
    fn throughput_is_told_as_rates() {
        let round = |operations| round_of((0..operations).map(us));
        let mut comparison = comparison(
            "fetch",
            vec![
                side("send", true, vec![round(4000)]),
                side("felix", false, vec![round(3000)]),
            ],
        );
        comparison.figure = Figure::Throughput;
        let text = table(&findings(vec![comparison]));
        assert_eq!(line(&text, "felix ")[1..], ["1", "3.00", "3,000"], "{text}");
        assert_eq!(line(&text, "felix / send")[3..], ["0.75", "x"]);
        assert!(!text.contains("indicative"), "{text}");
    }

    #[test]
    fn failures_are_loud() {
        let mut round = round_of([us(1)]);
        round.unanswered = 7;
        let text = table(&findings(vec![comparison(
            "x",
            vec![side("felix", false, vec![round])],
        )]));
        assert!(text.contains("!! FAILED REQUESTS: felix: 7 requests"));
    }

    #[test]
    fn stolen_time_is_told_with_its_rule() {
        let mut round = round_of([us(1)]);
        round.stolen[4] = true;
        let text = table(&findings(vec![comparison(
            "x",
            vec![side("felix", false, vec![round])],
        )]));
        assert!(text.contains("Stolen time: felix: 1 of 10 slots"), "{text}");
        assert!(
            text.contains("Stolen time: A slot counts as stolen"),
            "{text}"
        );
        let longest = text.lines().map(str::len).max();
        assert!(longest <= Some(LINE_MAX), "{text}");
    }

    #[test]
    fn a_stall_that_moves_no_median_is_told() {
        let ms = Duration::from_millis;
        let calm = || (0..1000).map(|n| (ms(n), us(100)));
        let stalled = round(calm().chain([(ms(310), ms(80))]));
        let text = table(&findings(vec![comparison(
            "x",
            vec![side("felix", false, vec![round(calm()), stalled])],
        )]));
        let text = text.replace('\n', " ");
        let told = "Stalls: felix: 1 of 20 slots had a latency of over 10 times the middle p99 of \
                    a slot, which makes 1.00 ms; the longest was 80.0 ms.";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn a_run_without_findings_is_a_sentence() {
        let mut nothing = findings(vec![]);
        assert_eq!(table(&nothing), "Nothing was measured.\n");
        nothing.problem = Some("felix: the server closed the connection".to_owned());
        let text = table(&nothing);
        assert!(
            text.starts_with("This run could not go on: felix: the server"),
            "{text}"
        );
        nothing.problem = None;
        nothing.is_interrupted = true;
        let text = table(&nothing);
        assert!(text.starts_with("This run was ended early"), "{text}");
        nothing.comparisons = vec![comparison("x", vec![side("felix", false, vec![])])];
        let text = table(&nothing);
        assert!(text.contains("no round was completed"), "{text}");
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        let text = table(&findings(vec![comparison(
            "x",
            vec![side("\u{1b}[2Jfelix", false, vec![round_of([us(1)])])],
        )]));
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
