//! What streams there are. A snapshot: a change makes a new one, and each CPU core keeps its own
//! copy.

use crate::limits::{SHARDS_PER_STREAM_MAX, TOPIC_NAME_BYTES_MAX};
use crate::{Generation, ShardId, StreamId};
use std::collections::HashMap;
use std::fmt;

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

/// All streams, found by name or by id.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    streams: Vec<Stream>,
    by_topic: HashMap<(String, String), usize>,
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
            let key = (stream.tenant.clone(), stream.topic());
            if catalog.by_topic.insert(key, index).is_some() {
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

    /// The stream a tenant means by a Kafka topic name.
    #[must_use]
    pub fn topic(&self, tenant: &str, topic: &str) -> Option<&Stream> {
        // Building the key costs two short copies a lookup, which a hash map keyed by a borrowed
        // pair would save at the price of a second key type.
        let index = self.by_topic.get(&(tenant.to_owned(), topic.to_owned()))?;
        self.streams.get(*index)
    }
}

fn check(stream: &Stream) -> Result<(), CatalogError> {
    check_name("tenant", &stream.tenant)?;
    check_name("namespace", &stream.namespace)?;
    check_name("stream", &stream.name)?;
    if stream.namespace.contains('.') {
        // A topic name is split at its first dot, so such a stream could never be named.
        return Err(CatalogError::Name {
            part: "namespace",
            name: stream.namespace.clone(),
            fault: "has a dot; a topic name is split at its first dot",
        });
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

fn check_name(part: &'static str, name: &str) -> Result<(), CatalogError> {
    let fault = if name.is_empty() {
        "is empty"
    } else if name.len() > TOPIC_NAME_BYTES_MAX {
        "is longer than 249 characters"
    } else if name == "." || name == ".." {
        "is a reserved path"
    } else if !is_legal(name) {
        "has a character outside A-Z a-z 0-9 . _ -"
    } else {
        return Ok(());
    };
    Err(CatalogError::Name {
        part,
        name: name.to_owned(),
        fault,
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

    fn stream(namespace: &str, name: &str, id: u128) -> Stream {
        Stream {
            id: StreamId(id),
            tenant: "dev".into(),
            namespace: namespace.into(),
            name: name.into(),
            shards: 3,
            durability: Durability::Periodic,
            timestamps: Timestamps::Append,
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
