//! The brokers and CPU cores that clients can connect to.

use crate::{BrokerId, CpuId, ShardId, placement};

/// An address as clients are told it: not necessarily one we listen on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Host name or literal address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// A Kafka node: a broker, or one CPU core of it where core ports are on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its id on the wire: 31 bits, stable across restarts, never 0.
    pub id: i32,
    /// Where clients connect.
    pub address: Address,
    /// The broker's rack.
    pub rack: Option<String>,
}

/// How this broker appears to Kafka clients. Other brokers join it with replication.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    nodes: Vec<Node>,
    cores: u16,
}

impl Topology {
    /// A broker with `cores` CPU cores. One address: one node for the whole broker; one address
    /// per core: a node per core, so that clients connect to the core that owns a partition.
    #[must_use]
    pub fn new(broker: BrokerId, cores: u16, addresses: Vec<Address>, rack: Option<&str>) -> Self {
        assert!(cores > 0);
        assert!(addresses.len() == 1 || addresses.len() == usize::from(cores));
        let nodes = (0_u16..)
            .zip(addresses)
            .map(|(core, address)| Node {
                id: node_id(broker, CpuId(core)),
                address,
                rack: rack.map(str::to_owned),
            })
            .collect();
        Self { nodes, cores }
    }

    /// All nodes; the first is the controller.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node that leads a shard of this broker.
    #[must_use]
    pub fn leader(&self, shard: ShardId) -> &Node {
        let core = placement::owner(shard, self.cores).index();
        let slot = if self.nodes.len() == 1 { 0 } else { core };
        &self.nodes[slot]
    }

    /// The CPU cores of this broker.
    #[must_use]
    pub fn cores(&self) -> u16 {
        self.cores
    }
}

/// The wire id of a core of a broker: a hash folded to 1..2^31, so that ids of different brokers
/// do not meet by being small. The registration refuses collisions.
#[must_use]
pub fn node_id(broker: BrokerId, core: CpuId) -> i32 {
    let mut hash = 0x811c_9dc5_u32;
    for byte in broker
        .0
        .to_be_bytes()
        .into_iter()
        .chain(core.0.to_be_bytes())
    {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    ((hash >> 1).max(1)).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn node_ids_are_positive_stable_and_differ_within_a_cluster() {
        let mut seen = HashSet::new();
        for broker in 0..64 {
            for core in 0..64 {
                let id = node_id(BrokerId(broker), CpuId(core));
                assert!(id > 0);
                assert!(seen.insert(id), "broker {broker} core {core}");
            }
        }
        // Clients remember ids across our restarts: these must never change.
        assert_eq!(node_id(BrokerId(1), CpuId(0)), 541_616_681);
        assert_eq!(node_id(BrokerId(1), CpuId(1)), 550_005_490);
    }
}
