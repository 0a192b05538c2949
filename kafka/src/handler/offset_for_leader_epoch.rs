//! OffsetForLeaderEpoch: where the records of a leader epoch end, by which a consumer notices that
//! some it has read are gone (KIP-320).

use super::asker::Asker;
use super::plan::{AnsweredTopic, Plan};
use super::{Scope, in_turns};
use crate::answer::{Handled, Outcome};
use crate::codec::offset_for_leader_epoch::{
    Partition, Request as Body, RequestPartition, Response, Topic,
};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{Asked, shard_error};
use crate::request::{Reply, Request};
use felix_core::shards::{OffsetAnswer, OffsetQuery, OffsetSpec};
use felix_core::{Action, Generation, ShardError, ShardId, Shards};

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
    let named = body.topics.iter().map(|topic| {
        let indexes = topic.partitions.iter().map(|partition| partition.index);
        (topic.name, indexes)
    });
    // As for a Fetch: who may not read has no use for it.
    let meant = asker.meant(Action::Subscribe, named).await;
    let mut plan = Plan::new();
    let mut queries = Vec::new();
    for (topic, meant) in body.topics.iter().zip(meant) {
        plan.topic(topic.name);
        asker.step().await;
        for (partition, shard) in topic.partitions.iter().zip(meant) {
            plan.partition(match shard {
                Ok(shard) => {
                    let (wanted, query) = query(shard, partition);
                    queries.push(query);
                    Ok(wanted)
                }
                Err(code) => Err(Partition::error(partition.index, code)),
            });
            asker.step().await;
        }
    }
    if queries.is_empty() {
        return Ok(Handled::Done(respond(reply, &plan.refused())));
    }
    let ends = asker.context.shards.offsets(queries);
    Ok(Handled::Waiting(Box::pin(async move {
        let topics = plan.answer(ends.await, answer);
        respond(reply, &topics)
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

fn respond(reply: Reply, topics: &[AnsweredTopic<Partition>]) -> Outcome {
    let topics = topics
        .iter()
        .map(|topic| Topic {
            name: &topic.name,
            partitions: topic.partitions.clone(),
        })
        .collect();
    let response = Response {
        throttle_time_ms: 0,
        topics,
    };
    reply.answer(|version, to| response.encode(version, to))
}
