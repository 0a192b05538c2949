//! What a log is still believed after the disk has failed it.

use super::error::LogError;
use super::{Log, failed};

/// Why a log takes nothing more.
#[derive(Debug)]
pub(super) struct Poison {
    reason: String,
    distrust: Distrust,
}

/// What is not believed any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Distrust {
    /// A write failed: what follows the last whole batch is unknown, so nothing is appended. What
    /// was written before it can still be flushed.
    Appends,
    /// A flush, or the sync of a directory, failed: the kernel reports that once, so no later
    /// flush proves anything.
    Flushes,
}

impl Log {
    /// Takes nothing more from here on, and leaves word for the next opening.
    pub(super) fn poison(&mut self, error: LogError, distrust: Distrust) -> LogError {
        match &mut self.poison {
            None => {
                let reason = error.to_string();
                self.poison = Some(Poison { reason, distrust });
            }
            // The first reason is the one that explains.
            Some(earlier) if earlier.distrust != distrust => earlier.distrust = Distrust::Flushes,
            Some(_) => return error,
        }
        failed::leave_failed(&self.dir);
        error
    }

    /// Whether the log takes appends.
    pub(super) fn usable(&self) -> Result<(), LogError> {
        self.poison
            .as_ref()
            .map_or(Ok(()), |poison| Err(self.poisoned(poison)))
    }

    /// Whether what a flush says is believed.
    pub(super) fn believed(&self) -> Result<(), LogError> {
        match &self.poison {
            Some(poison) if poison.distrust == Distrust::Flushes => Err(self.poisoned(poison)),
            Some(_) | None => Ok(()),
        }
    }

    fn poisoned(&self, poison: &Poison) -> LogError {
        LogError::Poisoned {
            dir: self.dir.path().to_owned(),
            reason: poison.reason.clone(),
        }
    }
}
