//! Metadata (3): topics, partitions and their leaders.

use super::{ApiKey, Cursor, DecodeError, ErrorCode, Fault, Writer};
use std::borrow::Cow;

const API: ApiKey = ApiKey::Metadata;

/// The wire's "not asked for, not told" in a bit set of authorised operations.
pub(super) const OPERATIONS_OMITTED: i32 = i32::MIN;

/// What librdkafka sends too much where it asks for all topics.
const LIBRDKAFKA_SURPLUS_BYTES: usize = 3;

/// A Metadata request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The topics asked about. `None`: all of them, however the version says that; empty: none.
    pub topics: Option<Vec<RequestTopic<'a>>>,
    /// Whether topics asked about may be created; true before version 4.
    pub allow_auto_topic_creation: bool,
    /// Versions 8 to 10.
    pub include_cluster_authorized_operations: bool,
    /// Version 8 and later.
    pub include_topic_authorized_operations: bool,
}

/// A topic asked about: by name, or by id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestTopic<'a> {
    /// The topic id, 0 for none. Version 10 and later.
    pub topic_id: u128,
    /// The name. May be null from version 10 on.
    pub name: Option<&'a str>,
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
        let topics = if version == 0 {
            // Version 0 has no null: there an empty array asks for all topics (T20).
            let topics = cursor.array(|cursor| RequestTopic::decode(version, cursor))?;
            (!topics.is_empty()).then_some(topics)
        } else {
            cursor.nullable_array(|cursor| RequestTopic::decode(version, cursor))?
        };
        let allow_auto_topic_creation = if version >= 4 { cursor.bool()? } else { true };
        let include_cluster_authorized_operations = if (8..=10).contains(&version) {
            cursor.bool()?
        } else {
            false
        };
        let include_topic_authorized_operations = if version >= 8 { cursor.bool()? } else { false };
        cursor.tagged_fields()?;
        if topics.is_none() && API.is_flexible(version) {
            // librdkafka (2.16 at least) asks for all topics with four bytes of zero where a
            // flexible version has one, so that three are left at the end; Kafka reads no further
            // than the request and never sees them. The fields in between are misread as off,
            // which for a request about all topics changes nothing.
            cursor.finish_forgiving(LIBRDKAFKA_SURPLUS_BYTES)?;
        } else {
            cursor.finish()?;
        }
        Ok(Self {
            topics,
            allow_auto_topic_creation,
            include_cluster_authorized_operations,
            include_topic_authorized_operations,
        })
    }
}

impl<'a> RequestTopic<'a> {
    fn decode(version: i16, cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let (topic_id, name) = if version >= 10 {
            (cursor.uuid()?, cursor.nullable_string()?)
        } else {
            (0, Some(cursor.string()?))
        };
        cursor.tagged_fields()?;
        Ok(Self { topic_id, name })
    }
}

/// A Metadata answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// How long the client is asked to hold back. Version 3 and later.
    pub throttle_time_ms: i32,
    /// All nodes.
    pub brokers: Vec<Broker<'a>>,
    /// The cluster's name for itself. Version 2 and later.
    pub cluster_id: Option<&'a str>,
    /// The node that takes administrative requests. Version 1 and later.
    pub controller_id: i32,
    /// The topics.
    pub topics: Vec<Topic<'a>>,
}

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broker<'a> {
    /// Node id.
    pub node_id: i32,
    /// Host that clients connect to.
    pub host: &'a str,
    /// Port that clients connect to.
    pub port: i32,
    /// Rack. Version 1 and later.
    pub rack: Option<&'a str>,
}

/// A topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic<'a> {
    /// The error, if any.
    pub error_code: ErrorCode,
    /// The name; `None` where it was asked about by an id that is not known. Before version 12,
    /// which cannot say that, such a name is written empty.
    pub name: Option<Cow<'a, str>>,
    /// The topic id, 0 for none. Version 10 and later.
    pub topic_id: u128,
    /// The partitions.
    pub partitions: Vec<Partition<'a>>,
}

/// A partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition<'a> {
    /// The error, if any.
    pub error_code: ErrorCode,
    /// The number of the partition.
    pub index: i32,
    /// Node id of the leader, -1 for none.
    pub leader_id: i32,
    /// The leader's epoch, -1 if unknown. Version 7 and later.
    pub leader_epoch: i32,
    /// Node ids of all replicas.
    pub replicas: &'a [i32],
    /// Node ids of the replicas in sync.
    pub in_sync: &'a [i32],
    /// Node ids of the replicas that are down. Version 5 and later.
    pub offline: &'a [i32],
}

impl Response<'_> {
    /// Writes the body. Authorised operations are never told.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        self.encode_before_topics(version, self.topics.len(), writer);
        for topic in &self.topics {
            topic.encode(version, writer);
        }
        Self::encode_after_topics(version, writer);
    }

    /// Writes the body up to the topics, of which there are so many. Each of them is to follow.
    pub(crate) fn encode_before_topics(&self, version: i16, topics: usize, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        if version >= 3 {
            writer.i32(self.throttle_time_ms);
        }
        writer.array(&self.brokers, |writer, broker| {
            broker.encode(version, writer)
        });
        if version >= 2 {
            writer.nullable_string(self.cluster_id);
        }
        if version >= 1 {
            writer.i32(self.controller_id);
        }
        writer.declare(topics);
    }

    /// Writes the body after the topics.
    pub(crate) fn encode_after_topics(version: i16, writer: &mut Writer) {
        if (8..=10).contains(&version) {
            writer.i32(OPERATIONS_OMITTED);
        }
        writer.tagged_fields();
    }
}

impl Broker<'_> {
    fn encode(&self, version: i16, writer: &mut Writer) {
        writer.i32(self.node_id);
        writer.string(self.host);
        writer.i32(self.port);
        if version >= 1 {
            writer.nullable_string(self.rack);
        }
        writer.tagged_fields();
    }
}

impl Topic<'_> {
    /// Writes the topic.
    pub(crate) fn encode(&self, version: i16, writer: &mut Writer) {
        writer.error_code(self.error_code);
        if version >= 12 {
            writer.nullable_string(self.name.as_deref());
        } else {
            writer.string(self.name.as_deref().unwrap_or_default());
        }
        if version >= 10 {
            writer.uuid(self.topic_id);
        }
        if version >= 1 {
            // No topic is internal: there are no offsets or transactions kept in topics.
            writer.bool(false);
        }
        writer.array(&self.partitions, |writer, partition| {
            partition.encode(version, writer)
        });
        if version >= 8 {
            writer.i32(OPERATIONS_OMITTED);
        }
        writer.tagged_fields();
    }
}

impl Partition<'_> {
    fn encode(&self, version: i16, writer: &mut Writer) {
        writer.error_code(self.error_code);
        writer.i32(self.index);
        writer.i32(self.leader_id);
        if version >= 7 {
            writer.i32(self.leader_epoch);
        }
        writer.array(self.replicas, |writer, node| writer.i32(*node));
        writer.array(self.in_sync, |writer, node| writer.i32(*node));
        if version >= 5 {
            writer.array(self.offline, |writer, node| writer.i32(*node));
        }
        writer.tagged_fields();
    }
}
