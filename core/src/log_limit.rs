//! How many lines of one kind the log takes: whoever can cause a line could else cause a flood.

use crate::Monotonic;
use crate::metrics::Counter;
use std::cell::Cell;
use std::time::Duration;

/// Lines of one kind and core within a window.
pub const LINES_PER_WINDOW_MAX: u32 = 10;

const WINDOW: Duration = Duration::from_secs(1);

/// Lets the first lines of each second through and counts the others. Lives on one CPU core, one
/// for each kind of line.
#[derive(Debug, Default)]
pub struct LogLimit {
    /// `None`: nothing has been written yet.
    began: Cell<Option<Monotonic>>,
    written: Cell<u32>,
    untold: Cell<u64>,
    left_out: Counter,
}

impl LogLimit {
    /// Whether a line may be written now. `Some`: it may, and so many before it were left out,
    /// which is to be told with it.
    #[must_use]
    pub fn admit(&self, now: Monotonic) -> Option<u64> {
        let is_over = |began: Monotonic| now.until(began) >= WINDOW;
        if self.began.get().is_none_or(is_over) {
            self.began.set(Some(now));
            self.written.set(0);
        }
        if self.written.get() == LINES_PER_WINDOW_MAX {
            self.untold.set(self.untold.get() + 1);
            self.left_out.increment();
            return None;
        }
        self.written.set(self.written.get() + 1);
        Some(self.untold.take())
    }

    /// Lines left out so far.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_ten_lines_a_second_and_the_number_of_the_others() {
        let limit = LogLimit::default();
        let at = |ms| Monotonic(Duration::from_millis(ms));
        for _ in 0..LINES_PER_WINDOW_MAX {
            assert_eq!(limit.admit(at(0)), Some(0));
        }
        for ms in 0..500 {
            assert_eq!(limit.admit(at(ms)), None);
        }
        assert_eq!(limit.left_out(), 500);
        assert_eq!(limit.admit(at(1000)), Some(500));
        assert_eq!(limit.admit(at(1001)), Some(0), "it is told once");
    }
}
