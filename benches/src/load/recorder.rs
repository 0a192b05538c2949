//! What one thread counts in a turn.

use crate::found::Latencies;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// The bound of a histogram of lateness, in nanoseconds.
const LATENESS_MAX: u64 = 600_000_000_000;
/// Texts of errors that are told apart; more of them count as one.
const ERRORS_MAX: usize = 20;

/// Counts what was due in the measured window. Times are from the start of the load.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    begin: Duration,
    end: Duration,
    pub(crate) latencies: Latencies,
    pub(crate) lateness: Histogram<u64>,
    pub(crate) operations: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) unanswered: u64,
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Recorder {
    /// For the window from `begin` to `end`, in slots of that length; one more slot takes what
    /// ends after it.
    pub(crate) fn new(begin: Duration, end: Duration, slot: Duration) -> Self {
        assert!(begin < end);
        let slots = (end - begin).as_nanos().div_ceil(slot.as_nanos());
        let slots = usize::try_from(slots).expect("slots are few");
        let mut latencies = Latencies::new(slot, slots + 1);
        latencies.prepare();
        Self {
            begin,
            end,
            latencies,
            lateness: Histogram::new_with_bounds(1, LATENESS_MAX, 3).expect("constant bounds"),
            operations: 0,
            records: 0,
            bytes: 0,
            unanswered: 0,
            errors: BTreeMap::new(),
        }
    }

    /// Whether what is due at that time counts.
    pub(crate) fn counts(&self, due: Duration) -> bool {
        self.begin <= due && due < self.end
    }

    /// Something due at that time was sent at that one.
    pub(crate) fn sent(&mut self, due: Duration, now: Duration) {
        if self.counts(due) {
            let late = u64::try_from(now.saturating_sub(due).as_nanos()).unwrap_or(u64::MAX);
            let late = late.clamp(1, LATENESS_MAX);
            self.lateness.record(late).expect("within its bounds");
        }
    }

    /// What was due then is done now.
    pub(crate) fn done(&mut self, due: Duration, now: Duration, records: u64, bytes: u64) {
        if self.counts(due) {
            self.latencies
                .record(due - self.begin, now.saturating_sub(due));
        }
        // The rate reached is that of what ended within the window, whenever it began.
        if self.counts(now) {
            self.operations += 1;
            self.records += records;
            self.bytes += bytes;
        }
    }

    /// Bytes arrived that no request asked for one by one.
    pub(crate) fn flowed(&mut self, now: Duration, bytes: u64) {
        if self.counts(now) {
            self.bytes += bytes;
        }
    }

    /// What was due then was refused.
    pub(crate) fn refused(&mut self, due: Duration, why: &str) {
        if !self.counts(due) {
            return;
        }
        let why = match self.errors.contains_key(why) || self.errors.len() < ERRORS_MAX {
            true => why,
            false => "others",
        };
        *self.errors.entry(why.to_owned()).or_default() += 1;
    }

    /// What was due then was not done by now, and nobody waits for it any more. It counts as
    /// having taken until now: to leave it out would hide the worst.
    pub(crate) fn gave_up(&mut self, due: Duration, now: Duration) {
        if self.counts(due) {
            self.latencies
                .record(due - self.begin, now.saturating_sub(due));
            self.unanswered += 1;
        }
    }

    /// Counts nothing that is due, or done, from then on.
    pub(crate) fn end_at(&mut self, end: Duration) {
        self.end = self.end.min(end);
    }

    /// Records and bytes that came in so many copies count once.
    pub(crate) fn divide(&mut self, copies: u64) {
        self.records /= copies;
        self.bytes /= copies;
    }

    /// Adds what another thread counted in the same turn.
    pub(crate) fn add(&mut self, other: &Self) {
        assert_eq!(self.begin, other.begin);
        self.latencies.add(&other.latencies);
        self.lateness.add(&other.lateness).expect("the same bounds");
        self.operations += other.operations;
        self.records += other.records;
        self.bytes += other.bytes;
        self.unanswered += other.unanswered;
        for (why, count) in &other.errors {
            *self.errors.entry(why.clone()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn recorder() -> Recorder {
        Recorder::new(ms(100), ms(300), ms(100))
    }

    #[test]
    fn only_what_is_due_in_the_window_has_a_latency() {
        let mut recorder = recorder();
        for due in [99, 100, 299, 300] {
            recorder.sent(ms(due), ms(due + 1));
            recorder.done(ms(due), ms(due + 2), 1, 10);
        }
        assert_eq!(recorder.latencies.all().len(), 2);
        assert_eq!(recorder.lateness.len(), 2);
        // Those of 99 and 100 ended within it.
        assert_eq!(
            (recorder.operations, recorder.records, recorder.bytes),
            (2, 2, 20)
        );
    }

    #[test]
    fn what_nobody_answered_counts_with_the_time_it_was_waited_for() {
        let mut recorder = recorder();
        recorder.gave_up(ms(200), ms(1200));
        recorder.gave_up(ms(50), ms(1200));
        let all = recorder.latencies.all();
        assert_eq!((all.len(), recorder.unanswered), (1, 1));
        assert!(all.max() >= 999_000_000, "{}", all.max());
    }

    #[test]
    fn texts_of_errors_are_bounded() {
        let mut recorder = recorder();
        for n in 0..100 {
            recorder.refused(ms(200), &format!("error {n}"));
        }
        assert_eq!(recorder.errors.len(), ERRORS_MAX + 1);
        assert_eq!(recorder.errors.values().sum::<u64>(), 100);
    }
}
