//! Why a shard refused or failed a request. Each protocol maps these to its wire in one exhaustive
//! match.

use crate::{Generation, Offset};
use std::fmt;
use std::sync::Arc;

/// A shard's answer when it does not do what was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShardError {
    /// No such shard in the catalog.
    Unknown,
    /// The shard is assigned and not open yet; it will be. Kafka: LEADER_NOT_AVAILABLE.
    Opening,
    /// This broker does not lead the shard, or stopped leading it while the request waited.
    NotLeader,
    /// The caller believes in an older leader. Kafka: FENCED_LEADER_EPOCH (KIP-320).
    FencedGeneration {
        /// The generation in force.
        current: Generation,
    },
    /// The caller knows a newer leader than this broker. Kafka: UNKNOWN_LEADER_EPOCH (KIP-320).
    UnknownGeneration {
        /// The generation in force.
        current: Generation,
    },
    /// The offset lies below the log start or past the log end.
    OffsetOutOfRange {
        /// The lowest offset that can be read.
        log_start: Offset,
        /// The visible end.
        visible_end: Offset,
    },
    /// A batch larger than a segment may be.
    BatchTooLarge {
        /// The greatest size, bytes.
        bytes_max: u64,
    },
    /// The log failed or is damaged; the shard acknowledges nothing until it has been repaired.
    /// The text names shard, file and position. Kafka: KAFKA_STORAGE_ERROR.
    Storage(String),
    /// The disk is full, or nearly: nothing was taken, what is there is read, and appends are taken
    /// again by themselves when there is space. Kafka: KAFKA_STORAGE_ERROR.
    DiskFull {
        /// The directory whose file system has no space.
        directory: Arc<str>,
        /// Bytes free on it.
        free_bytes: u64,
        /// Bytes that are kept free on it.
        free_bytes_min: u64,
    },
    /// The batch waited for room until its request's deadline, and was not taken. Kafka:
    /// REQUEST_TIMED_OUT, upon which clients try again.
    NoRoomInTime,
    /// Records of an idempotent producer are missing before those of its batch. Kafka:
    /// OUT_OF_ORDER_SEQUENCE_NUMBER.
    OutOfOrderSequence {
        /// The sequence owed.
        owed: i32,
        /// The sequence of the first record.
        found: i32,
    },
    /// The batch is there, and it is too long ago to say where. Kafka: DUPLICATE_SEQUENCE_NUMBER,
    /// which clients take for delivered.
    DuplicateSequence,
    /// The producer has begun a higher epoch since. Kafka: INVALID_PRODUCER_EPOCH.
    OldProducerEpoch {
        /// The epoch in force.
        current: i16,
        /// That of the batch.
        found: i16,
    },
    /// Nothing is known of the producer any more, and its batch is not a first one. Kafka:
    /// UNKNOWN_PRODUCER_ID, with the log start, by which clients tell why.
    UnknownProducer {
        /// The lowest offset that can be read.
        log_start: Offset,
    },
    /// The broker is shutting down and takes nothing more. Kafka: NOT_LEADER_OR_FOLLOWER, so that
    /// the client looks for the leader again.
    ShuttingDown,
}

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(f, "no such shard"),
            Self::Opening => write!(f, "the shard is still opening"),
            Self::NotLeader => write!(f, "this broker does not lead the shard"),
            Self::FencedGeneration { current } => {
                write!(f, "the request names an older leader epoch than {current}")
            }
            Self::UnknownGeneration { current } => {
                write!(f, "the request names a newer leader epoch than {current}")
            }
            Self::OffsetOutOfRange {
                log_start,
                visible_end,
            } => {
                write!(f, "the offset is outside {log_start}..={visible_end}")
            }
            Self::BatchTooLarge { bytes_max } => {
                write!(f, "the batch is larger than {bytes_max} bytes")
            }
            Self::Storage(reason) => write!(f, "storage: {reason}"),
            Self::DiskFull {
                directory,
                free_bytes,
                free_bytes_min,
            } if free_bytes < free_bytes_min => write!(
                f,
                "the disk of {directory} is full: {free_bytes} bytes are free, and \
                 {free_bytes_min} are kept free (FELIX_DISK_FREE_BYTES_MIN); reads go on, and \
                 appends do once there is space: delete what is not needed there, shorten the \
                 retention, or give it a larger disk"
            ),
            Self::DiskFull {
                directory,
                free_bytes,
                ..
            } => write!(
                f,
                "the disk of {directory} took no more, though {free_bytes} bytes are free on it: \
                 is a quota used up, or are there no more inodes? Reads go on, and appends do once \
                 there is space: delete what is not needed there, shorten the retention, or raise the \
                 quota"
            ),
            Self::NoRoomInTime => write!(
                f,
                "the batch was not taken before the request timed out: the disk is too slow for \
                 what is written to it"
            ),
            Self::OutOfOrderSequence { owed, found } => write!(
                f,
                "a batch of sequence {found} came where {owed} is owed: records before it are missing"
            ),
            Self::DuplicateSequence => write!(
                f,
                "the batch is there already, too long ago to say at which offset"
            ),
            Self::OldProducerEpoch { current, found } => write!(
                f,
                "producer epoch {found} has ended, {current} is in force: begin with a new producer"
            ),
            Self::UnknownProducer { .. } => write!(
                f,
                "nothing is known of the producer any more: begin with a new producer id"
            ),
            Self::ShuttingDown => write!(f, "the broker is shutting down"),
        }
    }
}

impl std::error::Error for ShardError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_its_directory_what_is_free_and_what_to_do() {
        let full = |free_bytes| ShardError::DiskFull {
            directory: "/data".into(),
            free_bytes,
            free_bytes_min: 100,
        };
        let below = full(99).to_string();
        assert!(below.contains("the disk of /data is full: 99 bytes are free, and 100 are kept"));
        assert!(below.contains("a larger disk"), "{below}");
        let quota = full(100).to_string();
        assert!(
            quota.contains("took no more, though 100 bytes are free"),
            "{quota}"
        );
        assert!(quota.contains("raise the quota"), "{quota}");
    }
}
