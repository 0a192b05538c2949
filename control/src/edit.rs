//! What somebody wants changed.

use crate::catalog::{
    CachePath, NamespacePath, Node, Quota, StreamPath, StreamSettings, TenantName,
};
use crate::{Version, spelling};
use felix_core::{BrokerId, Generation, ShardId, StreamId, Timestamp};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// Identity of an edit: 128 random bits. An edit that is brought again, because nobody knows
/// whether it arrived, is made once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EditId(pub u128);

impl EditId {
    /// A new one.
    ///
    /// # Errors
    /// The kernel gives no randomness.
    pub fn draw() -> Result<Self, getrandom::Error> {
        draw().map(Self)
    }
}

/// A new identity for a stream or a cache. Kafka reserves 0 (no topic) and 1 (its metadata topic),
/// and so do we.
///
/// # Errors
/// The kernel gives no randomness.
pub fn draw_stream_id() -> Result<StreamId, getrandom::Error> {
    loop {
        let id = draw()?;
        if id > 1 {
            return Ok(StreamId(id));
        }
    }
}

/// 128 random bits.
///
/// # Errors
/// The kernel gives none.
pub(crate) fn draw() -> Result<u128, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(u128::from_be_bytes(bytes))
}

impl fmt::Display for EditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for EditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EditId({self})")
    }
}

impl Serialize for EditId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EditId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        spelling::hex(&text)
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is not 32 hexadecimal digits")))
    }
}

/// An edit on its way to a store. Whatever the outcome depends on, time and chance included, is in
/// it or in the catalog: everybody who makes it of the same catalog makes the same of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// Which.
    pub id: EditId,
    /// When.
    #[serde(with = "crate::spelling::timestamp")]
    pub at: Timestamp,
    /// What.
    pub edit: Edit,
}

impl Proposal {
    /// A new one.
    ///
    /// # Errors
    /// The kernel gives no randomness.
    pub fn new(edit: Edit, at: Timestamp) -> Result<Self, getrandom::Error> {
        let id = EditId::draw()?;
        Ok(Self { id, at, edit })
    }
}

/// What somebody wants changed. Whoever changes a thing names the version of it that they have
/// seen, and is refused where it has changed since.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// Make a tenant, and its namespace `default`.
    CreateTenant {
        /// Its name.
        name: TenantName,
        /// What people read; may be empty.
        display_name: String,
    },
    /// Remove one that has nothing, except an empty namespace `default`.
    DeleteTenant {
        /// Its name.
        name: TenantName,
        /// As it was seen.
        based_on: Version,
    },
    /// Make a namespace.
    CreateNamespace {
        /// Where.
        path: NamespacePath,
        /// What people read; may be empty.
        display_name: String,
    },
    /// Remove one that is empty.
    DeleteNamespace {
        /// Which.
        path: NamespacePath,
        /// As it was seen.
        based_on: Version,
    },
    /// Make a stream.
    CreateStream {
        /// What it is called.
        path: StreamPath,
        /// Its identity, as [`draw_stream_id`] gives it.
        #[serde(with = "crate::spelling::stream_id")]
        id: StreamId,
        /// What it is set to.
        settings: StreamSettings,
    },
    /// Set one to something else.
    AlterStream {
        /// Which.
        path: StreamPath,
        /// As it was seen.
        based_on: Version,
        /// All of its settings.
        settings: StreamSettings,
    },
    /// Take one away. Until the grace is over it can be restored.
    DeleteStream {
        /// Which.
        path: StreamPath,
        /// As it was seen.
        based_on: Version,
        /// For how long it can be restored.
        grace: Duration,
    },
    /// Bring one back.
    RestoreStream {
        /// Which: there may be several that had the name.
        #[serde(with = "crate::spelling::stream_id")]
        id: StreamId,
        /// As it was seen.
        based_on: Version,
    },
    /// Have a deleted one gone for good.
    PurgeStream {
        /// Which.
        #[serde(with = "crate::spelling::stream_id")]
        id: StreamId,
        /// As it was seen.
        based_on: Version,
        /// Before its grace is over, too.
        early: bool,
    },
    /// Make a cache.
    CreateCache {
        /// What it is called.
        path: CachePath,
        /// Its identity, as [`draw_stream_id`] gives it.
        #[serde(with = "crate::spelling::stream_id")]
        id: StreamId,
        /// What people read; may be empty.
        display_name: String,
        /// Its shards.
        shards: u32,
    },
    /// Change one.
    AlterCache {
        /// Which.
        path: CachePath,
        /// As it was seen.
        based_on: Version,
        /// What people read; may be empty.
        display_name: String,
        /// Its shards: as many as there are, or more.
        shards: u32,
    },
    /// Remove one, for good.
    DeleteCache {
        /// Which.
        path: CachePath,
        /// As it was seen.
        based_on: Version,
    },
    /// Make a broker known, or known otherwise.
    RegisterNode {
        /// All of it.
        node: Node,
        /// As it was seen; `None`: it is new, or starts again as it was.
        based_on: Option<Version>,
    },
    /// Forget one that leads nothing.
    RemoveNode {
        /// Which.
        #[serde(with = "crate::spelling::broker_id")]
        id: BrokerId,
        /// As it was seen.
        based_on: Version,
    },
    /// Give shards other leaders, each with a generation above all that were.
    AssignShards(
        /// All or none of them; at most one for each shard.
        Vec<Reassignment>,
    ),
    /// A leader opened shards at greater generations than it was given.
    NoteGenerations {
        /// Who leads them.
        #[serde(with = "crate::spelling::broker_id")]
        leader: BrokerId,
        /// All or none of them; at most one for each shard.
        openings: Vec<Opening>,
    },
    /// Bound what a tenant may use.
    SetQuota {
        /// All of it.
        quota: Quota,
        /// As it was seen; `None`: there is none yet.
        based_on: Option<Version>,
    },
}

/// Another leader for a shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reassignment {
    /// Which.
    #[serde(with = "crate::spelling::shard_id")]
    pub shard: ShardId,
    /// Who; `None`: nobody.
    #[serde(with = "crate::spelling::broker_if_any")]
    pub leader: Option<BrokerId>,
    /// Its assignment as it was seen; `None`: it has none yet.
    pub based_on: Option<Version>,
}

/// An opening of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// Which.
    #[serde(with = "crate::spelling::shard_id")]
    pub shard: ShardId,
    /// At which generation.
    #[serde(with = "crate::spelling::generation")]
    pub generation: Generation,
}
