//! Time as a value that is passed in: nothing below the broker reads a clock by itself.

use std::pin::Pin;
use std::time::Duration;

/// Wall-clock time in milliseconds since 1970, as records carry it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Timestamp(pub i64);

/// Time since boot, suspended time included (CLOCK_BOOTTIME): for waits and leases. Never goes
/// backwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Monotonic(pub Duration);

impl Monotonic {
    /// The moment `wait` later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long from `now` until this moment; zero if it has passed.
    #[must_use]
    pub fn until(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0)
    }
}

/// The two clocks of the process.
pub trait Clock {
    /// Wall clock, for record timestamps.
    fn wall(&self) -> Timestamp;
    /// Boot clock, for waits.
    fn monotonic(&self) -> Monotonic;
}

/// Where a task of a CPU core waits for a time to come, as its runtime has it.
pub trait Timer {
    /// Resolves once this much time has passed.
    fn sleep(&self, wait: Duration) -> Pin<Box<dyn Future<Output = ()>>>;
}
