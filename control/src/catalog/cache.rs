//! A cache: keys and their latest values.

use crate::catalog::CachePath;
use felix_core::{StreamId, Timestamp};
use serde::{Deserialize, Serialize};

/// A cache. Its deletion is for good: what it holds has its origin elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Its identity for life, of the same kind as a stream's: its shards are logs.
    #[serde(with = "crate::spelling::stream_id")]
    pub id: StreamId,
    /// What it is called.
    pub path: CachePath,
    /// What people read, if they are to read something else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its shards. There may come more and never fewer; the entries of keys that another shard has
    /// then are missed, as any are that a cache has lost.
    pub shards: u32,
    /// When it was made.
    #[serde(with = "crate::spelling::timestamp")]
    pub created_at: Timestamp,
}
