//! What is said of what was found: a table, an object, a log, a page with plots.
//!
//! A figure of a side is the median over its rounds of each round's own figure, with the least and
//! the greatest beside it. A multiple of a floor is the side's median over the floor's median.

mod axis;
mod figures;
mod grid;
mod hlog;
mod html;
mod json;
mod number;
mod over_time;
mod percentiles;
mod plot;
mod quantile;
mod rates;
mod series;
mod steal;
mod table;
mod warnings;
mod words;

#[cfg(test)]
mod sample;

pub use figures::{Multiples, multiples};
pub use hlog::hlog;
pub use html::html;
pub use json::json;
pub use quantile::Quantile;
pub use table::table;
