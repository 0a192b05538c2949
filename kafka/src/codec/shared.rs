//! Structures that several requests and answers have.

use super::{Cursor, DecodeError, Writer};

/// A topic by its name, and something for each of its partitions that is asked about or answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic<'a, P> {
    /// The name.
    pub name: &'a str,
    /// One for each partition, in the order asked.
    pub partitions: Vec<P>,
}

impl<'a, P> Topic<'a, P> {
    pub(super) fn decode(
        cursor: &mut Cursor<'a>,
        partition: impl FnMut(&mut Cursor<'a>) -> Result<P, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let name = cursor.string()?;
        let partitions = cursor.array(partition)?;
        cursor.tagged_fields()?;
        Ok(Self { name, partitions })
    }

    pub(super) fn encode(&self, writer: &mut Writer, partition: impl FnMut(&mut Writer, &P)) {
        writer.string(self.name);
        writer.array(&self.partitions, partition);
        writer.tagged_fields();
    }
}

/// Where the leader is, told along with an error that says it is elsewhere (KIP-951).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CurrentLeader {
    /// Node id of the leader, -1 if unknown.
    pub leader_id: i32,
    /// Its epoch, -1 if unknown.
    pub leader_epoch: i32,
}

impl CurrentLeader {
    pub(super) fn encode(self, writer: &mut Writer) {
        writer.i32(self.leader_id);
        writer.i32(self.leader_epoch);
        writer.tagged_fields();
    }
}

/// The address of a node named in a [`CurrentLeader`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeEndpoint<'a> {
    /// Node id.
    pub node_id: i32,
    /// Host.
    pub host: &'a str,
    /// Port.
    pub port: i32,
    /// Rack.
    pub rack: Option<&'a str>,
}

impl NodeEndpoint<'_> {
    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.i32(self.node_id);
        writer.string(self.host);
        writer.i32(self.port);
        writer.nullable_string(self.rack);
        writer.tagged_fields();
    }
}
