//! Giving shards leaders and generations.

use super::{Steps, found};
use crate::catalog::{Assignment, Key, Record, State};
use crate::edit::{Opening, Reassignment};
use crate::limits::EDIT_SHARDS_MAX;
use crate::refusal::{Conflict, Invalid, Limit, Subject};
use crate::{Op, Refusal};
use felix_core::{BrokerId, Generation, ShardId};
use std::collections::HashSet;

pub(super) fn assign(state: &State, shards: &[Reassignment]) -> Result<Steps, Refusal> {
    check_once(shards.iter().map(|of| of.shard))?;
    let mut steps = Steps::with_capacity(shards.len());
    for of in shards {
        if let Some(leader) = of.leader {
            found(state.node(leader), Key::Node(leader))?;
        }
        let floor = floor(state, of.shard)?;
        let known = state.assignment(of.shard);
        let now = known.map(|(version, _)| version);
        if of.based_on != now {
            let subject = Box::new(Key::Assignment(of.shard).into());
            let based_on = of.based_on;
            return Err(Conflict::Stale {
                subject,
                based_on,
                now,
            }
            .into());
        }
        let seen = known.map_or(floor, |(_, known)| known.generation.max(floor));
        // Without a leader nothing is opened, and the next one is above what there was all the same.
        let generation = match of.leader {
            Some(_) => seen.next().ok_or(Limit::Generations(of.shard))?,
            None => seen,
        };
        steps.push(step(known.is_some(), of.shard, of.leader, generation));
    }
    Ok(steps)
}

pub(super) fn note(
    state: &State,
    leader: BrokerId,
    openings: &[Opening],
) -> Result<Steps, Refusal> {
    check_once(openings.iter().map(|of| of.shard))?;
    let mut steps = Steps::new();
    for Opening { shard, generation } in openings.iter().copied() {
        floor(state, shard)?;
        let known = state.assignment(shard).map(|(_, known)| known);
        let leads = known.and_then(|known| known.leader);
        let Some(known) = known.filter(|_| leads == Some(leader)) else {
            return Err(Conflict::NotLeader {
                shard,
                node: leader,
                leader: leads,
            }
            .into());
        };
        // From then on nobody else could ever lead it.
        if generation.next().is_none() {
            return Err(Invalid::Generation { shard, generation }.into());
        }
        if generation > known.generation {
            steps.push(step(true, shard, Some(leader), generation));
        }
    }
    Ok(steps)
}

fn step(
    is_known: bool,
    shard: ShardId,
    leader: Option<BrokerId>,
    generation: Generation,
) -> (Op, Record) {
    let assignment = Assignment {
        shard,
        leader,
        generation,
    };
    let op = if is_known { Op::Updated } else { Op::Created };
    (op, Record::Assignment(assignment))
}

/// What every opening of a shard is above, if there is such a shard.
fn floor(state: &State, shard: ShardId) -> Result<Generation, Refusal> {
    let stream = state.stream(shard.stream).map(|(_, stream)| stream);
    if let Some(stream) = stream.filter(|stream| stream.is_live() && stream.has(shard)) {
        return Ok(stream.generation_floor);
    }
    let cache = state.cache_by_id(shard.stream).map(|(_, cache)| cache);
    match cache.filter(|cache| shard.index < cache.shards) {
        // Clients are not told the generations of caches.
        Some(_) => Ok(Generation::new(0)),
        None => Err(Refusal::NotFound(Subject::Shard(shard))),
    }
}

fn check_once(shards: impl ExactSizeIterator<Item = ShardId>) -> Result<(), Invalid> {
    if shards.len() > EDIT_SHARDS_MAX {
        return Err(Invalid::TooManyShards(shards.len()));
    }
    let mut seen = HashSet::with_capacity(shards.len());
    for shard in shards {
        if !seen.insert(shard) {
            return Err(Invalid::ShardTwice(shard));
        }
    }
    Ok(())
}
