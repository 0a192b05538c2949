//! Contenders that take turns under the same load.
//!
//! A [`Load`] says what is offered. A [`Contender`] makes the jobs of one turn: connections to a
//! broker ([`Target`]) or to a floor ([`Floored`]), or a loop of its own ([`Flushed`]). [`compare()`]
//! lets them take turns, forwards and backwards, so that whatever drifts meanwhile drifts for all.

mod compare;
mod fill;
mod floored;
mod flushed;
mod load;
mod progress;
mod spots;
mod target;

pub use compare::{Contender, compare};
pub use floored::Floored;
pub use flushed::Flushed;
pub use load::{Load, Workload};
pub use progress::Progress;
pub use target::{Target, TargetSettings};
