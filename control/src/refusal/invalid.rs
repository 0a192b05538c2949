//! What is wrong with an edit itself, whatever the catalog has.

use crate::catalog::{NameError, NodeError};
use crate::limits::{DISPLAY_NAME_BYTES_MAX, EDIT_SHARDS_MAX, GRACE_MAX};
use felix_core::limits::{AGE_SECONDS_MAX, SHARDS_PER_STREAM_MAX};
use felix_core::{Generation, ShardId};
use std::fmt;
use std::time::Duration;

/// What is wrong with an edit itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// A name breaks the rules.
    Name(NameError),
    /// A text for people that is too long, or not for people.
    DisplayName,
    /// A grace above [`GRACE_MAX`].
    Grace(Duration),
    /// A shard count out of bounds.
    Shards(u32),
    /// Shards cannot be taken away.
    FewerShards {
        /// As many as there are.
        had: u32,
        /// As many as there were to be.
        asked: u32,
    },
    /// A field is above its greatest.
    TooLarge {
        /// Which.
        field: &'static str,
        /// The greatest.
        max: u64,
    },
    /// Seconds out of bounds.
    SegmentSeconds(u64),
    /// A setting that a stream in memory cannot have.
    InMemory {
        /// Which.
        field: &'static str,
        /// Why not, and what then.
        why: &'static str,
    },
    /// A setting that cannot be changed.
    ForLife {
        /// Which.
        field: &'static str,
    },
    /// A node that cannot be.
    Node(NodeError),
    /// A generation that none could follow.
    Generation {
        /// Of what.
        shard: ShardId,
        /// The generation.
        generation: Generation,
    },
    /// One shard twice in an edit.
    ShardTwice(ShardId),
    /// An edit about too many shards at once.
    TooManyShards(usize),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(f, "{error}"),
            Self::DisplayName => write!(
                f,
                "display_name is too long or has control characters; give at most \
                 {DISPLAY_NAME_BYTES_MAX} bytes of text"
            ),
            Self::Grace(grace) => {
                let (given, max) = (grace.as_secs(), GRACE_MAX.as_secs());
                write!(f, "a grace of {given} s is too long; give at most {max} s")
            }
            Self::Shards(shards) => {
                write!(f, "{shards} shards; give 1 to {SHARDS_PER_STREAM_MAX}")
            }
            Self::FewerShards { had, asked } => write!(
                f,
                "shards cannot be taken away: there are {had}, and {asked} is fewer; give {had} or \
                 more, or make another stream and copy what is to be kept"
            ),
            Self::TooLarge { field, max } => {
                write!(
                    f,
                    "{field} is too large; give at most {max}, or \"unlimited\""
                )
            }
            Self::SegmentSeconds(seconds) => {
                write!(
                    f,
                    "segment_seconds is {seconds}; give 1 to {AGE_SECONDS_MAX}"
                )
            }
            Self::InMemory { field, why } => write!(
                f,
                "{field} does not go with a stream in memory (durable: false): {why}, or make it \
                 durable"
            ),
            Self::ForLife { field } => write!(
                f,
                "{field} is for life; delete the stream and make it anew to have it otherwise"
            ),
            Self::Node(error) => write!(f, "{error}"),
            Self::Generation { shard, generation } => write!(
                f,
                "shard {shard} at generation {generation}: none could follow; is its log damaged?"
            ),
            Self::ShardTwice(shard) => {
                write!(
                    f,
                    "shard {shard} is there twice; name each shard once in an edit"
                )
            }
            Self::TooManyShards(shards) => write!(
                f,
                "an edit about {shards} shards; divide it into parts of at most {EDIT_SHARDS_MAX}"
            ),
        }
    }
}

impl std::error::Error for Invalid {}
