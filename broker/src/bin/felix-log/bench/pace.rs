//! When appends are due. In an open loop that depends on the rate alone, so that a side that stalls
//! is charged with every append that would have come meanwhile.

use std::thread;
use std::time::{Duration, Instant};

/// A timer wakes a processor late: this long before something is due the clock is watched instead, where
/// nothing else is said.
pub(crate) const LEAD: Duration = Duration::from_micros(60);

/// How much longer a side may take for what became due in time.
const GRACE: Duration = Duration::from_secs(2);

/// The appends of one round on one core.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    begin: Instant,
    /// A second; `None`: as soon as there is somebody free.
    rate: Option<f64>,
    issued: u64,
    /// Of those that count.
    counting: bool,
    counts_from: Instant,
    end: Instant,
    /// How long before something is due the clock is watched.
    pub(crate) lead: Duration,
}

impl Pace {
    /// Begins now.
    pub(crate) fn begin(rate: Option<f64>, warm_up: Duration, span: Duration) -> Self {
        let begin = Instant::now();
        let counts_from = begin + warm_up;
        Self {
            begin,
            rate,
            issued: 0,
            counting: false,
            counts_from,
            end: counts_from + span,
            lead: LEAD,
        }
    }

    /// The same, with the clock watched so long before something is due.
    pub(crate) fn watched(self, lead: Duration) -> Self {
        Self { lead, ..self }
    }

    /// When the next append is due; `None`: there is none.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let due = match self.rate {
            None => now,
            #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 appends")]
            Some(rate) => self.begin + Duration::from_secs_f64(self.issued as f64 / rate),
        };
        // However slow the device is, one counts.
        let is_left = due < self.end || !self.counting;
        (is_left && now < self.end + GRACE).then_some(due)
    }

    /// The one that was due then is made.
    pub(crate) fn issued(&mut self, due: Instant) {
        self.issued += 1;
        self.counting |= self.counts(due);
    }

    /// Whether an append that was due then counts.
    pub(crate) fn counts(&self, due: Instant) -> bool {
        due >= self.counts_from
    }

    /// How long counting has gone on.
    pub(crate) fn counted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.counts_from)
    }
}

/// Returns when `due` has come, on a thread that has nothing else to do.
pub(crate) fn wait(due: Instant, lead: Duration) {
    let left = due.saturating_duration_since(Instant::now());
    if let Some(nap) = left.checked_sub(lead).filter(|nap| !nap.is_zero()) {
        thread::sleep(nap);
    }
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_depends_on_the_rate_and_not_on_when_it_is_asked() {
        let mut pace = Pace::begin(Some(1000.0), Duration::ZERO, Duration::from_millis(10));
        let begin = pace.begin;
        let late = begin + Duration::from_millis(500);
        for number in 0..10 {
            let due = begin + Duration::from_secs_f64(f64::from(number) / 1000.0);
            assert_eq!(pace.due(late), Some(due));
            pace.issued(due);
        }
        assert_eq!(pace.due(late), None, "the round is over");
    }

    #[test]
    fn a_side_that_cannot_keep_up_is_stopped_some_time_after_the_end() {
        let pace = Pace::begin(Some(1e9), Duration::ZERO, Duration::from_millis(10));
        assert_eq!(pace.due(pace.end + GRACE), None);
        let mut closed = Pace::begin(None, Duration::ZERO, Duration::from_millis(10));
        let end = closed.end;
        assert_eq!(closed.due(end), Some(end), "none has counted");
        closed.issued(end);
        assert_eq!(closed.due(end), None);
    }
}
