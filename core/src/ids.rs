//! Numbers that could be swapped by mistake, each with a type of its own.

use std::fmt;

/// Position of a record in a shard's log: 0 for the first, one more for each that follows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(u64);

impl Offset {
    /// The first offset of an untouched log.
    pub const ZERO: Self = Self(0);
    /// The greatest offset the wire can carry (a signed 64-bit integer).
    pub const MAX: Self = Self(i64::MAX as u64);

    /// An offset from an unsigned number. Panics above [`Offset::MAX`].
    #[must_use]
    pub const fn new(value: u64) -> Self {
        assert!(
            value <= Self::MAX.0,
            "an offset fits a signed 64-bit integer"
        );
        Self(value)
    }

    /// An offset from the wire; `None` where the number is negative.
    #[must_use]
    pub const fn from_wire(value: i64) -> Option<Self> {
        if value < 0 {
            None
        } else {
            Some(Self(value.cast_unsigned()))
        }
    }

    /// As the wire and the log write it.
    #[must_use]
    pub const fn to_wire(self) -> i64 {
        self.0.cast_signed()
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The offset `count` records later. Panics on overflow, which no log reaches.
    #[must_use]
    pub const fn after(self, count: u64) -> Self {
        Self::new(self.0 + count)
    }

    /// How many offsets lie from `earlier` up to this one. Panics if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        assert!(earlier.0 <= self.0, "an earlier offset is not later");
        self.0 - earlier.0
    }
}

/// The number of an opening of a shard by a leader: Kafka's leader epoch. It only grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(u32);

impl Generation {
    /// The first generation of a shard whose catalog entry asks for nothing higher.
    pub const FIRST: Self = Self(1);
    /// The greatest the wire can carry (a signed 32-bit integer). None follows it.
    pub const MAX: Self = Self(i32::MAX as u32);

    /// A generation from a plain number. Panics above 2^31 - 1, which the wire cannot carry.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        assert!(
            value <= i32::MAX as u32,
            "a generation fits a signed 32-bit integer"
        );
        Self(value)
    }

    /// A generation from the wire; `None` where the number is negative (not stated).
    #[must_use]
    pub const fn from_wire(value: i32) -> Option<Self> {
        if value < 0 {
            None
        } else {
            Some(Self(value.cast_unsigned()))
        }
    }

    /// As the wire and the log write it.
    #[must_use]
    pub const fn to_wire(self) -> i32 {
        self.0.cast_signed()
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The generation that follows; `None` after [`Generation::MAX`], which a file may state.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        if self.0 < Self::MAX.0 {
            Some(Self(self.0 + 1))
        } else {
            None
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(pub usize);

impl ByteCount {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

/// Identity of a stream for its whole life: 128 random bits, shown to Kafka clients as the topic
/// id (a UUID, KIP-516). A stream made anew under an old name has another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u128);

/// One partition of a stream: one log, one leader, one owning CPU core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId {
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Its number within the stream, from 0: Kafka's partition.
    pub index: u32,
}

/// A CPU core of this broker, counted from 0 in the order of `FELIX_CORES`: not the kernel's
/// number of the processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u16);

impl CpuId {
    /// As an index into tables that hold one entry per core.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A broker, as the operator numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerId(pub u32);

macro_rules! plain_display {
    ($($name:ident => $format:literal),* $(,)?) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "(", $format, ")"), self.0)
            }
        }
    )*};
}

plain_display!(
    Offset => "{}", Generation => "{}", ByteCount => "{}", CpuId => "{}", BrokerId => "{}",
    StreamId => "{:032x}",
);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.index)
    }
}

impl fmt::Debug for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_wire_numbers_are_not_offsets_or_generations() {
        assert_eq!(Offset::from_wire(-1), None);
        assert_eq!(Generation::from_wire(-1), None);
        assert_eq!(Offset::from_wire(i64::MAX), Some(Offset::MAX));
        assert_eq!(Offset::new(7).to_wire(), 7);
    }

    #[test]
    #[should_panic(expected = "signed 64-bit")]
    fn an_offset_never_leaves_the_range_of_the_wire() {
        std::hint::black_box(Offset::MAX.after(1));
    }
}
