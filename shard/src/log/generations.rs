//! Which generation began at which offset.

use super::error::{Fault, LogError};
use super::table;
use crate::disk::{Calls, Dir};
use bytes::{Buf, BufMut};
use felix_core::{Generation, Offset};
use std::path::Path;

/// The file's name.
pub(super) const NAME: &str = "generations";
pub(super) const MAGIC: [u8; 4] = *b"FLXG";
pub(super) const ENTRY_BYTES: usize = 12;

/// Which generation began at which offset: both rise from entry to entry, so that the end of one
/// is the beginning of the next. Kafka's leader epoch cache (KIP-101).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Generations(Vec<(Generation, Offset)>);

impl Generations {
    /// The newest.
    pub(super) fn last(&self) -> Option<Generation> {
        self.0.last().map(|(generation, _)| *generation)
    }

    /// All of them, oldest first.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Generation, Offset)> {
        self.0.iter().copied()
    }

    /// The one that writes, or wrote, at `offset`.
    pub(super) fn at(&self, offset: Offset) -> Option<Generation> {
        let after = self.0.partition_point(|(_, begun)| *begun <= offset);
        after
            .checked_sub(1)
            .and_then(|at| self.0.get(at))
            .map(|(generation, _)| *generation)
    }

    /// Begins a generation at the end of the log. Those that hold no record are forgotten, so a
    /// shard that is only ever opened does not grow its table.
    pub(super) fn begin(&mut self, generation: Generation, first: Offset) {
        assert!(self.last() < Some(generation), "generations only grow");
        let kept = self.0.partition_point(|(_, begun)| *begun < first);
        self.0.truncate(kept);
        self.0.push((generation, first));
    }

    /// Forgets what lies below the start of the log: the generation that wrote there begins there.
    pub(super) fn begin_at(&mut self, start: Offset) {
        let after = self.0.partition_point(|(_, begun)| *begun <= start);
        let Some(first) = after.checked_sub(1) else {
            return;
        };
        self.0.drain(..first);
        if let Some((_, begun)) = self.0.first_mut() {
            *begun = start;
        }
    }

    /// Notes the generation of a batch found in a log whose table is gone.
    pub(super) fn observe(&mut self, generation: Generation, first: Offset) {
        if self.last() < Some(generation) {
            self.begin(generation, first);
        }
    }

    /// The greatest generation up to the one asked for, and where it ends; `log_end` for the
    /// newest. One below all that are known ends where the oldest begins. `None`: the generation
    /// has not begun.
    pub(super) fn end_of(
        &self,
        asked: Generation,
        log_end: Offset,
    ) -> Option<(Generation, Offset)> {
        if self.last() < Some(asked) {
            return None;
        }
        let after = self
            .0
            .partition_point(|(generation, _)| *generation <= asked);
        let end = self.0.get(after).map_or(log_end, |(_, begun)| *begun);
        let found = after.checked_sub(1).and_then(|at| self.0.get(at));
        Some((found.map_or(asked, |(generation, _)| *generation), end))
    }

    /// The table in the directory; `None` where there is none.
    pub(super) fn load(calls: &Calls<'_>) -> Result<Option<Self>, LogError> {
        let Some(payload) = table::load(calls, NAME, MAGIC)? else {
            return Ok(None);
        };
        match Self::decode(&payload) {
            Some(Self(table))
                if table
                    .last()
                    .is_some_and(|(last, _)| *last == Generation::MAX) =>
            {
                Err(Self::exhausted(calls.path(), table.len() - 1))
            }
            Some(generations) => Ok(Some(generations)),
            None => Err(LogError::Damaged {
                dir: calls.path().to_owned(),
                file: NAME.to_owned(),
                position: 8,
                fault: Fault::Layout,
            }),
        }
    }

    /// No generation can follow: refused, for an opening takes the next.
    pub(super) fn exhausted(dir: &Path, entry: usize) -> LogError {
        LogError::Damaged {
            dir: dir.to_owned(),
            file: NAME.to_owned(),
            position: (8 + entry * ENTRY_BYTES) as u64,
            fault: Fault::LastGeneration,
        }
    }

    pub(super) fn decode(mut payload: &[u8]) -> Option<Self> {
        if !payload.len().is_multiple_of(ENTRY_BYTES) {
            return None;
        }
        let mut table = Vec::with_capacity(payload.len() / ENTRY_BYTES);
        while payload.has_remaining() {
            let generation = Generation::from_wire(payload.get_i32())?;
            table.push((generation, Offset::from_wire(payload.get_i64())?));
        }
        let rises = table.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1);
        rises.then_some(Self(table))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.0.len() * ENTRY_BYTES);
        for (generation, first) in &self.0 {
            payload.put_i32(generation.to_wire());
            payload.put_i64(first.to_wire());
        }
        table::frame(MAGIC, &payload)
    }

    /// Puts it in the place of the one in `dir`.
    pub(super) async fn save(&self, dir: &Dir) -> Result<(), LogError> {
        table::replace(dir, NAME, self.encode()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(u32, u64)]) -> Generations {
        let mut table = Generations::default();
        for (generation, first) in entries {
            table.begin(Generation::new(*generation), Offset::new(*first));
        }
        table
    }

    #[test]
    fn a_generation_ends_where_the_next_that_holds_records_begins() {
        let table = table(&[(2, 0), (4, 10), (5, 10), (9, 30)]);
        let end_of = |generation| {
            table
                .end_of(Generation::new(generation), Offset::new(42))
                .map(|(found, end)| (found.get(), end.get()))
        };
        assert_eq!(end_of(1), Some((1, 0)));
        assert_eq!(end_of(2), Some((2, 10)));
        assert_eq!(end_of(4), Some((2, 10)), "4 holds no record");
        assert_eq!(end_of(5), Some((5, 30)));
        assert_eq!(end_of(8), Some((5, 30)));
        assert_eq!(end_of(9), Some((9, 42)));
        assert_eq!(end_of(10), None);
    }

    #[test]
    fn what_lies_below_the_start_is_forgotten_and_every_end_above_it_stays() {
        let mut table = table(&[(2, 0), (4, 10), (5, 20), (9, 30)]);
        table.begin_at(Offset::new(25));
        let entries: Vec<_> = table.entries().map(|(g, at)| (g.get(), at.get())).collect();
        assert_eq!(entries, [(5, 25), (9, 30)]);
        let end_of = |generation| {
            let (found, end) = table.end_of(Generation::new(generation), Offset::new(42))?;
            Some((found.get(), end.get()))
        };
        assert_eq!(end_of(4), Some((4, 25)), "none of it is left");
        assert_eq!(end_of(5), Some((5, 30)));
        assert_eq!(end_of(9), Some((9, 42)));
        table.begin_at(Offset::new(30));
        assert_eq!(table.entries().count(), 1);
        table.begin_at(Offset::new(29));
        assert_eq!(
            table.entries().next().unwrap().1,
            Offset::new(30),
            "never back"
        );
    }

    #[test]
    fn its_bytes_are_those_of_the_format_page() {
        let table = table(&[(1, 0), (3, 258)]);
        let bytes = table.encode();
        let mut expected = b"FLXG\0\0\0\x01".to_vec();
        expected.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(&bytes[..32], &expected[..]);
        assert_eq!(&bytes[32..], crc32c::crc32c(&expected).to_be_bytes());
        assert_eq!(Generations::decode(&bytes[8..32]), Some(table));
    }

    #[test]
    fn a_table_that_does_not_rise_is_refused() {
        let entry = |generation: u8, first: u8| [0, 0, 0, generation, 0, 0, 0, 0, 0, 0, 0, first];
        assert!(Generations::decode(&[entry(1, 0), entry(2, 5)].concat()).is_some());
        assert!(Generations::decode(&[entry(2, 0), entry(2, 5)].concat()).is_none());
        assert!(Generations::decode(&[entry(1, 5), entry(2, 5)].concat()).is_none());
        assert!(Generations::decode(&entry(1, 0)[..11]).is_none());
    }
}
