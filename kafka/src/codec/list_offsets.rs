//! ListOffsets (2): offsets by timestamp, and the ends of a log.

use super::{ApiKey, Cursor, DecodeError, ErrorCode, Fault, Writer, shared};

const API: ApiKey = ApiKey::ListOffsets;

/// In place of a timestamp: the visible end.
pub const LATEST: i64 = -1;
/// In place of a timestamp: the log start.
pub const EARLIEST: i64 = -2;
/// In place of a timestamp: the record with the greatest one (KIP-734, version 7).
pub const MAX_TIMESTAMP: i64 = -3;
/// In place of a timestamp: the first offset on the broker's own disk (KIP-405, version 8).
pub const EARLIEST_LOCAL: i64 = -4;

/// A ListOffsets request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// Node id of an asking follower; -1 from a client.
    pub replica_id: i32,
    /// 0: read uncommitted, 1: read committed. 0 before version 2.
    pub isolation_level: i8,
    /// What is asked.
    pub topics: Vec<RequestTopic<'a>>,
}

/// A topic asked about.
pub type RequestTopic<'a> = shared::Topic<'a, RequestPartition>;

/// A partition asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestPartition {
    /// The number of the partition.
    pub index: i32,
    /// The epoch the client believes in, -1 for none. -1 before version 4.
    pub current_leader_epoch: i32,
    /// A timestamp in milliseconds, or one of the constants above.
    pub timestamp: i64,
}

impl<'a> Request<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// The bytes are no such request.
    pub fn decode(version: i16, cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        if !API.serves(version) {
            return Err(cursor.error(Fault::Version(version)));
        }
        cursor.begin_body(API.is_flexible(version));
        let replica_id = cursor.i32()?;
        let isolation_level = if version >= 2 { cursor.i8()? } else { 0 };
        let topics = cursor.array(|cursor| {
            RequestTopic::decode(cursor, |cursor| RequestPartition::decode(version, cursor))
        })?;
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self {
            replica_id,
            isolation_level,
            topics,
        })
    }
}

impl RequestPartition {
    fn decode(version: i16, cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let index = cursor.i32()?;
        let current_leader_epoch = if version >= 4 { cursor.i32()? } else { -1 };
        let timestamp = cursor.i64()?;
        cursor.tagged_fields()?;
        Ok(Self {
            index,
            current_leader_epoch,
            timestamp,
        })
    }
}

/// A ListOffsets answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// How long the client is asked to hold back. Version 2 and later.
    pub throttle_time_ms: i32,
    /// The answers, in the order asked.
    pub topics: Vec<Topic<'a>>,
}

/// A topic's answers.
pub type Topic<'a> = shared::Topic<'a, Partition>;

/// A partition's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The number of the partition.
    pub index: i32,
    /// The error, if any.
    pub error_code: ErrorCode,
    /// The timestamp of the record found, -1 where none was searched for or found (T39).
    pub timestamp: i64,
    /// The offset, -1 where nothing was found.
    pub offset: i64,
    /// The epoch of the record at the offset, -1 if unknown. Version 4 and later.
    pub leader_epoch: i32,
}

impl Response<'_> {
    /// Writes the body.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        if version >= 2 {
            writer.i32(self.throttle_time_ms);
        }
        writer.array(&self.topics, |writer, topic| {
            topic.encode(writer, |writer, partition| {
                partition.encode(version, writer)
            });
        });
        writer.tagged_fields();
    }
}

impl Partition {
    /// An answer that is only an error.
    #[must_use]
    pub fn error(index: i32, error_code: ErrorCode) -> Self {
        Self {
            index,
            error_code,
            timestamp: -1,
            offset: -1,
            leader_epoch: -1,
        }
    }

    fn encode(&self, version: i16, writer: &mut Writer) {
        writer.i32(self.index);
        writer.error_code(self.error_code);
        writer.i64(self.timestamp);
        writer.i64(self.offset);
        if version >= 4 {
            writer.i32(self.leader_epoch);
        }
        writer.tagged_fields();
    }
}
