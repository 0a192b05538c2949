//! Next segments, and sealing segments for their age.

use super::{Effects, Phase, Shard};
use crate::log::{Log, Making, Next};
use felix_core::Timestamp;
use std::time::Duration;

impl Shard {
    /// How long until the segment that grows is to be sealed; see [`crate::log::Log::roll_due`].
    pub(crate) fn roll_due(&self, now: Timestamp) -> Option<Duration> {
        let phase = self.phase.borrow();
        phase.open().ok()?.log.roll_due(self.spec.segment_age, now)
    }

    /// A next segment to be made; see [`crate::log::Log::making_next`].
    pub(crate) fn making_next(&self) -> Option<Making> {
        self.phase.borrow().open().ok()?.log.making_next()
    }

    /// The same, to seal the one that grows for its age.
    pub(crate) fn making_next_for_age(&self, now: Timestamp) -> Option<Making> {
        let phase = self.phase.borrow();
        let log = &phase.open().ok()?.log;
        log.making_next_for_age(self.spec.segment_age, now)
    }

    /// Takes one that was made. Whether it is of any use.
    pub(crate) fn made_next(&self, next: Next) -> bool {
        match &mut *self.phase.borrow_mut() {
            Phase::Open(open) => {
                open.log.made_next(next);
                true
            }
            // It is removed by the next opening.
            Phase::Opening | Phase::Failed(_) | Phase::Closed => false,
        }
    }

    /// Seals the segment that grows, if that is due. Whether it was.
    pub(crate) fn roll(&self, now: Timestamp) -> (bool, Effects) {
        let mut phase = self.phase.borrow_mut();
        let Phase::Open(open) = &mut *phase else {
            return (false, Effects::default());
        };
        let rolled = open.log.roll_if_due(self.spec.segment_age, now);
        let effects = Effects {
            dirty: rolled,
            ..Effects::default()
        };
        (rolled, effects)
    }

    /// What appends ask to be made ready ahead of those to come.
    pub(super) fn ahead(&self, log: &Log) -> Effects {
        Effects {
            wants_space: log.wants_aside(),
            // Its core does not know yet that a segment of it is to be sealed some time.
            begun: !self.duties.rolls.get(),
            ..Effects::default()
        }
    }
}
