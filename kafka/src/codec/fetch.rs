//! Fetch (1): reading record batches.

use super::{ApiKey, CurrentLeader, Cursor, DecodeError, ErrorCode, Fault, Writer, shared};
use bytes::Bytes;

const API: ApiKey = ApiKey::Fetch;

/// There are no fetch sessions, so clients send each request in full (KIP-227).
const SESSION_ID: i32 = 0;

/// No replica is preferred over the leader (KIP-392).
const PREFERRED_READ_REPLICA: i32 = -1;

/// A Fetch request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// Node id of an asking follower; -1 from a client.
    pub replica_id: i32,
    /// How long to wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Answer as soon as there are this many bytes.
    pub min_bytes: i32,
    /// Bytes of records in all.
    pub max_bytes: i32,
    /// 0: read uncommitted, 1: read committed.
    pub isolation_level: i8,
    /// The session meant, 0 for none. 0 before version 7.
    pub session_id: i32,
    /// The request's number in its session, 0 to begin one, -1 for no session. -1 before
    /// version 7.
    pub session_epoch: i32,
    /// What is asked.
    pub topics: Vec<RequestTopic<'a>>,
    /// What a session is to ask no more. Empty before version 7.
    pub forgotten_topics: Vec<ForgottenTopic<'a>>,
    /// The client's rack. Empty before version 11.
    pub rack_id: &'a str,
}

/// A topic asked about.
pub type RequestTopic<'a> = shared::Topic<'a, RequestPartition>;

/// A partition asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestPartition {
    /// The number of the partition.
    pub index: i32,
    /// The epoch the client believes in, -1 for none. -1 before version 9.
    pub current_leader_epoch: i32,
    /// First offset wanted.
    pub fetch_offset: i64,
    /// The epoch of the last record the client has, -1 for none. -1 before version 12.
    pub last_fetched_epoch: i32,
    /// A follower's log start; -1 from a client and before version 5.
    pub log_start_offset: i64,
    /// Bytes of records of this partition.
    pub max_bytes: i32,
}

/// Partitions that a session is to ask no more.
pub type ForgottenTopic<'a> = shared::Topic<'a, i32>;

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
        let max_wait_ms = cursor.i32()?;
        let min_bytes = cursor.i32()?;
        let max_bytes = cursor.i32()?;
        let isolation_level = cursor.i8()?;
        let (session_id, session_epoch) = if version >= 7 {
            (cursor.i32()?, cursor.i32()?)
        } else {
            (0, -1)
        };
        let topics = cursor.array(|cursor| {
            RequestTopic::decode(cursor, |cursor| RequestPartition::decode(version, cursor))
        })?;
        let forgotten_topics = if version >= 7 {
            cursor.array(|cursor| ForgottenTopic::decode(cursor, Cursor::i32))?
        } else {
            Vec::new()
        };
        let rack_id = if version >= 11 { cursor.string()? } else { "" };
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self {
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten_topics,
            rack_id,
        })
    }
}

impl RequestPartition {
    fn decode(version: i16, cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let index = cursor.i32()?;
        let current_leader_epoch = if version >= 9 { cursor.i32()? } else { -1 };
        let fetch_offset = cursor.i64()?;
        let last_fetched_epoch = if version >= 12 { cursor.i32()? } else { -1 };
        let log_start_offset = if version >= 5 { cursor.i64()? } else { -1 };
        let max_bytes = cursor.i32()?;
        cursor.tagged_fields()?;
        Ok(Self {
            index,
            current_leader_epoch,
            fetch_offset,
            last_fetched_epoch,
            log_start_offset,
            max_bytes,
        })
    }
}

/// A Fetch answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// How long the client is asked to hold back.
    pub throttle_time_ms: i32,
    /// An error of the whole request. Version 7 and later.
    pub error_code: ErrorCode,
    /// The answers, in the order asked.
    pub topics: Vec<Topic<'a>>,
}

/// A topic's answers.
pub type Topic<'a> = shared::Topic<'a, Partition>;

/// A partition's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The number of the partition.
    pub index: i32,
    /// The error, if any.
    pub error_code: ErrorCode,
    /// The visible end, -1 if unknown.
    pub high_watermark: i64,
    /// The end for readers of committed records, -1 if unknown.
    pub last_stable_offset: i64,
    /// The log start, -1 if unknown. Version 5 and later.
    pub log_start_offset: i64,
    /// Where the leader is, with an error that says it is elsewhere. Version 12.
    pub current_leader: Option<CurrentLeader>,
    /// Whole batches, in pieces to be sent one after the other.
    pub records: Vec<Bytes>,
}

impl Response<'_> {
    /// Writes the body. The records are passed on, not copied.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        writer.i32(self.throttle_time_ms);
        if version >= 7 {
            writer.error_code(self.error_code);
            writer.i32(SESSION_ID);
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
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            current_leader: None,
            records: Vec::new(),
        }
    }

    fn encode(&self, version: i16, writer: &mut Writer) {
        writer.i32(self.index);
        writer.error_code(self.error_code);
        writer.i64(self.high_watermark);
        writer.i64(self.last_stable_offset);
        if version >= 5 {
            writer.i64(self.log_start_offset);
        }
        // Aborted transactions: there are none. A list that is not null makes some clients hide
        // data from readers of uncommitted records (T54).
        writer.null_array();
        if version >= 11 {
            writer.i32(PREFERRED_READ_REPLICA);
        }
        writer.records(&self.records);
        match self.current_leader {
            Some(leader) if version >= 12 => {
                writer.tagged_fields_begin(1);
                writer.tagged_field(1, |writer| leader.encode(writer));
            }
            Some(_) | None => writer.tagged_fields(),
        }
    }
}
