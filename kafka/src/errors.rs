//! From what went wrong to Kafka's numbers for it, and the sentences that go with the refusals.
//!
//! Each match is exhaustive without a catch-all: a new error asks for a decision.

use crate::codec::ErrorCode;
use felix_core::{BatchError, ShardError};

/// Why a group has no coordinator (claim 194). Clients print it.
pub(crate) const NO_GROUPS: &str = "Felix has no Kafka consumer groups; assign partitions instead. \
                                    See docs/kafka-compatibility.md";

/// Why a transaction has no coordinator (claim 197). Clients print it.
pub(crate) const NO_TRANSACTIONS: &str = "Felix does not support Kafka transactions; unset \
                                          transactional.id. See docs/kafka-compatibility.md";

/// Why a connection that speaks for nobody is given no producer id.
pub(crate) const NOBODY: &str = "the connection is not authenticated: no producer id is given before \
                                 that";

/// Who is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// A consumer, in a Fetch answer.
    Fetch,
    /// Anybody else.
    Other,
}

/// A shard's refusal, as `asked` is told.
pub(crate) fn shard_error(error: &ShardError, asked: Asked) -> ErrorCode {
    match error {
        ShardError::Unknown => ErrorCode::UnknownTopicOrPartition,
        ShardError::Opening => match asked {
            // The Java consumer knows no LEADER_NOT_AVAILABLE in a Fetch answer and throws
            // IllegalStateException out of poll(). This one makes it look at Metadata, which says
            // the rest.
            Asked::Fetch => ErrorCode::NotLeaderOrFollower,
            Asked::Other => ErrorCode::LeaderNotAvailable,
        },
        ShardError::NotLeader | ShardError::ShuttingDown => ErrorCode::NotLeaderOrFollower,
        ShardError::FencedGeneration { .. } => ErrorCode::FencedLeaderEpoch,
        ShardError::UnknownGeneration { .. } => ErrorCode::UnknownLeaderEpoch,
        ShardError::OffsetOutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ShardError::BatchTooLarge { .. } => ErrorCode::MessageTooLarge,
        ShardError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        ShardError::DuplicateSequence => ErrorCode::DuplicateSequenceNumber,
        ShardError::OldProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        ShardError::UnknownProducer { .. } => ErrorCode::UnknownProducerId,
        ShardError::NoRoomInTime => ErrorCode::RequestTimedOut,
        ShardError::Storage(_) | ShardError::DiskFull { .. } => ErrorCode::KafkaStorageError,
    }
}

/// A batch's fault, as its producer is told.
pub(crate) fn batch_error(error: &BatchError) -> ErrorCode {
    match error {
        BatchError::OldFormat { .. } => ErrorCode::UnsupportedForMessageFormat,
        // Bytes that were damaged on the way: clients may send them again.
        BatchError::Checksum { .. } => ErrorCode::CorruptMessage,
        BatchError::UnknownCodec { .. } => ErrorCode::UnsupportedCompressionType,
        BatchError::DecompressedTooLarge { .. } => ErrorCode::MessageTooLarge,
        BatchError::AppendTime => ErrorCode::InvalidTimestamp,
        BatchError::Transactional => ErrorCode::TransactionalIdAuthorizationFailed,
        // Bytes that were made wrong: sending them again changes nothing.
        BatchError::Empty
        | BatchError::Truncated { .. }
        | BatchError::Zeros
        | BatchError::UnknownMagic { .. }
        | BatchError::BadLength { .. }
        | BatchError::Trailing { .. }
        | BatchError::BaseOffset { .. }
        | BatchError::Count { .. }
        | BatchError::Control
        | BatchError::UnknownAttributes { .. }
        | BatchError::DeleteHorizon
        | BatchError::ProducerId { .. }
        | BatchError::ProducerWithoutSequence { .. }
        | BatchError::NoPlace { .. }
        // The checksum matched, so the producer itself made what does not decompress.
        | BatchError::Compression { .. }
        | BatchError::UncommonForm { .. }
        | BatchError::Record { .. }
        | BatchError::LeftOver { .. } => ErrorCode::InvalidRecord,
    }
}
