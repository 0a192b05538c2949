//! OffsetForLeaderEpoch: where the records of a leader epoch end, by which a consumer notices that
//! some it has read are gone (KIP-320).

use super::asker::Asker;
use super::plan::{AnsweredTopic, topics};
use super::{Scope, in_turns};
use crate::answer::{Handled, Outcome};
use crate::codec::offset_for_leader_epoch::{
    Partition, Request as Body, RequestPartition, Response,
};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{Asked, shard_error};
use crate::request::{Reply, Request};
use felix_core::shards::{OffsetAnswer, OffsetQuery, OffsetSpec};
use felix_core::{Generation, ShardError, ShardId, Shards};

pub(super) fn begin<S: Shards>(
    scope: &Scope<'_, S>,
    request: Request,
) -> Result<Handled, DecodeError> {
    in_turns(find(Asker::of(scope), request))
}

/// A partition that a shard is asked about.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    index: i32,
    /// Whether it was asked for an epoch that there can be.
    is_epoch: bool,
}

/// Fails before it awaits anything, or not at all.
async fn find<S: Shards>(asker: Asker<S>, request: Request) -> Result<Handled, DecodeError> {
    let reply = request.reply;
    let body = Body::decode(reply.version, &mut request.cursor())?;
    // As for a Fetch: who may not read has no use for it.
    let (plan, queries) = asker
        .plan(
            &body.topics,
            |partition| partition.index,
            |shard, partition| Ok(query(shard, partition)),
            Partition::error,
        )
        .await;
    if queries.is_empty() {
        return Ok(Handled::Done(respond(reply, &plan.refused())));
    }
    let ends = asker.context.shards.offsets(queries);
    Ok(Handled::Waiting(Box::pin(async move {
        respond(reply, &plan.answer(ends.await, answer))
    })))
}

fn query(shard: ShardId, partition: &RequestPartition) -> (Wanted, OffsetQuery) {
    let epoch = Generation::from_wire(partition.leader_epoch);
    let wanted = Wanted {
        index: partition.index,
        is_epoch: epoch.is_some(),
    };
    let query = OffsetQuery {
        shard,
        // Where there is nothing to find, the leader and its epoch are asked about all the same.
        spec: epoch.map_or(OffsetSpec::Latest, OffsetSpec::EndOf),
        generation: Generation::from_wire(partition.current_leader_epoch),
    };
    (wanted, query)
}

fn answer(wanted: Wanted, result: Result<OffsetAnswer, ShardError>) -> Partition {
    let Wanted { index, is_epoch } = wanted;
    match result {
        Ok(OffsetAnswer {
            found: Some((end, _)),
            generation,
        }) if is_epoch => Partition {
            index,
            error_code: ErrorCode::None,
            leader_epoch: generation.to_wire(),
            end_offset: end.to_wire(),
        },
        // No error, and no such epoch.
        Ok(_) => Partition::error(index, ErrorCode::None),
        Err(error) => Partition::error(index, shard_error(&error, Asked::Other)),
    }
}

fn respond(reply: Reply, answered: &[AnsweredTopic<Partition>]) -> Outcome {
    let response = Response {
        throttle_time_ms: 0,
        topics: topics(answered),
    };
    reply.answer(|version, to| response.encode(version, to))
}
