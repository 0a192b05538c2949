//! When requests are due.

use std::time::Duration;

/// How far apart requests are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// Always as far.
    Even,
    /// As independent users would come: exponentially distributed, the same on average.
    Poisson,
}

/// The times at which one thread's requests are due, from the start of the load. They do not
/// depend on any answer: that is what makes the loop open.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    arrivals: Arrivals,
    interval_nanos: f64,
    due_nanos: f64,
    phase: f64,
    count: u64,
    random: fastrand::Rng,
}

impl Pace {
    /// `per_second` requests of this thread. The first is due after `phase` of an interval, so
    /// that threads can take turns. `seed` fixes what is left to chance.
    ///
    /// # Panics
    /// The rate is not above zero, or the phase not between zero and one.
    #[must_use]
    pub(crate) fn new(per_second: f64, arrivals: Arrivals, phase: f64, seed: u64) -> Self {
        assert!(per_second > 0.0 && per_second.is_finite());
        assert!((0.0..1.0).contains(&phase));
        let interval_nanos = 1e9 / per_second;
        Self {
            arrivals,
            interval_nanos,
            due_nanos: interval_nanos * phase,
            phase,
            count: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// When the next one is due.
    pub(crate) fn due(&self) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounded to a nanosecond, and never below zero"
        )]
        Duration::from_nanos(self.due_nanos.round() as u64)
    }

    /// Goes on to the one after it.
    pub(crate) fn advance(&mut self) {
        self.count += 1;
        #[expect(clippy::cast_precision_loss, reason = "no run has 2^53 requests")]
        let count = self.count as f64;
        self.due_nanos = match self.arrivals {
            // From the start each time, so that nothing adds up.
            Arrivals::Even => (count + self.phase) * self.interval_nanos,
            // `f64()` is below one, so the logarithm is finite.
            Arrivals::Poisson => {
                self.due_nanos - (1.0 - self.random.f64()).ln() * self.interval_nanos
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pace: &mut Pace, count: usize) -> Vec<Duration> {
        let next = || {
            let due = pace.due();
            pace.advance();
            due
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn threads_take_turns_by_their_phases() {
        let of = |phase| times(&mut Pace::new(500.0, Arrivals::Even, phase, 0), 3);
        let ms = |ms: [u64; 3]| ms.map(Duration::from_millis).to_vec();
        assert_eq!(of(0.0), ms([0, 2, 4]));
        assert_eq!(of(0.5), ms([1, 3, 5]));
    }

    #[test]
    fn chance_keeps_the_rate_and_can_be_repeated() {
        let of = |seed| {
            times(
                &mut Pace::new(10_000.0, Arrivals::Poisson, 0.0, seed),
                100_001,
            )
        };
        let last = of(7)[100_000].as_secs_f64();
        assert!(
            (last - 10.0).abs() < 0.2,
            "{last} s for 100,000 at 10,000 a second"
        );
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn as_many_are_due_in_a_time_as_the_rate_says() {
        for (rate, from_ms, to_ms) in [(3000.0, 100, 1100), (900.0, 300, 2300), (7.0, 0, 3000)] {
            let mut pace = Pace::new(rate, Arrivals::Even, 0.0, 0);
            let [from, to] = [from_ms, to_ms].map(Duration::from_millis);
            let mut count = 0;
            while pace.due() < to {
                count += u32::from(pace.due() >= from);
                pace.advance();
            }
            let seconds = (to - from).as_secs_f64();
            assert!(
                (f64::from(count) - rate * seconds).abs() < 1e-6,
                "{rate}: {count}"
            );
        }
    }

    #[test]
    fn a_pace_does_not_drift() {
        let mut pace = Pace::new(3.0, Arrivals::Even, 0.0, 0);
        let last = times(&mut pace, 3_000_001)[3_000_000];
        assert!((last.as_secs_f64() - 1e6).abs() < 0.001, "{last:?}");
    }
}
