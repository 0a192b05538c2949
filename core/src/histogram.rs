//! How long things take on one CPU core, and how many of something come at once: recorded there,
//! and collected by message.

use crate::Monotonic;
use hdrhistogram::Histogram as Hdr;
use std::cell::RefCell;
use std::fmt;
use std::mem;
use std::time::Duration;

/// The quantiles of a histogram reach back over one to two of these. Long enough for a tail to
/// show, short enough that what went wrong an hour ago does not hide what goes wrong now.
const WINDOW: Duration = Duration::from_secs(60);

/// What is greater (as a duration: a minute) counts as this in the quantiles; the sum has it in
/// full.
const VALUE_MAX: u64 = 60_000_000;

/// Two digits: a quantile is off by at most 1 %, and a window takes some 10 KiB.
const DIGITS: u8 = 2;

/// Durations in microseconds, or plain numbers. Lives on one CPU core; recording allocates nothing
/// and reads no clock.
pub struct Histogram(RefCell<State>);

struct State {
    current: Hdr<u32>,
    previous: Hdr<u32>,
    /// When `current` began.
    turned: Monotonic,
    count: u64,
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self(RefCell::new(State {
            current: empty(),
            previous: empty(),
            turned: Monotonic::default(),
            count: 0,
            sum: 0,
        }))
    }
}

fn empty() -> Hdr<u32> {
    Hdr::new_with_bounds(1, VALUE_MAX, DIGITS).expect("the bounds are those of a histogram")
}

impl Histogram {
    /// Something began at `from` and ended at `now`.
    pub fn record(&self, from: Monotonic, now: Monotonic) {
        let us = now.until(from).as_micros();
        self.record_value(u64::try_from(us).unwrap_or(u64::MAX), now);
    }

    /// There were so many at `now`.
    pub fn record_value(&self, value: u64, now: Monotonic) {
        let mut state = self.0.borrow_mut();
        state.turn(now);
        state.current.saturating_record(value);
        state.count += 1;
        state.sum = state.sum.saturating_add(value);
    }

    /// What there is to say at `now`.
    #[must_use]
    pub fn snapshot(&self, now: Monotonic) -> Snapshot {
        let mut state = self.0.borrow_mut();
        state.turn(now);
        let mut recent = state.previous.clone();
        merge(&mut recent, &state.current);
        Snapshot {
            recent,
            count: state.count,
            sum: state.sum,
        }
    }
}

impl State {
    /// Forgets what is older than two windows.
    fn turn(&mut self, now: Monotonic) {
        let age = now.until(self.turned);
        if age < WINDOW {
            return;
        }
        mem::swap(&mut self.current, &mut self.previous);
        self.current.reset();
        if age >= 2 * WINDOW {
            self.previous.reset();
        }
        self.turned = now;
    }
}

fn merge(into: &mut Hdr<u32>, other: &Hdr<u32>) {
    into.add(other)
        .expect("all histograms have the same bounds");
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.borrow();
        f.debug_struct("Histogram")
            .field("count", &state.count)
            .field("sum", &state.sum)
            .finish_non_exhaustive()
    }
}

/// A histogram at one moment, ready to leave its core. Those of several cores are added up.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    recent: Hdr<u32>,
    count: u64,
    sum: u64,
}

impl Snapshot {
    /// Adds another core's.
    pub fn add(&mut self, other: &Self) {
        merge(&mut self.recent, &other.recent);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// What this share of the last one to two minutes did not exceed; `None`: there was nothing.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        (!self.recent.is_empty()).then(|| self.recent.value_at_quantile(share))
    }

    /// How many there have been since the start.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them since the start, added up.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic(Duration::from_secs(1000 + seconds))
    }

    fn record_us(histogram: &Histogram, now: Monotonic, us: u64) {
        histogram.record(Monotonic(now.0 - Duration::from_micros(us)), now);
    }

    /// Within the digits kept.
    fn is_about(value: Option<u64>, wanted: u64) -> bool {
        value.is_some_and(|value| value.abs_diff(wanted) * 100 <= wanted)
    }

    #[test]
    fn the_histograms_of_two_cores_add_up_to_that_of_all_their_values() {
        let (one, two, both) = (
            Histogram::default(),
            Histogram::default(),
            Histogram::default(),
        );
        for us in 1..=1000 {
            record_us(if us % 3 == 0 { &one } else { &two }, at(0), us * 7);
            record_us(&both, at(0), us * 7);
        }
        let mut sum = one.snapshot(at(1));
        sum.add(&two.snapshot(at(1)));
        assert_eq!(sum, both.snapshot(at(1)));
        assert_eq!(sum.count(), 1000);
        assert_eq!(sum.sum(), 7 * 1000 * 1001 / 2);
        assert!(is_about(sum.quantile(0.5), 3500));
        assert!(is_about(sum.quantile(0.999), 6993));
    }

    #[test]
    fn quantiles_forget_what_is_older_than_two_minutes_and_totals_do_not() {
        let histogram = Histogram::default();
        record_us(&histogram, at(0), 5000);
        for second in 0..=60 {
            record_us(&histogram, at(second), 10);
        }
        assert!(is_about(histogram.snapshot(at(61)).quantile(1.0), 5000));
        assert_eq!(histogram.snapshot(at(121)).quantile(1.0), Some(10));
        let late = histogram.snapshot(at(400));
        assert_eq!(late.quantile(0.5), None);
        assert_eq!((late.count(), late.sum()), (62, 5000 + 610));
    }

    #[test]
    fn what_took_no_time_or_far_too_long_is_recorded_all_the_same() {
        let histogram = Histogram::default();
        histogram.record(at(5), at(5));
        histogram.record(at(6), at(5));
        assert_eq!(histogram.snapshot(at(5)).quantile(1.0), Some(0));
        histogram.record(Monotonic::default(), at(5));
        let snapshot = histogram.snapshot(at(5));
        assert!(is_about(snapshot.quantile(1.0), VALUE_MAX));
        assert_eq!((snapshot.count(), snapshot.sum()), (3, 1_005_000_000));
    }
}
