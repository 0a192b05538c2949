//! Changes inputs the way fuzzers do, from a seed.

/// SplitMix64, and what can be done to bytes with it. One seed makes one run.
#[derive(Clone, Debug)]
pub struct Mutator(u64);

/// Numbers at which lengths, counts and offsets turn.
const EDGES: [i64; 15] = [
    0,
    1,
    -1,
    2,
    -2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    -0x8000_0000,
    i64::MAX,
    i64::MIN,
];

/// An input does not grow past this by mutation.
const BYTES_MAX: usize = 256 << 10;

impl Mutator {
    /// A run of its own for each seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, or 0 where there is none.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let end = end as u64;
        usize::try_from(mixed.checked_rem(end).unwrap_or_default())
            .expect("it is below a number that fits")
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("it is below 256")
    }

    /// A place and a length within `bytes`, short ones more often.
    fn piece(&mut self, bytes: usize) -> (usize, usize) {
        let from = self.below(bytes);
        let longest = if self.below(3) == 0 { bytes } else { 16 };
        (from, self.below(longest.min(bytes - from) + 1))
    }

    /// A child of `parent`, changed in one to four ways; `other` is another input of the same kind.
    #[must_use]
    pub fn child(&mut self, parent: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = parent.to_vec();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, other);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        if bytes.is_empty() {
            let count = self.below(64);
            bytes.extend((0..count).map(|_| self.byte()));
            return;
        }
        let at = self.below(bytes.len());
        match self.below(8) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = self.byte(),
            2 | 3 => self.write_number(bytes, at),
            4 => bytes.truncate(at),
            5 => {
                let (from, count) = self.piece(bytes.len());
                bytes.drain(from..from + count);
            }
            6 => {
                let (from, count) = self.piece(bytes.len());
                let piece = bytes[from..from + count].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let (from, count) = self.piece(other.len());
                let end = bytes.len().min(at + count);
                bytes.splice(at..end, other[from..from + count].iter().copied());
            }
        }
    }

    /// Writes an edge, or a number near the one that stands there, over 1, 2, 4 or 8 bytes.
    fn write_number(&mut self, bytes: &mut [u8], at: usize) {
        let width = [1, 2, 4, 8][self.below(4)].min(bytes.len() - at);
        let field = &mut bytes[at..at + width];
        let mut wide = [0; 8];
        wide[8 - width..].copy_from_slice(field);
        let near = i64::from_be_bytes(wide).wrapping_add([-1, 1, 8, -8][self.below(4)]);
        let number = if self.below(2) == 0 {
            near
        } else {
            EDGES[self.below(EDGES.len())]
        };
        field.copy_from_slice(&number.to_be_bytes()[8 - width..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_makes_one_run_and_another_seed_another() {
        let run = |seed| {
            let mut mutator = Mutator::new(seed);
            let mut bytes = b"a parent of some length".to_vec();
            for _ in 0..100 {
                bytes = mutator.child(&bytes, b"another one");
            }
            bytes
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn any_parents_have_children() {
        let mut mutator = Mutator::new(3);
        for parent in [&b""[..], b"a", b"ab", &[0; 300]] {
            for other in [&b""[..], b"b"] {
                for _ in 0..1000 {
                    drop(mutator.child(parent, other));
                }
            }
        }
    }
}
