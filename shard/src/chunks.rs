//! A queue of many small things. Growing it moves nothing, and what has left it leaves its memory:
//! a `VecDeque` of a million would be moved in one go, and keep the memory of its longest day.

use std::collections::VecDeque;

/// Things in one chunk: few enough that chunks that are not full waste little.
const CHUNK_LEN: usize = 32;

/// See the module.
#[derive(Debug)]
pub(crate) struct Chunks<T>(VecDeque<VecDeque<T>>);

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Chunks<T> {
    /// Puts one at the end.
    pub(crate) fn push_back(&mut self, thing: T) {
        match self.0.back_mut() {
            Some(chunk) if chunk.len() < CHUNK_LEN => {
                chunk.push_back(thing);
            }
            Some(_) | None => self.0.push_back(VecDeque::from([thing])),
        }
    }

    /// The first one.
    pub(crate) fn front(&self) -> Option<&T> {
        self.0.front()?.front()
    }

    /// Takes the first one out.
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let chunk = self.0.front_mut()?;
        let thing = chunk.pop_front();
        if chunk.is_empty() {
            self.0.pop_front();
        }
        thing
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// Those from the first on for which `before` does not hold. Where it holds, it holds for all
    /// earlier ones.
    pub(crate) fn after(&self, before: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
        let whole = |chunk: &VecDeque<T>| chunk.back().is_some_and(&before);
        let at = self.0.partition_point(whole);
        let first = self
            .0
            .get(at)
            .map_or(0, |chunk| chunk.partition_point(&before));
        self.0.range(at..).flatten().skip(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_in_chunks_is_as_one_in_one_piece() {
        let mut chunks = Chunks::default();
        let mut plain = VecDeque::new();
        for number in 0..10 * CHUNK_LEN {
            chunks.push_back(number);
            plain.push_back(number);
            if number % 3 == 0 {
                assert_eq!(chunks.pop_front(), plain.pop_front());
            }
            assert_eq!(chunks.front(), plain.front());
            for bound in [0, number / 2, number, number + 1] {
                let after = plain.iter().filter(|thing| **thing >= bound);
                assert!(chunks.after(|thing| *thing < bound).eq(after));
            }
        }
        assert!(chunks.iter().eq(&plain));
        while let Some(thing) = plain.pop_front() {
            assert!(!chunks.is_empty());
            assert_eq!(chunks.pop_front(), Some(thing));
        }
        assert!(chunks.is_empty());
        assert_eq!(chunks.pop_front(), None);
    }

    #[test]
    fn no_chunk_is_larger_than_it_may_be_and_none_is_kept_empty() {
        let mut chunks = Chunks::default();
        for number in 0..1000 {
            chunks.push_back(number);
        }
        for _ in 0..990 {
            chunks.pop_front();
        }
        assert!(chunks.0.len() <= 2, "{}", chunks.0.len());
        assert!(chunks.0.iter().all(|chunk| chunk.capacity() <= CHUNK_LEN));
    }
}
