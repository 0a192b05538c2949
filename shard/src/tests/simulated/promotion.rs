//! Another leader takes the logs of a story over. Owners do not open logs so yet; logs do.

use super::story::Story;
use crate::log::{Log, LogError, OpenReason, Opening};
use crate::{ShardSpec, Suspect};
use felix_core::Offset;

impl Story {
    /// Opens some of the logs as a new leader does, and closes them or not.
    pub(super) async fn promote(&self, is_well: bool) {
        for (index, spec) in self.specs().into_iter().enumerate() {
            if self.simulation.draw(fastrand::Rng::bool) {
                let suspect = Suspect::new(&spec.name, &spec.directory);
                let promoted = suspect.doing(self.promote_one(index, spec)).await;
                self.say(|| format!("shard {index}, promoted: {promoted:?}"));
                assert!(promoted.is_ok() || !is_well, "{promoted:?}");
            }
        }
    }

    async fn promote_one(&self, index: usize, spec: ShardSpec) -> Result<(), LogError> {
        let model = &self.models[index];
        model.borrow_mut().is_promoted();
        let opening = Opening {
            reason: OpenReason::Promotion,
            generation_floor: spec.generation_floor,
            is_floor_noted: spec.is_floor_noted,
            now: self.wall(),
            verify: self.rig.verify_on_open,
            failed: false,
            kept_free_bytes: 0,
        };
        let (log, _) = Log::open(&spec.directory, self.rig.config().log, opening).await?;
        // Its last batch begins the generation, where there is one.
        let end = log
            .end()
            .get()
            .checked_sub(1)
            .filter(|_| log.end() > log.start());
        model.borrow_mut().promoted(end.map(Offset::new));
        if self.simulation.draw(fastrand::Rng::bool) {
            log.close().await?;
        }
        Ok(())
    }
}
