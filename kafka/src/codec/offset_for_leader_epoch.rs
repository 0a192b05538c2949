//! OffsetForLeaderEpoch (23): where the records of a leader epoch end (KIP-101, KIP-320).

use super::{ApiKey, Cursor, DecodeError, ErrorCode, Fault, Writer, shared};

const API: ApiKey = ApiKey::OffsetForLeaderEpoch;

/// In the place of an epoch, or of where it ends: there is none.
pub const UNKNOWN: i32 = -1;

/// An OffsetForLeaderEpoch request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// Node id of an asking follower; -1 from a client, and before version 3, where a client is
    /// meant.
    pub replica_id: i32,
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
    /// The epoch the client believes in, -1 for none.
    pub current_leader_epoch: i32,
    /// The epoch whose end is wanted.
    pub leader_epoch: i32,
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
        let replica_id = if version >= 3 { cursor.i32()? } else { -1 };
        let topics =
            cursor.array(|cursor| RequestTopic::decode(cursor, RequestPartition::decode))?;
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self { replica_id, topics })
    }
}

impl RequestPartition {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let index = cursor.i32()?;
        let current_leader_epoch = cursor.i32()?;
        let leader_epoch = cursor.i32()?;
        cursor.tagged_fields()?;
        Ok(Self {
            index,
            current_leader_epoch,
            leader_epoch,
        })
    }
}

/// An OffsetForLeaderEpoch answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// How long the client is asked to hold back.
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
    /// The greatest epoch up to the one asked for, [`UNKNOWN`] for none.
    pub leader_epoch: i32,
    /// The offset after its last record, -1 for none.
    pub end_offset: i64,
}

impl Response<'_> {
    /// Writes the body.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        writer.i32(self.throttle_time_ms);
        writer.array(&self.topics, |writer, topic| {
            topic.encode(writer, |writer, partition| partition.encode(writer));
        });
        writer.tagged_fields();
    }
}

impl Partition {
    /// An answer that is only an error, or that there is no such epoch.
    #[must_use]
    pub fn error(index: i32, error_code: ErrorCode) -> Self {
        Self {
            index,
            error_code,
            leader_epoch: UNKNOWN,
            end_offset: UNKNOWN.into(),
        }
    }

    fn encode(&self, writer: &mut Writer) {
        writer.error_code(self.error_code);
        writer.i32(self.index);
        writer.i32(self.leader_epoch);
        writer.i64(self.end_offset);
        writer.tagged_fields();
    }
}
