//! Sealing the segment that grows for its age, so that retention by age reaches a log that is hardly
//! written to. Its age counts from its first batch, by the clock of whoever appended it.

use super::Log;
use felix_core::Timestamp;
use std::time::Duration;

impl Log {
    /// How long until the segment that grows is to be sealed; zero: now. `None`: it has no batch, or
    /// the log takes nothing any more.
    #[must_use]
    pub fn roll_due(&self, age: Duration, now: Timestamp) -> Option<Duration> {
        if self.poison.is_some() {
            return None;
        }
        let begun = self.last().begun(now)?;
        let grown =
            Duration::from_millis(u64::try_from(now.0.saturating_sub(begun.0)).unwrap_or_default());
        Some(age.saturating_sub(grown))
    }

    /// Seals the segment that grows, if that is due, the next one is made, and no batch is being written.
    /// Whether it was.
    pub fn roll_if_due(&mut self, age: Duration, now: Timestamp) -> bool {
        let is_ready = self.next.is_some() && !self.is_writing;
        if !is_ready || self.roll_due(age, now) != Some(Duration::ZERO) {
            return false;
        }
        self.roll().expect("nothing is asked of the disk");
        true
    }
}
