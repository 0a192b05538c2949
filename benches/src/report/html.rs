//! One page that needs nothing else, for a browser or paper.

use super::figures::{Figures, Multiples};
use super::grid::{Cell, Grid, Row};
use super::over_time::over_time;
use super::percentiles::percentiles;
use super::plot::{colour, escaped};
use super::quantile::Quantile;
use super::rates::Steps;
use super::warnings::{FAILED, warnings};
use super::{number, rates, steal, words};
use crate::found::{Figure, Findings};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The few multiples that stand at the top.
const CARDS_MAX: usize = 12;

/// One self-contained page: it loads nothing, and may load nothing.
#[must_use]
pub fn html(findings: &Findings) -> String {
    let figures: Vec<Figures<'_>> = findings.comparisons.iter().map(Figures::of).collect();
    let steps = Steps::all(&figures);
    let mut page = head(findings);
    page += &cards(&figures, &steps);
    page += &contents(&figures, &steps);
    if figures.is_empty() {
        page += &format!("<p class='warning'>{}</p>\n", words::NOTHING);
    }
    for (index, steps) in steps.iter().enumerate() {
        page += &steps_section(index, steps);
    }
    for (index, figures) in figures.iter().enumerate() {
        page += &section(index, figures);
    }
    page += &conditions(findings);
    page + &format!(
        "</main>\n<div id='read-out' hidden></div>\n<script>{SCRIPT}</script>\n</body></html>\n"
    )
}

fn head(findings: &Findings) -> String {
    let names = findings.comparisons.iter();
    let names: Vec<&str> = names.map(|of| of.name.as_str()).take(4).collect();
    let title = match names[..] {
        [] => "felix-bench".to_owned(),
        _ => escaped(&format!("felix-bench: {}", names.join(", "))),
    };
    let command = escaped(&findings.command.join(" "));
    let environment = &findings.environment;
    let machine = [
        "processor",
        "processors",
        "machine",
        "kernel",
        "file system",
    ];
    let machine = machine.into_iter().filter_map(|name| {
        let fact = environment.fact(name)?;
        Some(if name == "kernel" {
            format!("Linux {fact}")
        } else {
            fact.to_owned()
        })
    });
    let machine = escaped(&machine.collect::<Vec<_>>().join(" \u{b7} "));
    let ended = words::ended(findings).into_iter();
    let interrupted = ended.map(|said| format!("<p class='warning'>{}</p>\n", escaped(&said)));
    let interrupted: String = interrupted.collect();
    format!(
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>\n\
         <meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name='viewport' content='width=device-width, initial-scale=1'>\n\
         <meta name='color-scheme' content='light dark'>\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body><main>\n\
         <header><h1>felix-bench</h1>\n<p class='machine'>{machine}</p>\n\
         <p><code>{command}</code></p></header>\n{interrupted}"
    )
}

/// The multiples, or without a floor the latencies themselves.
fn cards(figures: &[Figures<'_>], steps: &[Steps<'_, '_>]) -> String {
    let mut cards = Vec::new();
    for figures in figures {
        // What the plot by rate shows would be a card for each rate.
        let is_plotted = rates::step(figures)
            .is_some_and(|(name, _)| steps.iter().any(|steps| steps.name == name));
        let multiples = figures.multiples();
        if !is_plotted && multiples.is_empty() {
            cards.extend(figure_cards(figures));
        } else if !is_plotted {
            cards.extend(multiples.iter().map(|of| multiples_card(figures, of)));
        }
    }
    cards.truncate(CARDS_MAX);
    if cards.is_empty() {
        return String::new();
    }
    format!("<div class='cards'>\n{}</div>\n", cards.concat())
}

fn multiples_card(figures: &Figures<'_>, multiples: &Multiples) -> String {
    let what = format!("{} over {}", multiples.side, multiples.floor);
    match figures.comparison.figure {
        Figure::Latency => {
            let told = |quantile| {
                let multiple = multiples.of(quantile);
                (quantile, multiple.map(number::multiple))
            };
            card(figures, &what, CARD_QUANTILES.map(told).to_vec())
        }
        Figure::Throughput => rate_card(figures, &what, multiples.throughput.map(number::multiple)),
    }
}

const CARD_QUANTILES: [Quantile; 3] = [Quantile::P50, Quantile::P99, Quantile::P999];

fn figure_cards(figures: &Figures<'_>) -> Vec<String> {
    let cards = figures.sides.iter().map(|side| {
        let name = &side.side.name;
        match figures.comparison.figure {
            Figure::Latency => {
                let told = |quantile| {
                    let us = side.at(quantile).map(|spread| spread.median);
                    (quantile, us.map(number::latency))
                };
                card(figures, name, CARD_QUANTILES.map(told).to_vec())
            }
            Figure::Throughput => {
                let rate = side.bytes_per_second.map(|spread| spread.median);
                let told = rate.map(|rate| format!("{} MB/s", number::amount(rate / 1e6)));
                rate_card(figures, name, told)
            }
        }
    });
    cards.collect()
}

fn card(figures: &Figures<'_>, what: &str, told: Vec<(Quantile, Option<String>)>) -> String {
    let mut numbers = String::new();
    for (quantile, value) in told {
        let mark = if figures.is_indicative(quantile) {
            "<span class='mark' title='indicative: too few samples'>~</span>"
        } else {
            ""
        };
        let value = value.unwrap_or_else(|| "-".to_owned());
        numbers += &format!(
            "<div><b>{mark}{}</b><span>{}</span></div>",
            escaped(&value),
            quantile.label()
        );
    }
    card_of(figures, what, &numbers)
}

fn rate_card(figures: &Figures<'_>, what: &str, value: Option<String>) -> String {
    let value = value.unwrap_or_else(|| "-".to_owned());
    let number = format!("<div><b>{}</b><span>bytes/s</span></div>", escaped(&value));
    card_of(figures, what, &number)
}

fn card_of(figures: &Figures<'_>, what: &str, numbers: &str) -> String {
    let failed = figures.sides.iter().any(|side| side.has_failed());
    let failed = if failed { " failed" } else { "" };
    format!(
        "<div class='card{failed}'><h3>{}</h3><p>{}</p><div class='numbers'>{numbers}</div></div>\n",
        escaped(&figures.comparison.name),
        escaped(what)
    )
}

/// Links to the sections, where there are several.
fn contents(figures: &[Figures<'_>], steps: &[Steps<'_, '_>]) -> String {
    if figures.len() < 2 {
        return String::new();
    }
    let steps = steps.iter().enumerate().map(|(index, steps)| {
        let name = escaped(steps.name);
        format!("<a href='#r{index}'>{name} by rate</a>")
    });
    let comparisons = figures.iter().enumerate().map(|(index, figures)| {
        let name = escaped(&figures.comparison.name);
        format!("<a href='#c{index}'>{name}</a>")
    });
    let links: Vec<String> = steps.chain(comparisons).collect();
    format!("<nav>{}</nav>\n", links.join("\n"))
}

fn steps_section(index: usize, steps: &Steps<'_, '_>) -> String {
    let plot = steps.plot(&format!("r{index}")).unwrap_or_default();
    let legend = steps
        .steps
        .first()
        .map_or(String::new(), |first| legend(first));
    format!(
        "<section id='r{index}'><h2>{} by rate</h2>\n{legend}{plot}</section>\n",
        escaped(steps.name)
    )
}

fn section(index: usize, figures: &Figures<'_>) -> String {
    let found = figures.comparison;
    let id = format!("c{index}");
    let mut text = format!(
        "<section id='{id}'><h2>{}</h2>\n<p class='what'>{}; {}.</p>\n",
        escaped(&found.name),
        escaped(found.what.trim_end_matches('.')),
        escaped(&words::offered(found))
    );
    for warning in warnings(figures) {
        let class = if warning.starts_with(FAILED) {
            "warning failed"
        } else {
            "warning"
        };
        text += &format!("<p class='{class}'>{}</p>\n", escaped(&warning));
    }
    text += &table(&Grid::of(figures));
    if let Some(note) = words::indicative(figures) {
        text += &format!("<p class='note'>{}</p>\n", escaped(&note));
    }
    for note in words::stalls(figures) {
        text += &format!("<p class='note'>Stalls: {}</p>\n", escaped(&note));
    }
    for note in words::stolen(figures) {
        text += &format!("<p class='note'>Stolen time: {}</p>\n", escaped(&note));
    }
    let plots: Vec<String> = percentiles(&id, figures)
        .into_iter()
        .chain(over_time(&id, figures))
        .collect();
    if !plots.is_empty() {
        text += &legend(figures);
        text += &plots.concat();
    }
    text + "</section>\n"
}

fn legend(figures: &Figures<'_>) -> String {
    let mut boxes = String::new();
    for (index, side) in figures.sides.iter().enumerate() {
        let floor = if side.side.is_floor { " (floor)" } else { "" };
        boxes += &format!(
            "<label class='{}'><input type='checkbox' checked data-side='{index}'>\
             <i></i>{}{floor}</label>",
            colour(figures, index),
            escaped(&side.side.name)
        );
    }
    format!("<div class='legend'>{boxes}</div>\n")
}

fn table(grid: &Grid) -> String {
    let headings = grid.headings.iter();
    let headings: String = headings
        .map(|heading| format!("<th scope='col'>{}</th>", escaped(heading)))
        .collect();
    let rows: String = grid.rows.iter().map(table_row).collect();
    format!(
        "<div class='scroll'><table><thead><tr>{headings}</tr></thead>\n\
         <tbody>{rows}</tbody></table></div>\n"
    )
}

fn table_row(row: &Row) -> String {
    let class = if row.is_multiple { "multiple" } else { "" };
    let floor = if row.is_floor {
        " <small>floor</small>"
    } else {
        ""
    };
    let cells: String = row.cells.iter().map(table_cell).collect();
    format!(
        "<tr class='{class}'><th scope='row'>{}{floor}</th>{cells}</tr>\n",
        escaped(&row.name)
    )
}

fn table_cell(cell: &Cell) -> String {
    let spread = cell.spread.as_ref();
    let spread = spread.map_or(String::new(), |spread| {
        format!("<small>{}</small>", escaped(spread))
    });
    format!("<td>{}{spread}</td>", escaped(&cell.text))
}

/// Where it ran, how it was set, how figures are made, and what they leave open.
fn conditions(findings: &Findings) -> String {
    let rounds = findings.comparisons.iter().flat_map(|of| &of.sides);
    let mut rounds = rounds.flat_map(|side| &side.rounds);
    let any_stolen = rounds.any(|round| round.stolen.contains(&true));
    let rule = if any_stolen {
        format!("<p>Stolen time. {}</p>\n", escaped(steal::RULE))
    } else {
        String::new()
    };
    format!(
        "<section id='conditions'><h2>Conditions</h2>\n<div class='columns'>\n\
         <div><h3>Environment</h3>{}</div>\n<div><h3>Settings</h3>{}</div></div>\n\
         <h3>How figures are made</h3>\n<p>{}</p>\n{rule}\
         <h3>What this does not show</h3>\n<p>{}</p></section>\n",
        facts(&findings.environment.facts),
        facts(&findings.settings),
        escaped(words::METHOD),
        escaped(words::LIMITS)
    )
}

fn facts(facts: &[(String, String)]) -> String {
    let rows = facts.iter().map(|(name, fact)| {
        format!(
            "<tr><th scope='row'>{}</th><td>{}</td></tr>\n",
            escaped(name),
            escaped(fact)
        )
    });
    format!(
        "<table class='facts'><tbody>{}</tbody></table>",
        rows.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample::{comparison, findings, round_of, side};
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_run_without_findings_is_a_sentence() {
        let mut nothing = findings(vec![]);
        nothing.is_interrupted = true;
        let page = html(&nothing);
        assert!(page.contains(words::NOTHING));
        assert!(page.contains(words::INTERRUPTED));
        nothing.comparisons = vec![comparison("x", vec![side("felix", false, vec![])])];
        let page = html(&nothing);
        assert!(page.contains("no round was completed"), "{page}");
        assert!(!page.contains("<svg"), "{page}");
    }

    #[test]
    fn hostile_names_are_text() {
        let hostile = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>";
        let round = round_of([Duration::from_micros(100)]);
        let mut found = findings(vec![
            comparison(
                &format!("{hostile}@1"),
                vec![side(hostile, true, vec![round.clone()])],
            ),
            comparison(
                &format!("{hostile}@2"),
                vec![side(hostile, false, vec![round])],
            ),
        ]);
        for found in &mut found.comparisons {
            found.what = hostile.to_owned();
            found.offered = Some(1.0);
            found.sides[0].rounds[0]
                .errors
                .insert(hostile.to_owned(), 1);
        }
        found.command.push(hostile.to_owned());
        found
            .settings
            .push((hostile.to_owned(), hostile.to_owned()));
        found
            .environment
            .facts
            .push((hostile.to_owned(), hostile.to_owned()));
        let page = html(&found);
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("</script").count(), 1);
        assert_eq!(page.matches("<img").count(), 0);
    }

    #[test]
    fn a_page_names_no_address() {
        let round = round_of([Duration::from_micros(100)]);
        let page = html(&findings(vec![comparison(
            "x",
            vec![side("felix", false, vec![round])],
        )]));
        for address in ["http:", "https:", "url(", "@import", "src=", "href='h"] {
            assert!(!page.contains(address), "{address}");
        }
    }
}
