//! Space that appends are written into: zeros that lie behind the last batch and are on the device
//! before they are needed, so that a flush of an append changes nothing but its own blocks. It goes
//! seconds ahead, by the shard's recent rate and in steps, and nobody waits for it: an append that it comes too
//! late for extends the file itself.

use super::Log;
use super::error::LogError;
use super::segment::Segment;
use felix_core::Monotonic;
use std::rc::Rc;
use std::time::Duration;

/// The first step, and what each is a multiple of.
const STEP_BYTES_MIN: u64 = 64 << 10;

/// The greatest: some milliseconds of what a device takes, which others wait for.
const STEP_BYTES_MAX: u64 = 4 << 20;

/// What is prepared is for so long, where that is not too much: a device that others fill takes hundreds of
/// milliseconds for a step, and an append that has no space waits for the kernel to find it some.
const HORIZON: Duration = Duration::from_secs(4);

/// The greatest that is prepared ahead, in steps: ten thousand busy shards have it all.
const AHEAD_BYTES_MAX: u64 = 8 << 20;

/// What is written in less time than this says little of how fast a log is.
const PACE_TIME_MIN: Duration = Duration::from_millis(100);

/// A shard that has written less than this since it was opened has nothing prepared: ten thousand
/// that are hardly written to shall not cost ten thousand flushes and as many steps.
const WRITTEN_BYTES_MIN: u64 = 16 << 10;

/// Less than a block is not worth a flush.
const WORTHWHILE_BYTES: u64 = 4 << 10;

/// How fast a log grows, as far as its preparation cares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When the step began from which on the rate is looked at; `None`: there was none.
    since: Option<Monotonic>,
    /// What had been written then.
    written: u64,
    /// What is to be prepared.
    ahead: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            since: None,
            written: 0,
            ahead: STEP_BYTES_MIN,
        }
    }
}

impl Pace {
    /// The pace at the next step of a log to which so much has been written by now.
    fn next(self, now: Monotonic, written: u64) -> Self {
        let Some(since) = self.since else {
            return Self {
                since: Some(now),
                written,
                ..self
            };
        };
        let time = now.until(since);
        let grown = u128::from(written - self.written) * HORIZON.as_micros();
        let bytes = grown / time.as_micros().max(1);
        let bytes = u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .min(AHEAD_BYTES_MAX);
        let ahead = bytes.next_multiple_of(STEP_BYTES_MIN).max(STEP_BYTES_MIN);
        if time < PACE_TIME_MIN {
            // It may be fast, or what came was all that there is.
            let ahead = ahead.clamp(self.ahead, self.step() * 2);
            return Self { ahead, ..self };
        }
        // One that comes in pulses is not slow between two of them.
        let half = (self.ahead / 2).next_multiple_of(STEP_BYTES_MIN);
        let ahead = if time < HORIZON {
            ahead.max(half)
        } else {
            ahead
        };
        Self {
            since: Some(now),
            written,
            ahead,
        }
    }

    /// The next step.
    fn step(self) -> u64 {
        self.ahead.min(STEP_BYTES_MAX)
    }

    /// Where less than this is prepared there is to be another step.
    fn least(self) -> u64 {
        (self.ahead - self.step()).max(self.ahead / 2)
    }
}

/// Space to be prepared without holding the log. One at a time per log.
#[derive(Debug)]
#[must_use]
pub struct Preparation {
    segment: Rc<Segment>,
    bytes: u64,
}

/// Space that was prepared.
#[derive(Debug)]
pub struct Prepared {
    segment: Rc<Segment>,
    size: u64,
}

impl Preparation {
    /// Bytes it will take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Does it, on a blocking thread.
    ///
    /// # Errors
    /// The disk's own fault. It says nothing about what was appended: the next flush of that does.
    pub async fn run(self) -> Result<Prepared, LogError> {
        let size = self.segment.extend(self.bytes).await?;
        Ok(Prepared {
            segment: self.segment,
            size,
        })
    }
}

impl Log {
    /// Whether little space is left of what was prepared, and more may be. Asked after each append.
    #[must_use]
    pub fn wants_space(&self) -> bool {
        let last = self.last();
        self.written >= WRITTEN_BYTES_MIN
            && last.prepared_bytes() < self.pace.least()
            && self.room_for_space() >= WORTHWHILE_BYTES
            && self.poison.is_none()
    }

    /// The next step; `None` where none is wanted. To be brought back by [`Log::prepared`].
    #[must_use]
    pub fn preparation(&mut self, now: Monotonic) -> Option<Preparation> {
        if !self.wants_space() {
            return None;
        }
        self.pace = self.pace.next(now, self.written);
        Some(Preparation {
            segment: Rc::clone(self.last()),
            bytes: self.pace.step().min(self.room_for_space()),
        })
    }

    /// Takes a finished step back. Of a segment that is full meanwhile nothing is left to use; it
    /// is cut to its batches before its index files are written.
    pub fn prepared(&mut self, prepared: &Prepared) {
        prepared.segment.prepared(prepared.size);
    }

    /// Bytes prepared and not used yet.
    #[must_use]
    pub fn prepared_bytes(&self) -> u64 {
        self.last().prepared_bytes()
    }

    /// Of the next segment so much is prepared at once.
    pub(super) fn step_bytes(&self) -> u64 {
        if self.written < WRITTEN_BYTES_MIN {
            return 0;
        }
        self.pace.step().min(self.config.segment_bytes_max)
    }

    /// Bytes that the last segment may still grow by.
    fn room_for_space(&self) -> u64 {
        let last = self.last();
        let used = last.bytes() + last.prepared_bytes();
        self.config.segment_bytes_max.saturating_sub(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic(Duration::from_millis(ms))
    }

    #[test]
    fn what_is_prepared_is_for_some_seconds_of_the_recent_rate_within_bounds() {
        let first = Pace::default().next(at(1000), 20_000);
        assert_eq!(first.ahead, STEP_BYTES_MIN);
        // 100,000 bytes a second.
        let second = first.next(at(2000), 120_000);
        assert_eq!(second.ahead, 400_000_u64.next_multiple_of(STEP_BYTES_MIN));
        assert_eq!(second.step(), second.ahead);
        let flat_out = second.next(at(2100), 50_120_000);
        assert_eq!(flat_out.ahead, AHEAD_BYTES_MAX);
        assert_eq!(flat_out.step(), STEP_BYTES_MAX);
        let slow = flat_out.next(at(100_000), 50_200_000);
        assert_eq!(slow.ahead, STEP_BYTES_MIN);
        assert_eq!(slow.next(at(100_000), 50_200_000).ahead, STEP_BYTES_MIN);
    }

    #[test]
    fn steps_one_right_after_the_other_make_a_log_neither_slow_nor_much_faster() {
        let slow = Pace::default().next(at(1000), 0);
        let fast = slow.next(at(2000), 1_000_000);
        assert_eq!(fast.next(at(2005), 1_000_000).ahead, fast.ahead);
        assert!(fast.next(at(2100), 1_000_000).ahead < fast.ahead);
        // 64 KiB in five milliseconds may be all that there is in a minute.
        let burst = slow.next(at(1005), 64 << 10);
        assert_eq!(burst.ahead, 2 * STEP_BYTES_MIN);
        assert_eq!(burst.next(at(61_000), 128 << 10).ahead, STEP_BYTES_MIN);
    }

    #[test]
    fn steps_go_on_until_there_is_no_room_for_another_in_what_is_prepared_ahead() {
        let small = Pace::default();
        assert_eq!(small.least(), STEP_BYTES_MIN / 2);
        let great = Pace {
            ahead: AHEAD_BYTES_MAX,
            ..small
        };
        assert_eq!(great.least(), AHEAD_BYTES_MAX - STEP_BYTES_MAX);
    }
}
