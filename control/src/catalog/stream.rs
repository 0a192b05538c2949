//! A stream, from when it is made until its files are gone.

use crate::catalog::{StreamPath, StreamSettings};
use felix_core::{Generation, ShardId, StreamId, Timestamp};
use serde::{Deserialize, Serialize};

/// A stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its identity for life, and the topic id that Kafka clients are told. One made anew under the
    /// name has another.
    #[serde(with = "crate::spelling::stream_id")]
    pub id: StreamId,
    /// What it is called.
    pub path: StreamPath,
    /// What it is set to.
    pub settings: StreamSettings,
    /// Every opening of its shards is above this: clients may have seen as much under its name.
    #[serde(with = "crate::spelling::generation")]
    pub generation_floor: Generation,
    /// When it was made.
    #[serde(with = "crate::spelling::timestamp")]
    pub created_at: Timestamp,
    /// Set from when it is deleted until it is restored or gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Deletion>,
}

/// What is to come of a stream that was deleted. Nobody can read or write it, its name is free, and
/// its files are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deletion {
    /// When it was deleted.
    #[serde(with = "crate::spelling::timestamp")]
    pub at: Timestamp,
    /// Until then it can be restored; then it goes.
    #[serde(with = "crate::spelling::timestamp")]
    pub purge_at: Timestamp,
}

impl Stream {
    /// Whether it is there for readers and writers.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.deletion.is_none()
    }

    /// Whether its grace is over.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.deletion
            .is_some_and(|deletion| deletion.purge_at <= now)
    }

    /// Whether it has this shard.
    #[must_use]
    pub fn has(&self, shard: ShardId) -> bool {
        shard.stream == self.id && shard.index < self.settings.shards
    }
}
