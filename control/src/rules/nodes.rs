//! Making brokers known, and forgetting them.

use super::{Steps, check_version, found};
use crate::catalog::{Key, Node, Record, State};
use crate::refusal::{Conflict, Invalid};
use crate::{Op, Refusal, Version};
use felix_core::BrokerId;

pub(super) fn register(
    state: &State,
    node: &Node,
    based_on: Option<Version>,
) -> Result<Steps, Refusal> {
    node.check().map_err(Invalid::Node)?;
    let known = state.node(node.id);
    // A broker that starts again as it was says nothing new, whatever it has seen.
    if known.is_some_and(|(_, known)| known == node) {
        return Ok(Steps::new());
    }
    let now = known.map(|(version, _)| version);
    if based_on != now {
        let subject = Box::new(Key::Node(node.id).into());
        return Err(Conflict::Stale {
            subject,
            based_on,
            now,
        }
        .into());
    }
    for (_, other) in state.nodes().filter(|(_, other)| other.id != node.id) {
        node.check_beside(other)?;
    }
    let op = if known.is_some() {
        Op::Updated
    } else {
        Op::Created
    };
    Ok(vec![(op, Record::Node(node.clone()))])
}

pub(super) fn remove(state: &State, id: BrokerId, based_on: Version) -> Result<Steps, Refusal> {
    let (version, node) = found(state.node(id), Key::Node(id))?;
    check_version(Key::Node(id), based_on, version)?;
    // Shards of a deleted stream are led by nobody, whatever was noted last, and cannot be moved.
    let is_deleted = |id| {
        state
            .stream(id)
            .is_some_and(|(_, stream)| !stream.is_live())
    };
    let led = state.assignments().filter(|(_, of)| of.leader == Some(id));
    let mut led = led.filter(|(_, of)| !is_deleted(of.shard.stream));
    match led.next() {
        Some((_, of)) => Err(Conflict::Leads {
            node: id,
            shard: of.shard,
        }
        .into()),
        None => Ok(vec![(Op::Deleted, Record::Node(node.clone()))]),
    }
}
