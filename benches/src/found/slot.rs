//! What ended in one slot of time.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use std::borrow::Cow;

/// Three digits: each value within 0.1 %.
const DIGITS: u8 = 3;
/// The longest latency told apart; longer ones count as this long.
pub(super) const NANOS_MAX: u64 = 600_000_000_000;

/// Latencies in nanoseconds, at least one.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    /// Counters for all that may come, 124 KiB of them.
    Open(Histogram<u32>),
    /// The same as the bytes of an HdrHistogram, in which what never came takes no room.
    Packed(Box<[u8]>),
}

impl Default for Slot {
    fn default() -> Self {
        let open = Histogram::new_with_bounds(1, NANOS_MAX, DIGITS);
        Self::Open(open.expect("constant bounds"))
    }
}

impl Slot {
    /// An empty one whose memory the kernel has given already.
    pub(super) fn touched() -> Self {
        let mut touched = Self::default();
        touched.open().reset();
        touched
    }

    /// Adds one of at most [`NANOS_MAX`].
    pub(super) fn record(&mut self, nanos: u64) {
        self.open().record(nanos).expect("the bound is within it");
    }

    /// Adds those of another.
    pub(super) fn add(&mut self, other: &Self) {
        let other = other.histogram();
        self.open().add(&*other).expect("both have the same bounds");
    }

    fn open(&mut self) -> &mut Histogram<u32> {
        if let Self::Packed(bytes) = self {
            *self = Self::Open(unpacked(bytes));
        }
        match self {
            Self::Open(open) => open,
            Self::Packed(_) => unreachable!("it was opened above"),
        }
    }

    /// Takes little room from now on.
    pub(super) fn pack(&mut self, serializer: &mut V2Serializer) {
        if let Self::Open(open) = self {
            let mut bytes = Vec::new();
            serializer
                .serialize(open, &mut bytes)
                .expect("counters of 32 bits have an encoding, and memory takes it");
            *self = Self::Packed(bytes.into());
        }
    }

    /// What it holds.
    pub(super) fn histogram(&self) -> Cow<'_, Histogram<u32>> {
        match self {
            Self::Open(open) => Cow::Borrowed(open),
            Self::Packed(bytes) => Cow::Owned(unpacked(bytes)),
        }
    }

    /// Adds what it holds to the sum of many.
    pub(super) fn add_to(&self, sum: &mut Histogram<u64>) {
        match self {
            Self::Open(open) => {
                for value in open.iter_recorded() {
                    let (nanos, count) = (value.value_iterated_to(), value.count_at_value());
                    sum.record_n(nanos, count.into()).expect("the same bounds");
                }
            }
            Self::Packed(bytes) => {
                let slot: Histogram<u64> = unpacked(bytes);
                sum.add(slot).expect("both have the same bounds");
            }
        }
    }

    /// What it takes of the heap.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Open(open) => open.distinct_values() * size_of::<u32>(),
            Self::Packed(bytes) => bytes.len(),
        }
    }
}

fn unpacked<T: hdrhistogram::Counter>(mut bytes: &[u8]) -> Histogram<T> {
    Deserializer::new()
        .deserialize(&mut bytes)
        .expect("they were written by `pack`")
}

/// For the sum of many slots.
pub(super) fn wide() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NANOS_MAX, DIGITS).expect("constant bounds")
}
