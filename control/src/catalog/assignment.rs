//! Who leads a shard.

use felix_core::{BrokerId, Generation, ShardId};
use serde::{Deserialize, Serialize};

/// The leader of a shard, and since which opening. A shard without one was never led.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// The shard, of a stream or a cache.
    #[serde(with = "crate::spelling::shard_id")]
    pub shard: ShardId,
    /// Who leads it; `None`: nobody, for now.
    #[serde(with = "crate::spelling::broker_if_any")]
    pub leader: Option<BrokerId>,
    /// The greatest number that an opening of it has. It only grows.
    #[serde(with = "crate::spelling::generation")]
    pub generation: Generation,
}
