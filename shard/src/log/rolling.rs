//! Sealing the segment that grows for its age, so that retention by age reaches a log that is hardly
//! written to. Its age counts from its first batch, by the clock of whoever appended it.

use super::Log;
use super::error::LogError;
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
        let grown = Duration::from_millis(u64::try_from(now.0 - begun.0).unwrap_or_default());
        Some(age.saturating_sub(grown))
    }

    /// Seals the segment that grows, if that is due. Whether it was. As with [`Log::append`] a disk
    /// without space leaves the log as it was.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn roll_if_due(&mut self, age: Duration, now: Timestamp) -> Result<bool, LogError> {
        if self.roll_due(age, now) != Some(Duration::ZERO) {
            return Ok(false);
        }
        self.roll().map_err(|error| self.unwritten(error))?;
        Ok(true)
    }
}
