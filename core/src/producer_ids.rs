//! The ids that idempotent producers are given.

use std::cell::Cell;

/// Producer ids, each of which is given once. Lives on one CPU core, which draws where it begins
/// anew at each start, from 63 random bits, and counts from there.
///
/// So nothing has to be kept, agreed or asked for: two cores, of whatever brokers, starts and data
/// directories, would have to draw numbers that are no further apart than the ids they give
/// (`docs/decisions/0014-producer-ids.md` has the odds).
#[derive(Debug)]
pub struct ProducerIds(Cell<u64>);

/// The bits of an id: the wire's numbers are signed, and negative ones mean that there is none.
const BITS: u64 = i64::MAX.cast_unsigned();

impl ProducerIds {
    /// Ids from a number on that was drawn at random. Its highest bit does not count.
    #[must_use]
    pub const fn from_drawn(drawn: u64) -> Self {
        Self(Cell::new(drawn & BITS))
    }

    /// One that was not given before.
    #[must_use]
    pub fn next_id(&self) -> i64 {
        let id = self.0.get();
        self.0.set((id + 1) & BITS);
        id.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_never_negative_and_follow_one_another_past_the_greatest() {
        let ids = ProducerIds::from_drawn(u64::MAX - 1);
        let given: Vec<i64> = (0..4).map(|_| ids.next_id()).collect();
        assert_eq!(given, [i64::MAX - 1, i64::MAX, 0, 1]);
    }
}
