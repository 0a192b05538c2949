//! The numbers by which an idempotent producer counts its records.

use crate::batch::Header;

/// Sequences are counted from 0 to one below this, and then from 0 again (claim 179).
pub(super) const WRAP: u64 = 1 << 31;

/// What a batch of an idempotent producer says of its place among that producer's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sequenced {
    /// Who made it.
    pub producer_id: i64,
    /// The epoch of that id: it rises where the producer begins anew.
    pub epoch: i16,
    /// Sequence of the first record, below 2^31.
    pub first: u32,
    /// Records, each of which has the next sequence; those that compaction has taken out count.
    pub records: u32,
}

impl Sequenced {
    /// What the header of a batch says; `None` where no idempotent producer made it.
    #[must_use]
    pub fn of(header: &Header) -> Option<Self> {
        if !header.has_producer_id() || header.is_control() || header.producer_epoch < 0 {
            return None;
        }
        let before_last = u32::try_from(header.last_offset_delta).ok()?;
        Some(Self {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            first: u32::try_from(header.base_sequence).ok()?,
            records: before_last + 1,
        })
    }

    pub(super) fn records(&self) -> u64 {
        u64::from(self.records)
    }
}

/// The number, never wrapped, that a sequence stands for: of those that are written like it the one
/// nearest to `owed` (claims 180-182). That is the one owed, soon after it, or of a batch that is
/// sent again, soon before it, on whichever side of the wrap.
pub(super) fn lift(sequence: u32, owed: u64) -> u64 {
    let sequence = u64::from(sequence);
    let block = owed - owed % WRAP;
    // The later one first: of two that are equally far, it is the one whose answer loses nothing.
    let blocks = [
        block.checked_add(WRAP),
        Some(block),
        block.checked_sub(WRAP),
    ];
    let numbers = blocks.into_iter().flatten().map(|block| block + sequence);
    numbers
        .min_by_key(|number| number.abs_diff(owed))
        .unwrap_or(sequence)
}

/// A number as the wire writes it.
pub(super) fn lower(number: u64) -> i32 {
    i32::try_from(number % WRAP).expect("below 2^31")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_stands_for_the_number_nearest_to_the_one_owed() {
        let top = u32::try_from(WRAP - 1).unwrap();
        for (sequence, owed, number) in [
            (0, 0, 0),
            (7, 3, 7),
            (top, WRAP - 1, WRAP - 1),
            (0, WRAP - 1, WRAP),
            (3, WRAP - 2, WRAP + 3),
            (0, WRAP, WRAP),
            (top, WRAP, WRAP - 1),
            (top - 4, WRAP + 2, WRAP - 5),
            (5, 3 * WRAP - 5, 3 * WRAP + 5),
            (top, 3 * WRAP, 3 * WRAP - 1),
            // Before the beginning there is nothing.
            (top, 3, WRAP - 1),
        ] {
            assert_eq!(
                lift(sequence, owed),
                number,
                "{sequence} where {owed} is owed"
            );
            assert_eq!(u32::try_from(lower(number)).unwrap(), sequence);
        }
    }
}
