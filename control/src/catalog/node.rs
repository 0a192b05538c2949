//! A broker as the others and its clients know it.

use crate::catalog::HostPort;
use crate::limits::{CORES_MAX, RACK_BYTES_MAX};
use crate::refusal::Conflict;
use felix_core::topology::node_id;
use felix_core::{BrokerId, CpuId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A broker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its number.
    #[serde(with = "crate::spelling::broker_id")]
    pub id: BrokerId,
    /// Its CPU cores. With its number they say which Kafka nodes it is, so that all brokers name
    /// the same.
    pub cores: u16,
    /// Where native clients connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<HostPort>,
    /// The same for each core; empty: the cores have no ports of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub native_cores: Vec<HostPort>,
    /// Where Kafka clients connect; `None`: it serves none, and leads nothing for them (claim 112).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<HostPort>,
    /// The same for each core; empty: the cores are no Kafka nodes of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kafka_cores: Vec<HostPort>,
    /// The rack, as Kafka clients are told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
}

/// Why a broker cannot be as it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeError {
    /// It has no cores, or too many.
    Cores(u16),
    /// It has neither one address for each core, nor none.
    CoreAddresses {
        /// Of what kind.
        field: &'static str,
        /// As many as there are.
        given: usize,
        /// As many cores as there are.
        cores: u16,
    },
    /// Two of its listeners have one address.
    AddressTwice(HostPort),
    /// Clients cannot be told its rack.
    Rack(String),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cores(cores) => write!(f, "a node with {cores} cores; give 1 to {CORES_MAX}"),
            Self::CoreAddresses {
                field,
                given,
                cores,
            } => {
                let word = if *given == 1 { "address" } else { "addresses" };
                write!(
                    f,
                    "{field} has {given} {word} for {cores} cores; give one each, or none"
                )
            }
            Self::AddressTwice(address) => {
                write!(
                    f,
                    "address {address} is there twice; give each listener its own"
                )
            }
            Self::Rack(rack) => write!(
                f,
                "rack {rack:?} is empty, too long or has control characters; give 1 to \
                 {RACK_BYTES_MAX} bytes of text, or leave it out"
            ),
        }
    }
}

impl std::error::Error for NodeError {}

impl Node {
    /// Whether it can be.
    ///
    /// # Errors
    /// Something about it cannot.
    pub fn check(&self) -> Result<(), NodeError> {
        if !(1..=CORES_MAX).contains(&self.cores) {
            return Err(NodeError::Cores(self.cores));
        }
        for (field, addresses) in [
            ("native_cores", &self.native_cores),
            ("kafka_cores", &self.kafka_cores),
        ] {
            let (given, cores) = (addresses.len(), self.cores);
            if given != 0 && given != usize::from(cores) {
                return Err(NodeError::CoreAddresses {
                    field,
                    given,
                    cores,
                });
            }
        }
        if let Some(rack) = &self.rack
            && (rack.is_empty() || rack.len() > RACK_BYTES_MAX || rack.contains(char::is_control))
        {
            return Err(NodeError::Rack(rack.clone()));
        }
        let addresses: Vec<_> = self.kafka_addresses().collect();
        let twice = addresses.iter().enumerate().find(|(at, address)| {
            let earlier = addresses.iter().take(*at);
            earlier.into_iter().any(|other| other == *address)
        });
        match twice {
            Some((_, address)) => Err(NodeError::AddressTwice((*address).clone())),
            None => Ok(()),
        }
    }

    /// Whether both can be in one catalog.
    ///
    /// # Errors
    /// Clients could not tell them apart.
    pub fn check_beside(&self, other: &Self) -> Result<(), Conflict> {
        // A client that remembers one node's address for another's id talks to the wrong one.
        if let Some(address) = self.kafka_addresses().find(|mine| {
            let mut theirs = other.kafka_addresses();
            theirs.any(|address| address == *mine)
        }) {
            return Err(Conflict::AddressTaken {
                address: address.clone(),
                by: other.id,
            });
        }
        let theirs: Vec<i32> = other.kafka_ids().collect();
        match self.kafka_ids().find(|id| theirs.contains(id)) {
            Some(_) => Err(Conflict::NodeIdsMeet {
                node: self.id,
                other: other.id,
            }),
            None => Ok(()),
        }
    }

    fn kafka_addresses(&self) -> impl Iterator<Item = &HostPort> {
        self.kafka.iter().chain(&self.kafka_cores)
    }

    fn kafka_ids(&self) -> impl Iterator<Item = i32> + use<> {
        let id = self.id;
        (0..self.cores).map(move |core| node_id(id, CpuId(core)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, cores: u16, kafka: &str, kafka_cores: &[&str]) -> Node {
        Node {
            id: BrokerId(id),
            cores,
            native: None,
            native_cores: Vec::new(),
            kafka: Some(kafka.parse().unwrap()),
            kafka_cores: kafka_cores
                .iter()
                .map(|core| core.parse().unwrap())
                .collect(),
            rack: None,
        }
    }

    #[test]
    fn a_node_has_an_address_for_each_core_or_for_none() {
        assert_eq!(node(1, 2, "a:1", &[]).check(), Ok(()));
        assert_eq!(node(1, 2, "a:1", &["a:2", "a:3"]).check(), Ok(()));
        let refusal = node(1, 2, "a:1", &["a:2"]).check().unwrap_err().to_string();
        assert!(
            refusal.contains("kafka_cores has 1 address for 2 cores"),
            "{refusal}"
        );
        assert!(node(1, 0, "a:1", &[]).check().is_err());
        let refusal = node(1, 2, "a:1", &["a:2", "a:2"])
            .check()
            .unwrap_err()
            .to_string();
        assert!(refusal.contains("a:2"), "{refusal}");
        let mut racked = node(1, 1, "a:1", &[]);
        racked.rack = Some("r\n".into());
        assert!(racked.check().unwrap_err().to_string().contains("rack"));
    }

    #[test]
    fn two_nodes_share_neither_an_address_nor_a_kafka_id() {
        let (one, two) = (node(1, 2, "a:1", &["a:2", "a:3"]), node(2, 1, "a:3", &[]));
        let refusal = two.check_beside(&one).unwrap_err().to_string();
        assert!(
            refusal.contains("a:3") && refusal.contains("node 1"),
            "{refusal}"
        );
        assert_eq!(node(2, 1, "b:1", &[]).check_beside(&one), Ok(()));
        // Folded to 31 bits, the ids of two brokers meet sooner or later: these do.
        let met = node(950_525_746, 1, "d:1", &[]);
        let refusal = node(387_840, 1, "c:1", &[]).check_beside(&met);
        assert!(refusal.unwrap_err().to_string().contains("another number"));
    }
}
