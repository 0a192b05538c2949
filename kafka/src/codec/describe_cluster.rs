//! DescribeCluster (60): the nodes, and the cluster's name (KIP-700).

use super::metadata::OPERATIONS_OMITTED;
use super::{ApiKey, Cursor, DecodeError, ErrorCode, Fault, NodeEndpoint, Writer};
use std::borrow::Cow;

const API: ApiKey = ApiKey::DescribeCluster;

/// Endpoint type: brokers.
pub const BROKERS: i8 = 1;
/// Endpoint type: controllers (KIP-919).
pub const CONTROLLERS: i8 = 2;

/// A DescribeCluster request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Whether the client wants to know what it may do.
    pub include_cluster_authorized_operations: bool,
    /// Which nodes: [`BROKERS`] or [`CONTROLLERS`]. Brokers before version 1.
    pub endpoint_type: i8,
}

impl Request {
    /// Reads the body.
    ///
    /// # Errors
    /// The bytes are no such request.
    pub fn decode(version: i16, cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        if !API.serves(version) {
            return Err(cursor.error(Fault::Version(version)));
        }
        cursor.begin_body(API.is_flexible(version));
        let include_cluster_authorized_operations = cursor.bool()?;
        let endpoint_type = if version >= 1 { cursor.i8()? } else { BROKERS };
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self {
            include_cluster_authorized_operations,
            endpoint_type,
        })
    }
}

/// A DescribeCluster answer. Authorised operations are never told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// How long the client is asked to hold back.
    pub throttle_time_ms: i32,
    /// The error, if any.
    pub error_code: ErrorCode,
    /// What is wrong, for people.
    pub error_message: Option<Cow<'a, str>>,
    /// Which nodes: as asked. Version 1 and later.
    pub endpoint_type: i8,
    /// The cluster's name for itself.
    pub cluster_id: &'a str,
    /// The node that takes administrative requests, -1 for none.
    pub controller_id: i32,
    /// All nodes.
    pub brokers: Vec<NodeEndpoint<'a>>,
}

impl Response<'_> {
    /// Writes the body.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        writer.i32(self.throttle_time_ms);
        writer.error_code(self.error_code);
        writer.sentence(self.error_message.as_deref());
        if version >= 1 {
            writer.i8(self.endpoint_type);
        }
        writer.string(self.cluster_id);
        writer.i32(self.controller_id);
        writer.array(&self.brokers, |writer, node| node.encode(writer));
        writer.i32(OPERATIONS_OMITTED);
        writer.tagged_fields();
    }
}
