//! What the batches say that an opening has read.

use super::checkpoint::Checkpoint;
use super::controls::Controls;
use super::generations::Generations;
use felix_core::{PlacedBatch, Timestamp};

/// See the module.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) batches: u64,
    controls: Controls,
    pub(super) generations: Generations,
    append_time: Option<Timestamp>,
}

impl Seen {
    pub(super) fn note(&mut self, batch: &PlacedBatch) {
        self.batches += 1;
        if batch.is_control() {
            self.controls.note(batch.base_offset(), batch.next_offset());
        }
        self.generations
            .observe(batch.generation(), batch.base_offset());
        if batch.header().is_append_time() {
            self.append_time = self.append_time.max(Some(batch.max_timestamp()));
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.batches += other.batches;
        self.controls.extend(other.controls, None);
        self.append_time = self.append_time.max(other.append_time);
        for (generation, first) in other.generations.entries() {
            self.generations.observe(generation, first);
        }
    }

    /// Where control batches lie, and the greatest append time.
    pub(super) fn marks(&mut self, checkpoint: Option<&Checkpoint>) -> (Controls, Timestamp) {
        let mut controls = Controls::default();
        let mut append_time = self.append_time.unwrap_or_default();
        if let Some(checkpoint) = checkpoint {
            if checkpoint.visible_end < checkpoint.recovery_point {
                controls.note(checkpoint.visible_end, checkpoint.recovery_point);
            }
            append_time = append_time.max(checkpoint.append_time);
        }
        // What lies below the recovery point was seen only in part, and adds nothing to it.
        let from = checkpoint.map(|checkpoint| checkpoint.recovery_point);
        controls.extend(std::mem::take(&mut self.controls), from);
        (controls, append_time)
    }
}
