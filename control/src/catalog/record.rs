//! What the catalog consists of.

use crate::catalog::{
    Assignment, Cache, CachePath, Floor, Namespace, NamespacePath, Node, Quota, Stream, StreamPath,
    Tenant, TenantName,
};
use felix_core::{BrokerId, ShardId, StreamId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing in the catalog. Each change of the catalog is one of a record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A tenant.
    Tenant(Tenant),
    /// A namespace.
    Namespace(Namespace),
    /// A stream, live or deleted and not yet gone.
    Stream(Stream),
    /// A cache.
    Cache(Cache),
    /// A broker.
    Node(Node),
    /// Who leads a shard.
    Assignment(Assignment),
    /// What a tenant may use.
    Quota(Quota),
    /// What the generations of new streams are above.
    Floor(Floor),
}

/// What a record is found under. Shown, it is how the stores write it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// A tenant, by its name.
    Tenant(TenantName),
    /// A namespace, by its path.
    Namespace(NamespacePath),
    /// A stream, by its identity: its name may be another's by now.
    Stream(StreamId),
    /// A cache, by its path.
    Cache(CachePath),
    /// A broker, by its number.
    Node(BrokerId),
    /// An assignment, by the shard.
    Assignment(ShardId),
    /// A quota, by the tenant.
    Quota(TenantName),
    /// A floor, by the name that it is of.
    Floor(Option<StreamPath>),
}

impl Record {
    /// What it is found under.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Tenant(tenant) => Key::Tenant(tenant.name.clone()),
            Self::Namespace(namespace) => Key::Namespace(namespace.path.clone()),
            Self::Stream(stream) => Key::Stream(stream.id),
            Self::Cache(cache) => Key::Cache(cache.path.clone()),
            Self::Node(node) => Key::Node(node.id),
            Self::Assignment(assignment) => Key::Assignment(assignment.shard),
            Self::Quota(quota) => Key::Quota(quota.tenant.clone()),
            Self::Floor(floor) => Key::Floor(floor.path.clone()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(name) => write!(f, "tenant/{name}"),
            Self::Namespace(path) => write!(f, "namespace/{path}"),
            Self::Stream(id) => write!(f, "stream/{id}"),
            Self::Cache(path) => write!(f, "cache/{path}"),
            Self::Node(id) => write!(f, "node/{id}"),
            Self::Assignment(shard) => write!(f, "assignment/{shard}"),
            Self::Quota(tenant) => write!(f, "quota/{tenant}"),
            Self::Floor(None) => write!(f, "floor"),
            Self::Floor(Some(path)) => write!(f, "floor/{path}"),
        }
    }
}
