//! The clocks that a core is given, read as the broker reads them.

use felix_core::{Clock, Monotonic, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The kernel's clocks.
#[derive(Debug)]
pub struct SystemClock;

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
