//! What a log is still believed after the disk has failed it.

use super::Log;
use super::error::LogError;
use super::failed::FailureNote;

/// Why a log takes nothing more.
#[derive(Debug)]
pub(super) struct Poison {
    reason: String,
    distrust: Distrust,
    /// Word of it was taken, to be left for the next opening.
    is_noted: bool,
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
    /// Takes nothing more from here on. Word of it is to be left for the next opening: see
    /// [`Log::failure_note`].
    pub(super) fn poison(&mut self, error: LogError, distrust: Distrust) -> LogError {
        match &mut self.poison {
            None => {
                let reason = error.to_string();
                self.poison = Some(Poison {
                    reason,
                    distrust,
                    is_noted: false,
                });
            }
            // The first reason is the one that explains.
            Some(earlier) if earlier.distrust != distrust => earlier.distrust = Distrust::Flushes,
            Some(_) => {}
        }
        error
    }

    /// Word of a failed write or flush, to be left for the next opening; `None`: there was none, or it
    /// was taken before.
    pub fn failure_note(&mut self) -> Option<FailureNote> {
        let poison = self.poison.as_mut()?;
        let is_noted = std::mem::replace(&mut poison.is_noted, true);
        (!is_noted).then(|| FailureNote::new(&self.dir))
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
