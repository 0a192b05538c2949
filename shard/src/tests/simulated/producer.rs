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
    unanswered: VecDeque<u64>,
    /// Acknowledged in this order, in this epoch: its last ones.
    answered: VecDeque<u64>,
    is_busy: bool,
}

impl Producer {
    pub(super) fn new(id: i64) -> Self {
        Self {
            id,
            epoch: 0,
            sequence: 0,
            unanswered: VecDeque::new(),
            answered: VecDeque::new(),
            is_busy: false,
        }
    }

    /// What it sends again, first: up to so many of those that were acknowledged, as far back as the
    /// broker has to know them, and all that were not. `None`: it waits for answers.
    pub(super) fn begin(&mut self, repeats: usize) -> Option<Vec<u64>> {
        if std::mem::replace(&mut self.is_busy, true) {
            return None;
        }
        let known = PRODUCER_PLACES_MAX.saturating_sub(self.unanswered.len());
        let repeats = repeats.min(known).min(self.answered.len());
        let answered = self.answered.range(self.answered.len() - repeats..);
        Some(answered.chain(&self.unanswered).copied().collect())
    }

    /// Where the next batch of so many records stands: id, epoch, sequence.
    pub(super) fn place(&mut self, records: usize) -> (i64, i16, i32) {
        let place = (self.id, self.epoch, self.sequence);
        self.sequence += i32::try_from(records).expect("batches are small");
        place
    }

    /// A new batch is on its way.
    pub(super) fn sends(&mut self, batch: u64) {
        self.unanswered.push_back(batch);
    }

    /// What became of all it has sent, in order. It begins anew where the broker does not know
    /// what comes before: those are the client's to tell its user of.
    pub(super) fn answered(&mut self, answers: &[(u64, Result<(), ShardError>)]) {
        self.is_busy = false;
        let first_error = answers.iter().find_map(|(_, answer)| answer.as_ref().err());
        for (batch, answer) in answers {
            let place = self.unanswered.iter().position(|one| one == batch);
            if let (Some(place), Ok(())) = (place, answer) {
                self.unanswered.remove(place);
                self.answered.push_back(*batch);
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
    }
}
