//! Counters that belong to one CPU core and are collected by message, never shared.

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

/// How a sample is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One number at one moment, ready to leave its core. Samples of several cores with the same name
/// and label are added up, unless the label names the core.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Metric name, `felix_` first, unit last.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// How to read it.
    pub kind: Kind,
    /// A label, if the metric has one.
    pub label: Option<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

/// Something that has numbers to show.
pub trait Metrics {
    /// Hands each number to `take`.
    fn collect(&self, take: &mut dyn FnMut(Sample));
}
