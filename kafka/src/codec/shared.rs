//! Structures that several answers have (KIP-951).

use super::Writer;

/// Where the leader is, told along with an error that says it is elsewhere.
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
