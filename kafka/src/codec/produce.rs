//! Produce (0): appending record batches.

use super::{
    ApiKey, CurrentLeader, Cursor, DecodeError, ErrorCode, Fault, NodeEndpoint, Writer, shared,
};
use bytes::{Buf, BytesMut};
use std::borrow::Cow;
use std::ops::Range;

const API: ApiKey = ApiKey::Produce;

/// The first version that carries record batches of the format the log is made of. Requests of an
/// earlier one are decoded as far as it takes to refuse each partition in a shape the client
/// understands (T09).
pub const BATCHES_FROM: i16 = 3;

/// A Produce request. It owns its parts, because the frame they lay in is taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Set by a transactional producer. Version 3 and later.
    pub transactional_id: Option<String>,
    /// How many replicas are to have the records before the answer: 0 (no answer), 1, or -1 for
    /// all that the stream's consistency asks. Other values are the client's mistake.
    pub acks: i16,
    /// How long to wait for them.
    pub timeout_ms: i32,
    /// What is to be appended.
    pub topics: Vec<RequestTopic>,
}

/// A topic to append to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestTopic {
    /// The name.
    pub name: String,
    /// The partitions to append to.
    pub partitions: Vec<RequestPartition>,
}

/// A partition to append to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestPartition {
    /// The number of the partition.
    pub index: i32,
    /// The record set, cut out of the frame. Not looked into yet.
    pub records: Option<BytesMut>,
}

impl Request {
    /// Reads the body, which begins at position `body` of `frame`, and takes the frame apart: first
    /// the whole request is read and checked, noting where the record sets lie, then they are cut
    /// out. A set that fills half of the frame's memory keeps it and is not copied; smaller ones
    /// are, or each that is kept would keep the whole frame. All can be patched in place.
    ///
    /// # Errors
    /// The bytes are no such request.
    pub fn decode(version: i16, frame: BytesMut, body: usize) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(&frame);
        cursor.take(body)?;
        let mut places = Vec::new();
        let mut request = Self::read(version, &mut cursor, &mut places)?;
        request.carve(frame, places);
        Ok(request)
    }

    fn read(
        version: i16,
        cursor: &mut Cursor<'_>,
        places: &mut Vec<Range<usize>>,
    ) -> Result<Self, DecodeError> {
        if !API.serves(version) {
            return Err(cursor.error(Fault::Version(version)));
        }
        cursor.begin_body(API.is_flexible(version));
        let transactional_id = if version >= 3 {
            cursor.nullable_string()?.map(str::to_owned)
        } else {
            None
        };
        let acks = cursor.i16()?;
        let timeout_ms = cursor.i32()?;
        let topics = cursor.array(|cursor| {
            let name = cursor.string()?.to_owned();
            let partitions = cursor.array(|cursor| RequestPartition::read(cursor, places))?;
            cursor.tagged_fields()?;
            Ok(RequestTopic { name, partitions })
        })?;
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self {
            transactional_id,
            acks,
            timeout_ms,
            topics,
        })
    }

    /// Puts the bytes at `places` of the frame, which rise, where `read` left room for them.
    fn carve(&mut self, mut frame: BytesMut, places: Vec<Range<usize>>) {
        let partitions = self
            .topics
            .iter_mut()
            .flat_map(|topic| &mut topic.partitions);
        let rooms = partitions.filter_map(|partition| partition.records.as_mut());
        let frame_memory = frame.capacity();
        let mut at = 0;
        for (room, place) in rooms.zip(places) {
            frame.advance(place.start - at);
            *room = if place.len() >= frame_memory / 2 {
                frame.split_to(place.len())
            } else {
                let (set, _) = frame.split_at(place.len());
                let copy = BytesMut::from(set);
                frame.advance(place.len());
                copy
            };
            at = place.end;
        }
    }
}

impl RequestPartition {
    fn read(cursor: &mut Cursor<'_>, places: &mut Vec<Range<usize>>) -> Result<Self, DecodeError> {
        let index = cursor.i32()?;
        let records = cursor.nullable_bytes()?.map(|place| {
            places.push(place);
            BytesMut::new()
        });
        cursor.tagged_fields()?;
        Ok(Self { index, records })
    }
}

/// A Produce answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// The answers, in the order asked.
    pub topics: Vec<Topic<'a>>,
    /// How long the client is asked to hold back. Version 1 and later.
    pub throttle_time_ms: i32,
    /// Addresses of the leaders told with errors. Version 10 and later.
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

/// A topic's answers.
pub type Topic<'a> = shared::Topic<'a, Partition<'a>>;

/// A partition's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition<'a> {
    /// The number of the partition.
    pub index: i32,
    /// The error, if any.
    pub error_code: ErrorCode,
    /// Offset of the first record appended, -1 on error.
    pub base_offset: i64,
    /// The append time where the stream uses append time, else -1. Version 2 and later.
    pub log_append_time_ms: i64,
    /// The log start, -1 if unknown. Version 5 and later.
    pub log_start_offset: i64,
    /// The records at fault. Version 8 and later.
    pub record_errors: Vec<RecordError<'a>>,
    /// What is wrong, for people. Version 8 and later.
    pub error_message: Option<Cow<'a, str>>,
    /// Where the leader is, with an error that says it is elsewhere. Version 10 and later.
    pub current_leader: Option<CurrentLeader>,
}

/// A record at fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordError<'a> {
    /// Its number in the batch.
    pub batch_index: i32,
    /// What is wrong with it, for people.
    pub message: Option<Cow<'a, str>>,
}

impl Response<'_> {
    /// Writes the body.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        writer.array(&self.topics, |writer, topic| {
            topic.encode(writer, |writer, partition| {
                partition.encode(version, writer)
            });
        });
        if version >= 1 {
            writer.i32(self.throttle_time_ms);
        }
        if version >= 10 && !self.node_endpoints.is_empty() {
            writer.tagged_fields_begin(1);
            writer.tagged_field(0, |writer| {
                writer.array(&self.node_endpoints, |writer, node| node.encode(writer));
            });
        } else {
            writer.tagged_fields();
        }
    }
}

impl<'a> Partition<'a> {
    /// An answer that is only an error.
    #[must_use]
    pub fn error(index: i32, error_code: ErrorCode, message: Option<Cow<'a, str>>) -> Self {
        Self {
            index,
            error_code,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: message,
            current_leader: None,
        }
    }

    fn encode(&self, version: i16, writer: &mut Writer) {
        writer.i32(self.index);
        writer.error_code(self.error_code);
        writer.i64(self.base_offset);
        if version >= 2 {
            writer.i64(self.log_append_time_ms);
        }
        if version >= 5 {
            writer.i64(self.log_start_offset);
        }
        if version >= 8 {
            writer.array(&self.record_errors, |writer, error| {
                writer.i32(error.batch_index);
                writer.sentence(error.message.as_deref());
                writer.tagged_fields();
            });
            writer.sentence(self.error_message.as_deref());
        }
        match self.current_leader {
            Some(leader) if version >= 10 => {
                writer.tagged_fields_begin(1);
                writer.tagged_field(0, |writer| leader.encode(writer));
            }
            Some(_) | None => writer.tagged_fields(),
        }
    }
}
