//! An idempotent producer of a story: what was not answered it sends again, as clients do.

use felix_core::ShardError;
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
    is_busy: bool,
}

impl Producer {
    pub(super) fn new(id: i64) -> Self {
        Self {
            id,
            epoch: 0,
            sequence: 0,
            unanswered: VecDeque::new(),
            is_busy: false,
        }
    }

    /// What it has to send again, first; `None`: it waits for answers.
    pub(super) fn begin(&mut self) -> Option<Vec<u64>> {
        let is_busy = std::mem::replace(&mut self.is_busy, true);
        (!is_busy).then(|| self.unanswered.iter().copied().collect())
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
    pub(super) fn answered(&mut self, answers: &[Result<(), ShardError>]) {
        assert_eq!(answers.len(), self.unanswered.len());
        self.is_busy = false;
        let first_error = answers.iter().find_map(|answer| answer.as_ref().err());
        let mut answers = answers.iter();
        self.unanswered
            .retain(|_| answers.next().is_some_and(Result::is_err));
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
        }
    }

    /// The broker is gone, and no answer will come.
    pub(super) fn is_cut_off(&mut self) {
        self.is_busy = false;
    }
}
