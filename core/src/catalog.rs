//! What streams there are. A snapshot: a change makes a new one, and each CPU core keeps its own
//! copy.

use crate::limits::{SHARDS_PER_STREAM_MAX, TOPIC_NAME_BYTES_MAX};
use crate::{Generation, Retention, ShardId, StreamId};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// When an append is acknowledged and flushed (design section 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Acknowledged when written; flushed when the kernel pleases.
    None,
    /// Acknowledged when written; flushed every interval.
    Periodic,
    /// Acknowledged when on the device.
    OnCommit,
}

/// Whose clock a stream's records carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timestamps {
    /// The broker's, when it appended them (Kafka: LogAppendTime).
    Append,
    /// The producer's (Kafka: CreateTime).
    Create,
}

/// A stream as the catalog describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// Its identity, for life.
    pub id: StreamId,
    /// The tenant that owns it.
    pub tenant: String,
    /// The namespace, part of the Kafka topic name before the first dot.
    pub namespace: String,
    /// The name, part of the Kafka topic name after the first dot.
    pub name: String,
    /// Number of shards: Kafka's partition count.
    pub shards: u32,
    /// Flush policy.
    pub durability: Durability,
    /// Whose clock.
    pub timestamps: Timestamps,
    /// How much of each shard is kept.
    pub retention: Retention,
    /// How long after its first append a segment is sealed at the latest.
    pub segment_age: Duration,
    /// Every opening is above this: the greatest generation clients may have seen under the name,
    /// before this stream or this data directory began.
    pub generation_floor: Generation,
}

impl Stream {
    /// The Kafka topic name: `<namespace>.<name>`.
    #[must_use]
    pub fn topic(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }

    /// Its shards, in order.
    pub fn shard_ids(&self) -> impl Iterator<Item = ShardId> + use<> {
        let stream = self.id;
        (0..self.shards).map(move |index| ShardId { stream, index })
    }

    /// A shard by Kafka partition number; `None` at or above the shard count, or negative.
    #[must_use]
    pub fn shard(&self, partition: i32) -> Option<ShardId> {
        let index = u32::try_from(partition)
            .ok()
            .filter(|index| *index < self.shards)?;
        Some(ShardId {
            stream: self.id,
            index,
        })
    }
}

/// Why a catalog, or a name in it, is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CatalogError {
    /// A part of a name is empty, too long or has a character outside `A-Z a-z 0-9 . _ -`.
    Name {
        /// `tenant`, `namespace` or `stream`.
        part: &'static str,
        /// The name as given.
        name: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A shard count outside 1..=[`SHARDS_PER_STREAM_MAX`].
    Shards {
        /// The topic.
        topic: String,
        /// The count as given.
        shards: u32,
    },
    /// Two streams of one tenant have the same topic name.
    Duplicate {
        /// The tenant.
        tenant: String,
        /// The topic.
        topic: String,
    },
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { part, name, fault } => write!(f, "{part} name {name:?} {fault}"),
            Self::Shards { topic, shards } => write!(
                f,
                "stream {topic} asks for {shards} shards; give 1 to {SHARDS_PER_STREAM_MAX}"
            ),
            Self::Duplicate { tenant, topic } => {
                write!(f, "tenant {tenant} has two streams named {topic}")
            }
        }
    }
}

impl std::error::Error for CatalogError {}

/// Tenant, namespace and name: what a stream is called.
type Name = (String, String, String);

/// All streams, found by name or by id.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    streams: Vec<Stream>,
    by_name: HashMap<Name, usize>,
    by_id: HashMap<StreamId, usize>,
}

impl Catalog {
    /// A catalog of these streams.
    ///
    /// # Errors
    /// A name breaks the rules, a count is out of bounds, or a topic occurs twice.
    pub fn new(mut streams: Vec<Stream>) -> Result<Self, CatalogError> {
        streams.sort_by(|a, b| (&a.tenant, a.topic()).cmp(&(&b.tenant, b.topic())));
        let mut catalog = Self::default();
        for (index, stream) in streams.iter().enumerate() {
            check(stream)?;
            let tenant = stream.tenant.clone();
            let key = (tenant, stream.namespace.clone(), stream.name.clone());
            if catalog.by_name.insert(key, index).is_some() {
                return Err(CatalogError::Duplicate {
                    tenant: stream.tenant.clone(),
                    topic: stream.topic(),
                });
            }
            let earlier = catalog.by_id.insert(stream.id, index);
            assert!(earlier.is_none(), "stream ids are random and unique");
        }
        catalog.streams = streams;
        Ok(catalog)
    }

    /// All streams, by tenant and topic name.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// A stream by its identity.
    #[must_use]
    pub fn stream(&self, id: StreamId) -> Option<&Stream> {
        self.by_id
            .get(&id)
            .and_then(|index| self.streams.get(*index))
    }

    /// The stream of this name in a tenant's namespace.
    #[must_use]
    pub fn named(&self, tenant: &str, namespace: &str, name: &str) -> Option<&Stream> {
        // Building the key costs three short copies a lookup, which a hash map keyed by borrowed
        // names would save at the price of a second key type.
        let key = (tenant.to_owned(), namespace.to_owned(), name.to_owned());
        self.by_name
            .get(&key)
            .and_then(|index| self.streams.get(*index))
    }

    /// The stream a tenant means by a Kafka topic name, which is split at its first dot.
    #[must_use]
    pub fn topic(&self, tenant: &str, topic: &str) -> Option<&Stream> {
        let (namespace, name) = topic.split_once('.')?;
        self.named(tenant, namespace, name)
    }
}

fn check(stream: &Stream) -> Result<(), CatalogError> {
    for (part, name, fault) in [
        ("tenant", &stream.tenant, name_fault(&stream.tenant)),
        (
            "namespace",
            &stream.namespace,
            namespace_fault(&stream.namespace),
        ),
        ("stream", &stream.name, name_fault(&stream.name)),
    ] {
        if let Some(fault) = fault {
            let name = name.clone();
            return Err(CatalogError::Name { part, name, fault });
        }
    }
    if stream.topic().len() > TOPIC_NAME_BYTES_MAX {
        return Err(CatalogError::Name {
            part: "stream",
            name: stream.topic(),
            fault: "is longer than 249 characters together with its namespace",
        });
    }
    if !(1..=SHARDS_PER_STREAM_MAX).contains(&stream.shards) {
        return Err(CatalogError::Shards {
            topic: stream.topic(),
            shards: stream.shards,
        });
    }
    Ok(())
}

/// What keeps `name` from being the name of a tenant or a stream.
#[must_use]
pub fn name_fault(name: &str) -> Option<&'static str> {
    Some(if name.is_empty() {
        "is empty"
    } else if name.len() > TOPIC_NAME_BYTES_MAX {
        "is longer than 249 characters"
    } else if name == "." || name == ".." {
        "is a reserved path"
    } else if !is_legal(name) {
        "has a character outside A-Z a-z 0-9 . _ -"
    } else {
        return None;
    })
}

/// What keeps `name` from being the name of a namespace.
#[must_use]
pub fn namespace_fault(name: &str) -> Option<&'static str> {
    // With a dot in it, none of its streams could ever be named.
    name_fault(name).or_else(|| {
        let has_dot = name.contains('.');
        has_dot.then_some("has a dot; a topic name is split at its first dot")
    })
}

/// Whether every character is one that a Kafka topic name may have.
#[must_use]
pub fn is_legal(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SEGMENT_AGE;

    fn stream(namespace: &str, name: &str, id: u128) -> Stream {
        Stream {
            id: StreamId(id),
            tenant: "dev".into(),
            namespace: namespace.into(),
            name: name.into(),
            shards: 3,
            durability: Durability::Periodic,
            timestamps: Timestamps::Append,
            retention: Retention::default(),
            segment_age: SEGMENT_AGE,
            generation_floor: Generation::new(0),
        }
    }

    #[test]
    fn a_topic_is_found_under_its_tenant_only() {
        let catalog = Catalog::new(vec![stream("default", "clicks", 1)]).unwrap();
        assert_eq!(
            catalog.topic("dev", "default.clicks").unwrap().id,
            StreamId(1)
        );
        assert!(catalog.topic("other", "default.clicks").is_none());
        assert!(catalog.topic("dev", "clicks").is_none());
    }

    #[test]
    fn a_namespace_with_a_dot_means_no_stream_of_another_namespace() {
        let catalog = Catalog::new(vec![stream("a", "b.x", 1)]).unwrap();
        let id = |found: Option<&Stream>| found.map(|stream| stream.id);
        assert_eq!(id(catalog.topic("dev", "a.b.x")), Some(StreamId(1)));
        assert_eq!(id(catalog.named("dev", "a", "b.x")), Some(StreamId(1)));
        assert_eq!(id(catalog.named("dev", "a.b", "x")), None);
    }

    #[test]
    fn names_that_a_client_could_not_use_are_refused_with_the_reason() {
        for (namespace, name, reason) in [
            ("a.b", "c", "first dot"),
            ("", "c", "is empty"),
            ("a", "c d", "character outside"),
            ("a", "..", "reserved"),
        ] {
            let error = Catalog::new(vec![stream(namespace, name, 1)]).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        let long = "x".repeat(248);
        assert!(Catalog::new(vec![stream("a", &long, 1)]).is_err());
        let twice = vec![stream("a", "b", 1), stream("a", "b", 2)];
        assert!(matches!(
            Catalog::new(twice),
            Err(CatalogError::Duplicate { .. })
        ));
    }

    #[test]
    fn a_partition_outside_the_stream_is_no_shard() {
        let clicks = stream("default", "clicks", 1);
        assert!(clicks.shard(2).is_some());
        assert!(clicks.shard(3).is_none());
        assert!(clicks.shard(-1).is_none());
    }
}
