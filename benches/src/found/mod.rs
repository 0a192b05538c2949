//! What was measured, before anybody says anything about it.
//!
//! [`Findings`] of a run hold [`Comparison`]s; each compares [`Side`]s that took turns, round by
//! [`Round`]. All figures are derived from here: by quantile, by slot of time, with and without
//! the slots in which the host took processor time away.

mod environment;
mod latencies;
mod round;
mod slot;
mod spread;

pub use environment::Environment;
pub use latencies::Latencies;
pub use round::{Round, Usage};
pub use spread::Spread;

/// All that one run found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The command that was run, word by word.
    pub command: Vec<String>,
    /// Where it ran.
    pub environment: Environment,
    /// What was set, by name, in the order of the help.
    pub settings: Vec<(String, String)>,
    /// What was compared, in the order it was run.
    pub comparisons: Vec<Comparison>,
    /// Whether somebody ended it before it was done.
    pub is_interrupted: bool,
    /// Why it could not go on, if it could not.
    pub problem: Option<String>,
}

/// Sides that took turns under the same load.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// A short name, unique in its run: `produce_ack`, or `produce@20000` for a step of rates.
    pub name: String,
    /// A sentence that says what was asked: sizes, acknowledgement, how sides wait.
    pub what: String,
    /// What is compared.
    pub figure: Figure,
    /// Records a second that were offered; none if each answer brought the next request.
    pub offered: Option<f64>,
    /// Floors first.
    pub sides: Vec<Side>,
}

/// What sides are compared by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Time from when a request should have been sent until its answer, or its delivery.
    Latency,
    /// Bytes of batches a second.
    Throughput,
}

/// One of those that took turns.
#[derive(Clone, Debug)]
pub struct Side {
    /// `echo`, `felix`, or what the user called it.
    pub name: String,
    /// Whether others are told as multiples of it.
    pub is_floor: bool,
    /// Its turns, in order.
    pub rounds: Vec<Round>,
}
