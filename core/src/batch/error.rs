//! Which rule a batch broke: one variant per rule, so that each protocol can answer each one.

use super::codec::Codec;
use std::fmt;

/// Which rule a batch broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchError {
    /// No bytes at all. Kafka: INVALID_RECORD.
    Empty,
    /// The bytes end before the batch does. From a client: INVALID_RECORD. In a log: a torn write.
    Truncated {
        /// Bytes that the batch needs, as far as known.
        needed: usize,
        /// Bytes that are there.
        present: usize,
    },
    /// Nothing but zero bytes where a header should be: in a log prepared space, its clean end.
    /// From a client: INVALID_RECORD.
    Zeros,
    /// Message format v0 or v1. Kafka: UNSUPPORTED_FOR_MESSAGE_FORMAT (claim 165).
    OldFormat {
        /// 0 or 1.
        magic: i8,
    },
    /// A format nobody has defined. Kafka: INVALID_RECORD.
    UnknownMagic {
        /// What stands in the magic byte.
        magic: i8,
    },
    /// The length field is negative or less than a header. Kafka: INVALID_RECORD.
    BadLength {
        /// What stands in the length field.
        length: i32,
    },
    /// Bytes after the batch: a second batch, or rubbish. Kafka: INVALID_RECORD.
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// The checksum does not match the bytes. Kafka: CORRUPT_MESSAGE.
    Checksum {
        /// As the header says.
        stated: u32,
        /// As the bytes say.
        computed: u32,
    },
    /// A client's batch whose base offset is not 0. Kafka: INVALID_RECORD.
    BaseOffset {
        /// What stands there.
        base_offset: i64,
    },
    /// The number of records is not positive, or not one more than the last offset delta. Kafka:
    /// INVALID_RECORD.
    Count {
        /// Records, as the header says.
        count: i32,
        /// Last offset delta, as the header says.
        last_offset_delta: i32,
    },
    /// No such codec. Kafka: UNSUPPORTED_COMPRESSION_TYPE.
    UnknownCodec {
        /// 5, 6 or 7.
        id: u8,
    },
    /// The compressed bytes are damaged, cut short or followed by others. The checksum matches, so
    /// sending them again cannot help. Kafka: INVALID_RECORD, which no client retries.
    Compression {
        /// The codec that failed.
        codec: Codec,
    },
    /// Compressed in a form that not every common consumer reads. Kafka: INVALID_RECORD.
    UncommonForm {
        /// The codec.
        codec: Codec,
    },
    /// More bytes than allowed once decompressed. Kafka: MESSAGE_TOO_LARGE (claim 164).
    DecompressedTooLarge {
        /// The greatest number of bytes.
        bytes_max: usize,
    },
    /// A client sent a control batch. Kafka: INVALID_RECORD.
    Control,
    /// A client set attribute bits without a meaning. Kafka: INVALID_RECORD.
    UnknownAttributes {
        /// The bits.
        bits: i16,
    },
    /// A client set the timestamp type to append time. Kafka: INVALID_TIMESTAMP.
    AppendTime,
    /// A client set a delete horizon. Kafka: INVALID_RECORD.
    DeleteHorizon,
    /// A transactional batch. Kafka: the refusal of transactions.
    Transactional,
    /// A producer id below -1. Kafka: INVALID_RECORD.
    ProducerId {
        /// What stands there.
        producer_id: i64,
    },
    /// A producer id without an epoch or a sequence. Kafka: INVALID_RECORD.
    ProducerWithoutSequence {
        /// The producer id.
        producer_id: i64,
        /// Its epoch.
        producer_epoch: i16,
        /// Its sequence.
        base_sequence: i32,
    },
    /// A stored batch whose base offset or leader epoch is negative, or whose offsets overflow.
    NoPlace {
        /// What stands in the base offset.
        base_offset: i64,
        /// What stands in the leader epoch.
        leader_epoch: i32,
    },
    /// A record breaks a rule. Kafka: INVALID_RECORD, with the index among the record errors.
    Record {
        /// Its position in the batch, from 0.
        index: u32,
        /// The rule.
        fault: RecordFault,
    },
    /// Bytes after the last record. Kafka: INVALID_RECORD.
    LeftOver {
        /// How many.
        bytes: usize,
    },
}

/// Which rule a record broke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFault {
    /// The batch's bytes end before this record begins.
    Missing,
    /// Its length is negative or reaches past the batch.
    Length,
    /// It ends inside a field, or a varint is longer than its type.
    Truncated,
    /// Bytes are left after its last field.
    LeftOver,
    /// A key, value or header value has a length below -1.
    FieldLength,
    /// The number of headers is negative.
    HeaderCount,
    /// A header has no key.
    HeaderKey,
    /// Its offset is not the next one (client), or not above the one before (log).
    OffsetDelta,
    /// Its timestamp leaves the range of 64 bits.
    Timestamp,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there is no batch"),
            Self::Truncated { needed, present } => {
                write!(f, "the batch needs {needed} bytes, {present} are there")
            }
            Self::Zeros => write!(f, "there are only zero bytes in place of a batch"),
            Self::OldFormat { magic } => write!(
                f,
                "message format v{magic} is not supported: use v2 (Kafka 0.11 or later)"
            ),
            Self::UnknownMagic { magic } => write!(f, "message format v{magic} is not known"),
            Self::BadLength { length } => write!(f, "a batch cannot have length {length}"),
            Self::Trailing { bytes } => {
                write!(
                    f,
                    "{bytes} bytes follow the batch: one batch per partition is allowed"
                )
            }
            Self::Checksum { stated, computed } => {
                write!(
                    f,
                    "the checksum is {computed:08x}, the header says {stated:08x}"
                )
            }
            Self::BaseOffset { base_offset } => {
                write!(f, "the base offset is {base_offset} and has to be 0")
            }
            Self::Count {
                count,
                last_offset_delta,
            } => {
                write!(
                    f,
                    "{count} records do not fit a last offset delta of {last_offset_delta}"
                )
            }
            Self::UnknownCodec { id } => write!(f, "compression codec {id} is not known"),
            Self::Compression { codec } => write!(f, "the {codec} data is damaged"),
            Self::UncommonForm { codec } => write!(f, "{}", uncommon_form(*codec)),
            Self::DecompressedTooLarge { bytes_max } => {
                write!(
                    f,
                    "the batch holds more than {bytes_max} bytes once decompressed"
                )
            }
            Self::Control => write!(f, "clients may not write control batches"),
            Self::UnknownAttributes { bits } => {
                write!(f, "the attribute bits {bits:#06x} have no meaning")
            }
            Self::AppendTime => write!(f, "clients may not set the timestamp type to append time"),
            Self::DeleteHorizon => write!(f, "clients may not set a delete horizon"),
            Self::Transactional => write!(f, "transactional batches are not supported"),
            Self::ProducerId { producer_id } => write!(f, "there is no producer id {producer_id}"),
            Self::ProducerWithoutSequence {
                producer_id,
                producer_epoch,
                base_sequence,
            } => write!(
                f,
                "producer id {producer_id} needs an epoch and a sequence, not {producer_epoch} \
                 and {base_sequence}"
            ),
            Self::NoPlace {
                base_offset,
                leader_epoch,
            } => write!(
                f,
                "base offset {base_offset} and leader epoch {leader_epoch} are no place in a log"
            ),
            Self::Record { index, fault } => write!(f, "record {index}: {fault}"),
            Self::LeftOver { bytes } => write!(f, "{bytes} bytes follow the last record"),
        }
    }
}

/// What is uncommon about the form, and what to set. Producers print it.
fn uncommon_form(codec: Codec) -> &'static str {
    match codec {
        Codec::Gzip => {
            "the gzip data has several members, which not every consumer reads: set the producer \
             to write one member for each batch"
        }
        Codec::Snappy => {
            "the snappy data is several streams in a row, which not every consumer reads: set the \
             producer to write one stream for each batch"
        }
        Codec::Lz4 => {
            "the lz4 frame has blocks that depend on one another, which no Java consumer reads: set \
             the producer to write block-independent frames"
        }
        Codec::Zstd => {
            "the zstd frame asks for a window beyond 128 MiB, which no Java consumer reads: set the \
             producer to a smaller one"
        }
        Codec::None => "the records have a form that not every consumer reads",
    }
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the batch ends before it",
            Self::Length => "its length is negative or reaches past the batch",
            Self::Truncated => "it ends inside a field",
            Self::LeftOver => "bytes follow its last field",
            Self::FieldLength => "a field has a length below -1",
            Self::HeaderCount => "its number of headers is negative",
            Self::HeaderKey => "a header has no key",
            Self::OffsetDelta => "its offset is out of sequence",
            Self::Timestamp => "its timestamp is out of range",
        })
    }
}

impl std::error::Error for BatchError {}
