//! Counters that belong to one CPU core and are collected by message, never shared.

use crate::Monotonic;
use crate::histogram::Snapshot;
use std::cell::Cell;

/// A number that only grows, on one CPU core.
#[derive(Debug, Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// `count` more.
    pub fn add(&self, count: u64) {
        self.0.set(self.0.get().wrapping_add(count));
    }

    /// The number now.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.get()
    }
}

/// A number that goes up and down, on one CPU core.
#[derive(Debug, Default)]
pub struct Gauge(Cell<i64>);

impl Gauge {
    /// Moves it.
    pub fn add(&self, change: i64) {
        self.0.set(self.0.get() + change);
    }

    /// Puts it at a value.
    pub fn put(&self, value: i64) {
        self.0.set(value);
    }

    /// The number now.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.0.get()
    }
}

/// What tells numbers of one name apart: keys and values.
pub type Labels = Vec<(&'static str, String)>;

/// How a sample is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It goes up and down, and of several cores the greatest is meant.
    Maximum,
}

/// One number at one moment, ready to leave its core. Samples of several cores with the same name
/// and labels are added up, or the greatest is taken where the kind says so.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Metric name, `felix_` first, unit last.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// How to read it.
    pub kind: Kind,
    /// Its labels.
    pub labels: Labels,
    /// The number.
    pub value: f64,
}

/// What the values of a distribution are, and how they are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Durations, shown in microseconds; the name ends in `_us`.
    Microseconds,
    /// Durations kept in microseconds and shown in seconds; the name ends in `_seconds`.
    Seconds,
    /// How many of something there were at once.
    Count,
}

/// How long something took, or how many came at once, at one moment, ready to leave its core. Those
/// of several cores with the same name and labels are added up.
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    /// Metric name, `felix_` first, unit last.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// What the values are.
    pub unit: Unit,
    /// Its labels.
    pub labels: Labels,
    /// The values.
    pub values: Snapshot,
}

/// Something that has numbers to show.
pub trait Metrics {
    /// Hands each number to `take`.
    fn collect(&self, take: &mut dyn FnMut(Sample));

    /// Hands each distribution to `take`, as it is at `now`. Most have none.
    fn distributions(&self, _now: Monotonic, _take: &mut dyn FnMut(Distribution)) {}
}
