//! The five codecs of record batches.

use std::fmt;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952. One member; in a log there may be more.
    Gzip,
    /// Snappy blocks in xerial framing, or one raw block. One stream; in a log there may be more.
    Snappy,
    /// LZ4 frame with independent blocks; in a log they may be linked.
    Lz4,
    /// Zstandard (RFC 8878), with a window of at most 128 MiB; in a log it may be larger. Not
    /// before Produce 7 and Fetch 10 (KIP-110).
    Zstd,
}

impl Codec {
    /// The codec of the lowest three attribute bits; `None` where Kafka has defined none.
    #[must_use]
    pub const fn from_attributes(attributes: i16) -> Option<Self> {
        match attributes & 0x07 {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Its number in the attributes.
    #[must_use]
    pub const fn id(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "uncompressed",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}
