//! An idempotent producer of a story: what was not answered it sends again, as clients do.

use felix_core::ShardError;
use felix_core::limits::PRODUCER_PLACES_MAX;
use std::collections::VecDeque;

/// See the module. It outlives the broker's crashes.
#[derive(Debug)]
pub(super) struct Producer {
    id: i64,
    epoch: i16,
    /// The sequence of its next record.
    sequence: i32,
    /// Sent in this order, and not acknowledged.
    unanswered: VecDeque<Batch>,
    /// Acknowledged in this order, in this epoch: its last ones.
    answered: VecDeque<Batch>,
    /// All that it ever sent in this epoch is in the log, as far as this life has told.
    is_in_step: bool,
    is_busy: bool,
}

/// A batch, and how many it may be in the log.
#[derive(Clone, Copy, Debug)]
struct Batch {
    id: u64,
    places: usize,
}

impl Producer {
    pub(super) fn new(id: i64) -> Self {
        Self {
            id,
            epoch: 0,
            sequence: 0,
            unanswered: VecDeque::new(),
            answered: VecDeque::new(),
            is_in_step: false,
            is_busy: false,
        }
    }

    /// What it sends again, first: up to so many of those that were acknowledged, as far back as the
    /// broker has to know them, and all that were not. `None`: it waits for answers.
    pub(super) fn begin(&mut self, repeats: usize) -> Option<Vec<u64>> {
        if std::mem::replace(&mut self.is_busy, true) {
            return None;
        }
        let places = self.unanswered.iter().map(|batch| batch.places);
        let mut left = PRODUCER_PLACES_MAX.saturating_sub(places.sum());
        let known = self.answered.iter().rev().take_while(|batch| {
            let is_known = batch.places <= left;
            left = left.saturating_sub(batch.places);
            is_known
        });
        let repeats = known.take(repeats).count();
        let answered = self.answered.range(self.answered.len() - repeats..);
        let again = answered.chain(&self.unanswered);
        Some(again.map(|batch| batch.id).collect())
    }

    /// Whether the broker owes it no answer, and knows all that it sent. Whoever places its batches
    /// as another log has them does so in their order.
    pub(super) fn is_in_step(&self) -> bool {
        self.is_in_step && self.unanswered.is_empty()
    }

    /// Where the next batch of so many records stands: id, epoch, sequence.
    pub(super) fn place(&mut self, records: usize) -> (i64, i16, i32) {
        let place = (self.id, self.epoch, self.sequence);
        self.sequence += i32::try_from(records).expect("batches are small");
        place
    }

    /// A new batch is on its way, some of whose records may be there before.
    pub(super) fn sends(&mut self, id: u64, has_head: bool) {
        let places = if has_head { 2 } else { 1 };
        self.unanswered.push_back(Batch { id, places });
    }

    /// What became of all it has sent, in order. It begins anew where the broker does not know
    /// what comes before: those are the client's to tell its user of.
    pub(super) fn answered(&mut self, answers: &[(u64, Result<(), ShardError>)]) {
        self.is_busy = false;
        let first_error = answers.iter().find_map(|(_, answer)| answer.as_ref().err());
        self.is_in_step = first_error.is_none() && (self.is_in_step || !answers.is_empty());
        for (id, answer) in answers {
            let place = self.unanswered.iter().position(|batch| batch.id == *id);
            if let (Some(place), Ok(())) = (place, answer) {
                self.answered.extend(self.unanswered.remove(place));
            }
        }
        while self.answered.len() > PRODUCER_PLACES_MAX {
            self.answered.pop_front();
        }
        let begins_anew = match first_error {
            None => false,
            Some(
                ShardError::OutOfOrderSequence { .. }
                | ShardError::OldProducerEpoch { .. }
                | ShardError::UnknownProducer { .. }
                | ShardError::DuplicateSequence,
            ) => true,
            Some(_) => false,
        };
        if begins_anew {
            self.epoch += 1;
            self.sequence = 0;
            self.unanswered.clear();
            self.answered.clear();
        }
    }

    /// The broker is gone, and no answer will come.
    pub(super) fn is_cut_off(&mut self) {
        self.is_busy = false;
        self.is_in_step = false;
    }
}
