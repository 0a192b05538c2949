//! Space that appends are written into: zeros that lie behind the last batch and are on the device
//! before they are needed, so that a flush of an append changes nothing but its own blocks. It goes
//! ahead in steps by the shard's recent rate, and nobody waits for it: an append that it comes too
//! late for extends the file itself.

use super::Log;
use super::error::LogError;
use super::segment::Segment;
use felix_core::Monotonic;
use std::rc::Rc;
use std::time::Duration;

/// The first step, and what each is a multiple of.
const STEP_BYTES_MIN: u64 = 64 << 10;

/// The greatest: some ten thousandths of a second of what a device takes.
const STEP_BYTES_MAX: u64 = 4 << 20;

/// What a step is for.
const HORIZON: Duration = Duration::from_secs(1);

/// A shard that has written less than this since it was opened has nothing prepared: ten thousand
/// that are hardly written to shall not cost ten thousand flushes and as many steps.
const WRITTEN_BYTES_MIN: u64 = 16 << 10;

/// Less than a block is not worth a flush.
const WORTHWHILE_BYTES: u64 = 4 << 10;

/// How fast a log grows, as far as its preparation cares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When the last step began; `None`: there was none.
    since: Option<Monotonic>,
    /// What had been written then.
    written: u64,
    /// The last step.
    step: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            since: None,
            written: 0,
            step: STEP_BYTES_MIN,
        }
    }
}

impl Pace {
    /// The next step, for a log to which so much has been written by now.
    fn next(self, now: Monotonic, written: u64) -> Self {
        let step = self.since.map_or(STEP_BYTES_MIN, |since| {
            let grown = u128::from(written - self.written) * HORIZON.as_micros();
            let bytes = grown / now.until(since).as_micros().max(1);
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).min(STEP_BYTES_MAX);
            bytes.next_multiple_of(STEP_BYTES_MIN).max(STEP_BYTES_MIN)
        });
        Self {
            since: Some(now),
            written,
            step,
        }
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
            && last.prepared_bytes() < self.pace.step / 2
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
            bytes: self.pace.step.min(self.room_for_space()),
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
        self.pace.step.min(self.config.segment_bytes_max)
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
    fn a_step_is_a_second_of_the_recent_rate_within_bounds() {
        let first = Pace::default().next(at(1000), 20_000);
        assert_eq!(first.step, STEP_BYTES_MIN);
        // 1,000,000 bytes a second.
        let second = first.next(at(1100), 120_000);
        assert_eq!(second.step, 1_000_000_u64.next_multiple_of(STEP_BYTES_MIN));
        let flat_out = second.next(at(1101), 50_120_000);
        assert_eq!(flat_out.step, STEP_BYTES_MAX);
        let slow = flat_out.next(at(100_000), 50_200_000);
        assert_eq!(slow.step, STEP_BYTES_MIN);
        assert_eq!(slow.next(at(100_000), 50_200_000).step, STEP_BYTES_MIN);
    }
}
