//! What is known of one producer.

use super::sequence::{Sequenced, lift, lower};
use super::{Landed, Refusal, Verdict};
use crate::limits::PRODUCER_PLACES_MAX;
use crate::{Offset, Timestamp};
use std::collections::VecDeque;

/// Where a batch landed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Sequence of its first record, lifted. Its last one is below that of the next place.
    pub(super) first: u64,
    pub(super) base_offset: Offset,
    /// Where the batch has one.
    pub(super) append_time: Option<Timestamp>,
}

/// What is known of one producer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Producer {
    pub(super) epoch: i16,
    /// The sequence of its next record, lifted.
    pub(super) owed: u64,
    /// Where its last batches landed, the oldest first. Never empty. Each begins with the sequence
    /// after the one before it, and the last one ends before the one owed.
    pub(super) places: VecDeque<Place>,
}

impl Producer {
    /// One of whom this is the first batch that counts.
    pub(super) fn beginning(
        batch: &Sequenced,
        base_offset: Offset,
        time: Option<Timestamp>,
    ) -> Self {
        let first = u64::from(batch.first);
        let place = Place {
            first,
            base_offset,
            append_time: time,
        };
        Self {
            epoch: batch.epoch,
            owed: first + batch.records(),
            places: VecDeque::from([place]),
        }
    }

    /// What a batch of this producer is.
    pub(super) fn judge(&self, batch: &Sequenced) -> Result<Verdict, Refusal> {
        let out_of_order = |owed| Refusal::OutOfOrder {
            owed: lower(owed),
            found: lower(u64::from(batch.first)),
        };
        if batch.epoch < self.epoch {
            return Err(Refusal::LowerEpoch {
                current: self.epoch,
                found: batch.epoch,
            });
        }
        if batch.epoch > self.epoch {
            // KIP-360: clients raise the epoch by themselves, and begin at 0 with it.
            let begins = batch.first == 0;
            return if begins {
                Ok(Verdict::New)
            } else {
                Err(out_of_order(0))
            };
        }
        let first = lift(batch.first, self.owed);
        if first == self.owed {
            return Ok(Verdict::New);
        }
        if first > self.owed {
            return Err(out_of_order(self.owed));
        }
        let present = (self.owed - first).min(batch.records());
        let is_whole = present == batch.records();
        let Some((base_offset, append_time)) = self.place_of(first) else {
            // Where a part of it is not there, it must not count as delivered.
            return Err(if is_whole {
                Refusal::TooOld
            } else {
                out_of_order(self.owed)
            });
        };
        let (last_offset, _) = self
            .place_of(first + present - 1)
            .expect("places follow each other up to the sequence owed");
        let landed = Landed {
            base_offset,
            end: last_offset.after(1),
            append_time,
        };
        Ok(if is_whole {
            Verdict::Duplicate(landed)
        } else {
            let present = u32::try_from(present).expect("less than the batch has");
            Verdict::Partial { present, landed }
        })
    }

    /// Where the record of a sequence landed, and its batch's append time.
    fn place_of(&self, number: u64) -> Option<(Offset, Option<Timestamp>)> {
        let begun = self.places.partition_point(|place| place.first <= number);
        let place = self.places.get(begun.checked_sub(1)?)?;
        let offset = place.base_offset.after(number - place.first);
        Some((offset, place.append_time))
    }

    /// Its next batch is in the log, whatever that says: what is there is there.
    pub(super) fn note(&mut self, batch: &Sequenced, base_offset: Offset, time: Option<Timestamp>) {
        let first = lift(batch.first, self.owed);
        if batch.epoch != self.epoch || first != self.owed {
            *self = Self::beginning(batch, base_offset, time);
            return;
        }
        if self.places.len() == PRODUCER_PLACES_MAX {
            self.places.pop_front();
        }
        self.places.push_back(Place {
            first,
            base_offset,
            append_time: time,
        });
        self.owed = first + batch.records();
    }

    /// The offset of its last record.
    pub(super) fn last_offset(&self) -> Offset {
        let (offset, _) = self
            .place_of(self.owed - 1)
            .expect("a producer has a last batch");
        offset
    }

    /// Memory that it takes, about: with its share of the tables that lead to it.
    pub(super) fn bytes(&self) -> usize {
        const TABLES_BYTES: usize = 64;
        size_of::<Self>() + TABLES_BYTES + self.places.capacity() * size_of::<Place>()
    }
}
