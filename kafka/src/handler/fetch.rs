//! Fetch: reading, and waiting for what is not there yet.

use super::asker::Asker;
use super::plan::AnsweredTopic;
use super::{Scope, in_turns};
use crate::answer::{Handled, Outcome};
use crate::codec::fetch::{Partition, Request as Body, RequestPartition, Response, Topic};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{Asked, shard_error};
use crate::in_flight::FetchEnd;
use crate::metrics::KafkaMetrics;
use crate::request::{Reply, Request};
use crate::room::FETCH_BYTES_WHEN_SHORT;
use felix_core::batch::{Codec, Header};
use felix_core::limits::FETCH_WAIT_MS_MAX;
use felix_core::shards::{Fetch, FetchPart, Fetched, LeftOut};
use felix_core::{Generation, Monotonic, Offset, ShardError, ShardId, Shards};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The first version that may carry zstd (KIP-110).
const ZSTD_FROM: i16 = 10;

/// Epoch of a request that begins a session.
const SESSION_BEGIN: i32 = 0;

/// Epoch of a request outside any session, or that ends one.
const SESSION_NONE: i32 = -1;

pub(super) fn begin<S: Shards>(
    scope: &Scope<'_, S>,
    request: Request,
) -> Result<Handled, DecodeError> {
    let allowed = Allowed {
        bytes_max: scope.fetch_bytes_max,
        poll_end: scope.poll_end.clone(),
        last_read: Rc::clone(&scope.session.last_read),
    };
    in_turns(read(Asker::of(scope), request, allowed))
}

/// What the connection lets one Fetch do.
struct Allowed {
    bytes_max: usize,
    poll_end: FetchEnd,
    last_read: Rc<Cell<Option<ShardId>>>,
}

/// Fails before it awaits anything, or not at all.
async fn read<S: Shards>(
    asker: Asker<S>,
    request: Request,
    allowed: Allowed,
) -> Result<Handled, DecodeError> {
    let reply = request.reply;
    let body = Body::decode(reply.version, &mut request.cursor())?;
    // There are no sessions. A client that asks for one is answered in full with session 0 and
    // carries on without (claim 134); one that goes on in a session, which it can only have from
    // another broker, is told to begin anew.
    if !matches!(body.session_epoch, SESSION_BEGIN | SESSION_NONE) {
        let code = ErrorCode::FetchSessionIdNotFound;
        return Ok(Handled::Done(respond(reply, code, Vec::new())));
    }
    let (plan, mut parts) = asker
        .plan(
            &body.topics,
            |partition| partition.index,
            |shard, partition| Ok((partition.index, part(shard, partition))),
            Partition::error,
        )
        .await;
    if parts.is_empty() {
        return Ok(Handled::Done(respond(
            reply,
            ErrorCode::None,
            plan.refused(),
        )));
    }
    let Allowed {
        bytes_max: bytes_allowed,
        poll_end,
        last_read,
    } = allowed;
    let turned = turn(&mut parts, last_read.get());
    let shards = several(&parts);
    let context = asker.context;
    let bytes_max = bytes(body.max_bytes).min(bytes_allowed);
    let fetch = Fetch {
        parts,
        // An error is news, so it is not kept until there are records elsewhere.
        bytes_min: if plan.has_refusals() {
            0
        } else {
            bytes(body.min_bytes)
        },
        bytes_max,
        first_bytes_max: bytes_max.max(FETCH_BYTES_WHEN_SHORT),
        deadline: deadline(context.clock.monotonic(), body.max_wait_ms),
    };
    let deadline = fetch.deadline;
    let fetched = context.shards.fetch(fetch, poll_end.clone());
    let answer = Box::pin(async move {
        let mut results = fetched.await;
        fetch_left_out(&mut results, &context.shards, poll_end, deadline).await;
        if let Some(last) = last_read_of(&shards, &results) {
            last_read.set(Some(last));
        }
        results.rotate_right(turned);
        let topics = plan.answer(results, |index, result| match result {
            Ok(fetched) => records(&context.metrics, reply.version, index, fetched),
            Err(error) => refused(index, &error),
        });
        respond(reply, ErrorCode::None, topics)
    });
    Ok(Handled::Polling { answer, bytes_max })
}

/// Has the parts begin behind the shard that was read last, where that is one of them; by how many
/// they were turned. A client that always asks in the same order, for more than its bytes allow,
/// would else be brought the first ones for ever.
fn turn(parts: &mut [FetchPart], last_read: Option<ShardId>) -> usize {
    let last = parts.iter().position(|part| Some(part.shard) == last_read);
    let turned = last.map_or(0, |last| (last + 1) % parts.len());
    parts.rotate_left(turned);
    turned
}

/// The shards of a Fetch of several, which it keeps while it waits.
fn several(parts: &[FetchPart]) -> Vec<ShardId> {
    let parts = if parts.len() > 1 { parts } else { &[] };
    parts.iter().map(|part| part.shard).collect()
}

/// The last of these shards that there are records of.
fn last_read_of(shards: &[ShardId], results: &[Result<Fetched, ShardError>]) -> Option<ShardId> {
    let has_records = |result: &Result<Fetched, ShardError>| {
        result
            .as_ref()
            .is_ok_and(|fetched| !fetched.batches.is_empty())
    };
    let last = results.iter().rposition(has_records)?;
    shards.get(last).copied()
}

/// Brings the batch that was left out because it is large, once it is paid for. Nothing else was
/// brought, so nothing is held meanwhile.
async fn fetch_left_out<S: Shards>(
    results: &mut [Result<Fetched, ShardError>],
    shards: &S,
    poll_end: FetchEnd,
    deadline: Monotonic,
) {
    let left_out = results.iter_mut().find_map(|result| {
        let left_out = *result.as_ref().ok()?.left_out.as_deref()?;
        Some((result, left_out))
    });
    let Some((result, LeftOut { part, bytes })) = left_out else {
        return;
    };
    poll_end.bill().pay(bytes).await;
    let fetch = Fetch {
        parts: vec![part],
        bytes_min: 0,
        bytes_max: bytes,
        first_bytes_max: bytes,
        deadline,
    };
    let mut again = shards.fetch(fetch, poll_end).await;
    // Should it have become larger meanwhile, the client asks again.
    *result = again.pop().expect("one result for the part asked");
}

/// A number of bytes that a client may get wrong: less than none is none.
fn bytes(wire: i32) -> usize {
    usize::try_from(wire).unwrap_or(0)
}

fn deadline(now: Monotonic, max_wait_ms: i32) -> Monotonic {
    let wait_ms = u64::try_from(max_wait_ms)
        .unwrap_or(0)
        .min(FETCH_WAIT_MS_MAX);
    now.after(Duration::from_millis(wait_ms))
}

fn part(shard: ShardId, asked: &RequestPartition) -> FetchPart {
    FetchPart {
        shard,
        // No log reaches the greatest offset, so what a negative one gets is the same: out of
        // range, with the ends of the log to choose from.
        offset: Offset::from_wire(asked.fetch_offset).unwrap_or(Offset::MAX),
        bytes_max: bytes(asked.max_bytes),
        generation: Generation::from_wire(asked.current_leader_epoch),
    }
}

fn records(metrics: &KafkaMetrics, version: i16, index: i32, fetched: Fetched) -> Partition {
    let mut partition = Partition {
        high_watermark: fetched.visible_end.to_wire(),
        last_stable_offset: fetched.visible_end.to_wire(),
        log_start_offset: fetched.log_start.to_wire(),
        ..Partition::error(index, ErrorCode::None)
    };
    if version < ZSTD_FROM && fetched.batches.iter().any(|piece| has_zstd(piece)) {
        partition.error_code = ErrorCode::UnsupportedCompressionType;
        return partition;
    }
    metrics
        .fetch_bytes
        .add(u64::try_from(fetched.bytes()).expect("a size fits 64 bits"));
    partition.records = fetched.batches;
    partition
}

/// Whether one of the batches in a piece is compressed with zstd.
fn has_zstd(mut piece: &[u8]) -> bool {
    while let Ok(header) = Header::read(piece) {
        if Codec::from_attributes(header.attributes) == Some(Codec::Zstd) {
            return true;
        }
        piece = piece.get(header.size()..).unwrap_or_default();
    }
    false
}

fn refused(index: i32, error: &ShardError) -> Partition {
    let mut partition = Partition::error(index, shard_error(error, Asked::Fetch));
    if let ShardError::OffsetOutOfRange {
        log_start,
        visible_end,
    } = error
    {
        // With the ends, so that a reader can choose where to go on (T62).
        partition.high_watermark = visible_end.to_wire();
        partition.last_stable_offset = visible_end.to_wire();
        partition.log_start_offset = log_start.to_wire();
    }
    partition
}

fn respond(
    reply: Reply,
    error_code: ErrorCode,
    mut topics: Vec<AnsweredTopic<Partition>>,
) -> Outcome {
    let topics = topics
        .iter_mut()
        .map(|topic| Topic {
            partitions: std::mem::take(&mut topic.partitions),
            name: &topic.name,
        })
        .collect();
    let response = Response {
        throttle_time_ms: 0,
        error_code,
        topics,
    };
    reply.answer(|version, to| response.encode(version, to))
}
