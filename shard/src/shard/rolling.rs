//! Sealing segments for their age.

use super::{Effects, Phase, Shard};
use crate::log::{Log, LogError};
use felix_core::Timestamp;
use std::time::Duration;

impl Shard {
    /// How long until the segment that grows is to be sealed; see [`crate::log::Log::roll_due`].
    pub(crate) fn roll_due(&self, now: Timestamp) -> Option<Duration> {
        let phase = self.phase.borrow();
        phase.open().ok()?.log.roll_due(self.spec.segment_age, now)
    }

    /// Seals it, if that is due. Whether it was.
    ///
    /// # Errors
    /// There is no space for the next one.
    pub(crate) fn roll(&self, now: Timestamp) -> Result<(bool, Effects), LogError> {
        let mut phase = self.phase.borrow_mut();
        let Phase::Open(open) = &mut *phase else {
            return Ok((false, Effects::default()));
        };
        let rolled = match open.log.roll_if_due(self.spec.segment_age, now) {
            Ok(rolled) => rolled,
            Err(error) if error.is_full() => return Err(error),
            Err(error) => {
                drop(phase);
                return Ok((false, self.fail(error.into())));
            }
        };
        let effects = Effects {
            dirty: rolled,
            ..Effects::default()
        };
        Ok((rolled, effects))
    }

    /// What appends ask to be made ready ahead of those to come.
    pub(super) fn ahead(&self, log: &Log) -> Effects {
        Effects {
            wants_space: log.wants_space(),
            // Its core does not know yet that a segment of it is to be sealed some time.
            begun: !self.duties.rolls.get(),
            ..Effects::default()
        }
    }
}
