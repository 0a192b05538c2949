//! Batches of idempotent producers: what is there already, and what is to be completed.

use super::{Effects, Entry, Open, Phase, Shard, Waiting, Writer};
use crate::call::Unplaced;
use felix_core::producers::{Landed, Refusal, Verdict};
use felix_core::shards::Appended;
use felix_core::{
    Batch, BatchError, Generation, Monotonic, Offset, PlacedBatch, ShardError, Timestamps,
};

/// A batch of which the first records are there. While the others are cut out of it the shard takes
/// nothing, so that they still follow.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) batch: Batch,
    /// Its records that are there.
    pub(crate) present: u32,
    pub(crate) rest: Uncut,
}

/// What is kept of it meanwhile.
#[derive(Debug)]
pub(crate) struct Uncut {
    caller: Unplaced,
    arrived: Monotonic,
    landed: Landed,
    /// The opening that it came to.
    generation: Generation,
}

impl Cut {
    pub(super) fn new(entry: Entry, present: u32, landed: Landed, generation: Generation) -> Self {
        Self {
            batch: entry.batch,
            present,
            rest: Uncut {
                caller: entry.caller,
                arrived: entry.arrived,
                landed,
                generation,
            },
        }
    }
}

impl Uncut {
    /// The batch is refused after all.
    pub(crate) fn refuse(self, error: ShardError) {
        self.caller.refuse(error);
    }
}

/// Where a batch has its place.
pub(super) fn landing(placed: &PlacedBatch) -> Landed {
    Landed {
        base_offset: placed.base_offset(),
        end: placed.next_offset(),
        append_time: Some(placed.max_timestamp()),
    }
}

/// Why a batch is not taken, for whoever sent it.
pub(super) fn refused(refusal: Refusal, log_start: Offset) -> ShardError {
    match refusal {
        Refusal::OutOfOrder { owed, found } => ShardError::OutOfOrderSequence { owed, found },
        Refusal::LowerEpoch { current, found } => ShardError::OldProducerEpoch { current, found },
        Refusal::Unknown => ShardError::UnknownProducer { log_start },
        Refusal::TooOld => ShardError::DuplicateSequence,
    }
}

impl Shard {
    /// Why a batch is not taken at all, if it is larger than a segment may be.
    pub(super) fn too_large(&self, batch: &Batch) -> Option<ShardError> {
        let size = super::byte_count(batch.size());
        let bytes_max = self.segment_bytes_max;
        (size > bytes_max).then_some(ShardError::BatchTooLarge { bytes_max })
    }

    /// What the answer to records that were sent again is.
    pub(super) fn landed(&self, open: &Open, landed: Landed) -> Appended {
        Appended {
            base_offset: landed.base_offset,
            append_time: match self.spec.timestamps {
                Timestamps::Append => landed.append_time,
                Timestamps::Create => None,
            },
            log_start: open.log.start(),
        }
    }

    /// A batch is there already: it is answered as the one that it repeats, and not before.
    pub(super) fn repeat(
        &self,
        open: &mut Open,
        entry: Entry,
        landed: Landed,
        writer: &Writer<'_>,
    ) {
        writer.metrics.repeated_batches.increment();
        let appended = self.landed(open, landed);
        let caller = entry.caller.placed();
        if landed.end <= open.mark {
            caller.settle(Ok(appended));
            return;
        }
        open.repeats.push(Waiting {
            end: landed.end,
            written: open.written,
            appended,
            caller,
            arrived: entry.arrived,
        });
    }

    /// The batch that is to be cut, once.
    pub(crate) fn take_cut(&self) -> Option<Cut> {
        match &mut *self.phase.borrow_mut() {
            Phase::Open(open) => open.cut.take(),
            Phase::Opening | Phase::Failed(_) | Phase::Closed => None,
        }
    }

    /// Writes what was cut out of a batch, and takes further ones.
    pub(crate) fn complete(
        &self,
        rest: Uncut,
        left: Result<Batch, BatchError>,
        writer: &Writer<'_>,
    ) -> Effects {
        let Uncut {
            caller,
            arrived,
            landed,
            generation,
        } = rest;
        let mut phase = self.phase.borrow_mut();
        let Phase::Open(open) = &mut *phase else {
            caller.refuse(phase.refusal().expect("a shard that is not open refuses"));
            return Effects::default();
        };
        if open.log.generation() != generation {
            // It was opened again meanwhile, and what suspends it is another batch.
            caller.refuse(ShardError::NotLeader);
            return Effects::default();
        }
        open.suspended = false;
        let resumed = Effects {
            room: self.has_room_for_parked(open),
            ..Effects::default()
        };
        let batch = match left {
            Ok(batch) => batch,
            Err(error) => {
                // It was whole when it came, so its producer will have it whole.
                caller.refuse(ShardError::Storage(format!("a batch in memory: {error}")));
                return resumed;
            }
        };
        if let Some(error) = self.too_large(&batch) {
            caller.refuse(error);
            return resumed;
        }
        if open.log.judge(batch.header()) != Ok(Verdict::New) {
            // Another log's batches were applied meanwhile, so this broker follows.
            caller.refuse(ShardError::NotLeader);
            return resumed;
        }
        let entry = Entry {
            batch,
            caller,
            arrived,
            deadline: None,
        };
        let written = self.place(open, entry, Some(landed), writer);
        let room = self.has_room_for_parked(open);
        Effects {
            room,
            ..self.effects_of(phase, written)
        }
    }

    /// Forgets a producer, because those of the core take too much memory.
    pub(crate) fn forget_producer(&self) {
        let _at_work = self.suspect.enter();
        if let Phase::Open(open) = &mut *self.phase.borrow_mut() {
            open.log.with_producers(|table| table.forget_least_active());
            open.count_producers();
        }
    }
}

impl Open {
    /// Tells the core what is known of producers.
    pub(super) fn count_producers(&mut self) {
        let Self { log, producers, .. } = self;
        log.with_producers(|table| producers.update(table));
    }
}
