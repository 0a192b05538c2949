//! The rows of a comparison, for a terminal and for a page.

use super::figures::{Figures, Multiples, SideFigures};
use super::number;
use super::quantile::Quantile;
use crate::found::{Figure, Spread};

/// Rows under headings; the first column has names, the others numbers.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) headings: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) is_floor: bool,
    /// Whether it tells multiples instead of figures.
    pub(super) is_multiple: bool,
    pub(super) cells: Vec<Cell>,
}

/// A number, and how far apart the rounds were.
#[derive(Clone, Default, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) spread: Option<String>,
}

impl Cell {
    fn plain(text: String) -> Self {
        Self { text, spread: None }
    }

    fn over_rounds(spread: Option<Spread>, tell: fn(f64) -> String) -> Self {
        let Some(Spread { min, median, max }) = spread else {
            return Self::plain("-".to_owned());
        };
        let (least, greatest) = (tell(min), tell(max));
        Self {
            text: tell(median),
            spread: (least != greatest).then(|| format!("{least}..{greatest}")),
        }
    }
}

impl Grid {
    pub(super) fn of(figures: &Figures<'_>) -> Self {
        let sides = figures.sides.iter().map(|side| Row {
            name: side.side.name.clone(),
            is_floor: side.side.is_floor,
            is_multiple: false,
            cells: cells(figures, side),
        });
        let multiples = figures.multiples();
        let multiples = multiples.iter().map(|multiples| Row {
            name: format!("{} / {}", multiples.side, multiples.floor),
            is_floor: false,
            is_multiple: true,
            cells: multiple_cells(figures, multiples),
        });
        Self {
            headings: headings(figures),
            rows: sides.chain(multiples).collect(),
        }
    }
}

/// The quantiles that any side has.
fn quantiles<'a>(figures: &'a Figures<'_>) -> impl Iterator<Item = Quantile> + 'a {
    let is_told = |quantile: &Quantile| {
        let mut sides = figures.sides.iter();
        *quantile != Quantile::P9999 || sides.any(|side| side.at(*quantile).is_some())
    };
    Quantile::ALL.into_iter().filter(is_told)
}

fn headings(figures: &Figures<'_>) -> Vec<String> {
    let mut headings = vec!["side".to_owned(), "rounds".to_owned()];
    match figures.comparison.figure {
        Figure::Latency => {
            headings.push("samples/round".to_owned());
            headings.push("records/s".to_owned());
            headings.extend(quantiles(figures).map(|quantile| heading(figures, quantile)));
        }
        Figure::Throughput => {
            headings.push("MB/s".to_owned());
            headings.push("records/s".to_owned());
        }
    }
    headings
}

fn heading(figures: &Figures<'_>, quantile: Quantile) -> String {
    let label = quantile.label();
    if figures.is_indicative(quantile) {
        format!("{label} us (indicative)")
    } else {
        format!("{label} us")
    }
}

fn cells(figures: &Figures<'_>, side: &SideFigures<'_>) -> Vec<Cell> {
    let mut cells = vec![Cell::plain(side.rounds.len().to_string())];
    let records = Cell::over_rounds(side.records_per_second, number::amount);
    match figures.comparison.figure {
        Figure::Latency => {
            let samples = side.samples_least().map_or("-".to_owned(), number::count);
            cells.push(Cell::plain(samples));
            cells.push(records);
            let told = quantiles(figures)
                .map(|quantile| Cell::over_rounds(side.at(quantile), number::micros));
            cells.extend(told);
        }
        Figure::Throughput => {
            let megabytes = |bytes: f64| number::amount(bytes / 1e6);
            cells.push(Cell::over_rounds(side.bytes_per_second, megabytes));
            // Bytes that flow unasked hold none.
            let has_records = side
                .records_per_second
                .is_some_and(|records| records.max > 0.0);
            cells.push(if has_records {
                records
            } else {
                Cell::plain("-".to_owned())
            });
        }
    }
    cells
}

fn multiple_cells(figures: &Figures<'_>, multiples: &Multiples) -> Vec<Cell> {
    let tell =
        |multiple: Option<f64>| Cell::plain(multiple.map_or("-".to_owned(), number::multiple));
    let mut cells = vec![Cell::default()];
    match figures.comparison.figure {
        Figure::Latency => {
            cells.extend([Cell::default(), Cell::default()]);
            cells.extend(quantiles(figures).map(|quantile| tell(multiples.of(quantile))));
        }
        Figure::Throughput => cells.extend([tell(multiples.throughput), Cell::default()]),
    }
    cells
}
