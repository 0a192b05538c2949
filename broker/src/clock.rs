//! The clocks of the process. Everything below is handed one; only here are they read.

use felix_core::{Clock, Monotonic, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The kernel's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let now = clock_gettime(ClockId::Realtime);
        Timestamp(now.tv_sec * 1000 + now.tv_nsec / 1_000_000)
    }

    fn monotonic(&self) -> Monotonic {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).expect("the boot clock begins at 0");
        let nanoseconds = u32::try_from(now.tv_nsec).expect("below a second");
        Monotonic(Duration::new(seconds, nanoseconds))
    }
}

impl SystemClock {
    /// Seconds since 1970; 0 for a clock before that.
    #[must_use]
    pub(crate) fn unix_seconds(self) -> u64 {
        u64::try_from(self.wall().0 / 1000).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_does_not_run_backwards_and_the_wall_clock_is_after_2020() {
        let first = SystemClock.monotonic();
        assert!(SystemClock.monotonic() >= first);
        assert!(SystemClock.unix_seconds() > 1_577_836_800);
    }
}
