//! What one tenant has left of its budget, or owes.

use super::Budget;
use crate::Monotonic;
use std::time::Duration;

/// Parts of a byte that are counted: a rate of bytes a second times nanoseconds is a whole number of
/// them, so nothing is ever rounded away.
const PARTS: i128 = 1_000_000_000;

/// A bucket that fills with time and may be below empty.
#[derive(Debug)]
pub(super) struct Bucket {
    budget: Budget,
    /// In parts of a byte.
    level: i128,
    /// When it was so.
    at: Monotonic,
}

impl Bucket {
    /// A full one.
    pub(super) fn full(budget: Budget, now: Monotonic) -> Self {
        Self {
            budget,
            level: parts(budget.burst_bytes),
            at: now,
        }
    }

    /// Time has passed.
    pub(super) fn refill(&mut self, now: Monotonic) {
        let elapsed = now.until(self.at).as_nanos();
        let elapsed = i128::try_from(elapsed).unwrap_or(i128::MAX);
        let rate = i128::from(self.budget.bytes_per_second.get());
        self.add(elapsed.saturating_mul(rate));
        self.at = self.at.max(now);
    }

    /// Puts back what was taken in vain. What does not fit is gone, as it would be had it stayed.
    pub(super) fn put_back(&mut self, bytes: u64) {
        self.add(parts(bytes));
    }

    fn add(&mut self, more: i128) {
        self.level = self
            .level
            .saturating_add(more)
            .min(parts(self.budget.burst_bytes));
    }

    /// Takes these, whether they are there or not.
    pub(super) fn take(&mut self, bytes: u64) {
        self.level = self.level.saturating_sub(parts(bytes));
    }

    /// Takes what is there of these; how much.
    pub(super) fn take_of(&mut self, bytes: u64) -> u64 {
        // The level is at most the burst, which fits.
        let there = u64::try_from(self.level.max(0) / PARTS).unwrap_or(u64::MAX);
        let taken = bytes.min(there);
        self.take(taken);
        taken
    }

    /// How long it takes until nothing is owed.
    pub(super) fn until_paid(&self) -> Duration {
        let owed = self.level.min(0).unsigned_abs();
        let nanos = owed.div_ceil(u128::from(self.budget.bytes_per_second.get()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Whether it is as it would be made anew.
    pub(super) fn is_full(&self) -> bool {
        self.level == parts(self.budget.burst_bytes)
    }
}

fn parts(bytes: u64) -> i128 {
    i128::from(bytes) * PARTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    fn at(millis: u64) -> Monotonic {
        Monotonic(Duration::from_millis(millis))
    }

    fn bucket() -> Bucket {
        let budget = Budget {
            bytes_per_second: NonZeroU64::new(1000).unwrap(),
            burst_bytes: 500,
        };
        Bucket::full(budget, at(7))
    }

    #[test]
    fn what_is_owed_is_paid_to_the_millisecond_and_a_full_bucket_stays_full() {
        let mut bucket = bucket();
        bucket.take(500);
        assert_eq!(bucket.until_paid(), Duration::ZERO);
        bucket.take(1);
        assert_eq!(bucket.until_paid(), Duration::from_millis(1));
        bucket.take(1999);
        assert_eq!(bucket.until_paid(), Duration::from_secs(2));
        bucket.refill(at(1007));
        assert_eq!(bucket.until_paid(), Duration::from_secs(1));
        bucket.refill(at(2006));
        assert_eq!(bucket.take_of(9), 0);
        bucket.refill(at(2017));
        assert_eq!(bucket.take_of(4), 4);
        assert_eq!(bucket.take_of(9), 6);
        assert!(!bucket.is_full());
        bucket.refill(at(60_000));
        bucket.put_back(100);
        assert!(bucket.is_full());
        assert_eq!(bucket.take_of(1000), 500);
    }

    #[test]
    fn a_clock_that_stands_still_or_an_absurd_debt_breaks_nothing() {
        let mut bucket = bucket();
        bucket.refill(at(3));
        for _ in 0..3 {
            bucket.take(u64::MAX);
        }
        assert_eq!(bucket.until_paid(), Duration::from_nanos(u64::MAX));
        bucket.refill(Monotonic(Duration::MAX));
        assert!(bucket.is_full());
    }

    #[test]
    fn no_part_of_a_byte_is_lost_however_often_one_looks() {
        let mut bucket = bucket();
        bucket.take(500 + 1000);
        for nanos in 1..=3_000_000_u64 {
            if nanos % 997 == 0 {
                bucket.refill(Monotonic(at(7).0 + Duration::from_nanos(nanos)));
            }
        }
        bucket.refill(at(1007));
        assert_eq!(bucket.until_paid(), Duration::ZERO);
        assert_eq!(bucket.take_of(1), 0);
    }
}
