//! Why an edit is not made. Each refusal says what is wrong and what to do.

mod conflict;
mod invalid;
mod limit;

pub use conflict::Conflict;
pub use invalid::Invalid;
pub use limit::Limit;

use crate::catalog::{Key, NameError, StreamPath};
use felix_core::ShardId;
use std::fmt;

/// Why an edit is not made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It could never be made as it is.
    Invalid(Invalid),
    /// What it is about is not there.
    NotFound(Subject),
    /// The catalog is not as it supposes.
    Conflict(Conflict),
    /// There is no room for it.
    Limit(Limit),
}

/// What a refusal is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A record, by its key.
    Record(Key),
    /// A stream, by its name.
    Stream(StreamPath),
    /// A shard.
    Shard(ShardId),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => write!(f, "{invalid}"),
            Self::NotFound(subject) => {
                write!(
                    f,
                    "there is no {subject}; create it first, or list what there is"
                )
            }
            Self::Conflict(conflict) => write!(f, "{conflict}"),
            Self::Limit(limit) => write!(f, "{limit}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<Conflict> for Refusal {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl From<Limit> for Refusal {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Self::Invalid(Invalid::Name(error))
    }
}

impl From<Key> for Subject {
    fn from(key: Key) -> Self {
        Self::Record(key)
    }
}

impl From<&StreamPath> for Subject {
    fn from(path: &StreamPath) -> Self {
        Self::Stream(path.clone())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(path) => write!(f, "stream {path}"),
            Self::Shard(shard) => write!(f, "shard {shard}"),
            Self::Record(Key::Tenant(name)) => write!(f, "tenant {name}"),
            Self::Record(Key::Namespace(path)) => write!(f, "namespace {path}"),
            Self::Record(Key::Stream(id)) => write!(f, "stream with identity {id}"),
            Self::Record(Key::Cache(path)) => write!(f, "cache {path}"),
            Self::Record(Key::Node(id)) => write!(f, "node {id}"),
            Self::Record(Key::Assignment(shard)) => write!(f, "assignment of shard {shard}"),
            Self::Record(Key::Quota(tenant)) => write!(f, "quota of tenant {tenant}"),
            Self::Record(Key::Floor(_)) => write!(f, "floor of generations"),
        }
    }
}
