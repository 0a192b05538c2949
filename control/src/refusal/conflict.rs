//! What about the catalog is not as an edit supposes.

use crate::Version;
use crate::catalog::{HostPort, StreamPath};
use crate::refusal::Subject;
use felix_core::{BrokerId, ShardId, StreamId};
use std::fmt;

/// What about the catalog is not as an edit supposes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// There is one already.
    Exists(Subject),
    /// It is not as it was when the edit was thought of.
    Stale {
        /// What.
        subject: Box<Subject>,
        /// What the edit names; `None`: it was to be new.
        based_on: Option<Version>,
        /// What it is at; `None`: it is not there.
        now: Option<Version>,
    },
    /// Something is in it.
    NotEmpty {
        /// What.
        subject: Box<Subject>,
        /// What is in it.
        holds: Box<Subject>,
        /// What is in it is deleted and can be restored.
        restorable: bool,
    },
    /// The name of a deleted stream is another's by now.
    NameTaken(StreamPath),
    /// The stream was not deleted.
    NotDeleted(StreamPath),
    /// Its time is over.
    GraceOver(StreamPath),
    /// Its time is not over.
    GraceNotOver(StreamPath),
    /// Another stream or cache has this identity, or nobody may.
    IdTaken(StreamId),
    /// Another node can be reached there.
    AddressTaken {
        /// Where.
        address: HostPort,
        /// Whose it is.
        by: BrokerId,
    },
    /// Two nodes would be the same to Kafka clients.
    NodeIdsMeet {
        /// The one.
        node: BrokerId,
        /// The other.
        other: BrokerId,
    },
    /// A node leads something.
    Leads {
        /// Which node.
        node: BrokerId,
        /// Something that it leads.
        shard: ShardId,
    },
    /// Somebody else leads it, or nobody.
    NotLeader {
        /// What.
        shard: ShardId,
        /// Who it was to be.
        node: BrokerId,
        /// Who it is.
        leader: Option<BrokerId>,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(subject) => {
                write!(
                    f,
                    "there is a {subject} already; choose another name, or change that one"
                )
            }
            Self::Stale {
                subject,
                based_on,
                now,
            } => stale(f, subject, *based_on, *now),
            Self::NotEmpty {
                subject,
                holds,
                restorable,
            } => {
                let cure = if *restorable {
                    "which is deleted and can be restored; purge it first"
                } else {
                    "which is to be deleted first"
                };
                write!(f, "{subject} is not empty: it has {holds}, {cure}")
            }
            Self::NameTaken(path) => write!(
                f,
                "stream {path} cannot be restored: there is another of that name; delete that first"
            ),
            Self::NotDeleted(path) => {
                write!(
                    f,
                    "stream {path} is not deleted; there is nothing to restore or to purge"
                )
            }
            Self::GraceOver(path) => {
                write!(
                    f,
                    "stream {path} cannot be restored any more: its grace is over"
                )
            }
            Self::GraceNotOver(path) => write!(
                f,
                "stream {path} can still be restored; say \"early\" to purge it all the same"
            ),
            Self::IdTaken(id) => write!(f, "identity {id} is taken or reserved; draw another"),
            Self::AddressTaken { address, by } => write!(
                f,
                "address {address} is that of node {by} already; give each node its own"
            ),
            Self::NodeIdsMeet { node, other } => write!(
                f,
                "to Kafka clients nodes {node} and {other} would be the same (their ids are folded \
                 to 31 bits); give the new one another number"
            ),
            Self::Leads { node, shard } => {
                write!(
                    f,
                    "node {node} leads shards, {shard} for one; move them away first"
                )
            }
            Self::NotLeader {
                shard,
                node,
                leader,
            } => not_leader(f, *shard, *node, *leader),
        }
    }
}

fn not_leader(
    f: &mut fmt::Formatter<'_>,
    shard: ShardId,
    node: BrokerId,
    leader: Option<BrokerId>,
) -> fmt::Result {
    write!(f, "node {node} does not lead shard {shard}: ")?;
    match leader {
        Some(leader) => write!(f, "node {leader} does"),
        None => write!(f, "nobody does"),
    }
}

fn stale(
    f: &mut fmt::Formatter<'_>,
    subject: &Subject,
    based_on: Option<Version>,
    now: Option<Version>,
) -> fmt::Result {
    match (based_on, now) {
        (Some(based_on), Some(now)) => write!(
            f,
            "{subject} has changed: it is at version {now}, and the edit is based on {based_on}"
        ),
        (None, Some(now)) => write!(f, "{subject} is there already, at version {now}"),
        (_, None) => write!(f, "{subject} is not there any more"),
    }?;
    f.write_str("; look at it again before you change it")
}

impl std::error::Error for Conflict {}
