//! ListOffsets: the ends of a log, and offsets by time.

use super::asker::Asker;
use super::plan::{AnsweredTopic, topics};
use super::{Scope, in_turns};
use crate::answer::{Handled, Outcome};
use crate::codec::list_offsets::{
    EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP, Partition, Request as Body, RequestPartition,
    Response,
};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{Asked, shard_error};
use crate::request::{Reply, Request};
use felix_core::shards::{OffsetAnswer, OffsetQuery, OffsetSpec};
use felix_core::{Generation, ShardError, ShardId, Shards, Timestamp};

/// The first version with the record of the greatest timestamp (KIP-734).
const MAX_TIMESTAMP_FROM: i16 = 7;

/// The first version with the first offset on the broker's own disk (KIP-405).
const EARLIEST_LOCAL_FROM: i16 = 8;

pub(super) fn begin<S: Shards>(
    scope: &Scope<'_, S>,
    request: Request,
) -> Result<Handled, DecodeError> {
    in_turns(find(Asker::of(scope), request))
}

/// Fails before it awaits anything, or not at all.
async fn find<S: Shards>(asker: Asker<S>, request: Request) -> Result<Handled, DecodeError> {
    let reply = request.reply;
    let body = Body::decode(reply.version, &mut request.cursor())?;
    let (plan, queries) = asker
        .plan(
            &body.topics,
            |partition| partition.index,
            |shard, partition| Ok((partition.index, query(shard, partition, reply.version)?)),
            Partition::error,
        )
        .await;
    if queries.is_empty() {
        return Ok(Handled::Done(respond(reply, &plan.refused())));
    }
    let offsets = asker.context.shards.offsets(queries);
    Ok(Handled::Waiting(Box::pin(async move {
        respond(reply, &plan.answer(offsets.await, answer))
    })))
}

fn query(
    shard: ShardId,
    partition: &RequestPartition,
    version: i16,
) -> Result<OffsetQuery, ErrorCode> {
    Ok(OffsetQuery {
        shard,
        spec: spec(partition.timestamp, version)?,
        generation: Generation::from_wire(partition.current_leader_epoch),
    })
}

/// What a timestamp of this version means.
fn spec(timestamp: i64, version: i16) -> Result<OffsetSpec, ErrorCode> {
    match timestamp {
        LATEST => Ok(OffsetSpec::Latest),
        EARLIEST => Ok(OffsetSpec::Earliest),
        MAX_TIMESTAMP if version >= MAX_TIMESTAMP_FROM => Ok(OffsetSpec::MaxTimestamp),
        // Everything we have is on our own disk.
        EARLIEST_LOCAL if version >= EARLIEST_LOCAL_FROM => Ok(OffsetSpec::Earliest),
        0.. => Ok(OffsetSpec::AtOrAfter(Timestamp(timestamp))),
        _ => Err(ErrorCode::UnsupportedVersion),
    }
}

fn answer(index: i32, result: Result<OffsetAnswer, ShardError>) -> Partition {
    match result {
        Ok(OffsetAnswer {
            found: Some((offset, timestamp)),
            generation,
        }) => Partition {
            index,
            error_code: ErrorCode::None,
            timestamp: timestamp.map_or(-1, |timestamp| timestamp.0),
            offset: offset.to_wire(),
            leader_epoch: generation.to_wire(),
        },
        // No error, and nothing found: both numbers say so, or the Java client throws (T39).
        Ok(OffsetAnswer {
            found: None,
            generation: _,
        }) => Partition::error(index, ErrorCode::None),
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
