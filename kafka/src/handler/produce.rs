//! Produce: from a client's batches to their shards, and back with offsets.

use super::Scope;
use super::plan::{AnsweredTopic, Plan};
use crate::answer::{Handled, Outcome};
use crate::codec::produce::{
    BATCHES_FROM, Partition, RecordError, Request as Body, RequestTopic, Response, Topic,
};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{Asked, NO_IDEMPOTENCE, NO_TRANSACTIONS, batch_error, shard_error};
use crate::log::{Line, ProtocolLog};
use crate::metrics::KafkaMetrics;
use crate::request::{Reply, Request};
use crate::session::Session;
use bytes::BytesMut;
use felix_core::batch::Codec;
use felix_core::shards::{Acks, Append, Appended};
use felix_core::{Action, Batch, BatchError, ShardError, Shards};
use futures_util::future::LocalBoxFuture;
use std::borrow::Cow;
use std::rc::Rc;

/// The first version that may carry zstd (KIP-110).
const ZSTD_FROM: i16 = 7;

/// A partition whose batch is with its shard.
#[derive(Clone, Copy, Debug)]
struct Sent {
    index: i32,
    records: u64,
    bytes: usize,
}

/// Why a batch, or a whole request, is refused.
#[derive(Clone, Debug)]
struct Refusal {
    code: ErrorCode,
    sentence: Cow<'static, str>,
    /// The record at fault, where it is one.
    record: Option<u32>,
}

/// What is left to do once the shards have answered.
struct Rest {
    plan: Plan<Partition<'static>, Sent>,
    reply: Reply,
    /// Whether the client waits for an answer.
    answered: bool,
    session: Session,
    log: ProtocolLog,
    metrics: Rc<KafkaMetrics>,
}

pub(super) fn begin<S: Shards>(
    scope: &Scope<'_, S>,
    request: Request,
) -> Result<Handled, DecodeError> {
    let version = scope.reply.version;
    let body = Body::decode(version, request.frame, request.body)?;
    let acks = match body.acks {
        0 => Some(Acks::None),
        1 => Some(Acks::Leader),
        -1 => Some(Acks::All),
        _ => None,
    };
    let refusal = refusal_of_all(version, &body, acks);
    let Planned {
        plan,
        appends,
        fault,
    } = planned(scope, body.topics, refusal);
    let answered = body.acks != 0;
    if let (Some(fault), true) = (fault, answered) {
        scope.tell(Line::Records, &fault);
    }
    let rest = Rest {
        plan,
        reply: scope.reply,
        answered,
        session: scope.session.clone(),
        log: scope.context.log.clone(),
        metrics: Rc::clone(&scope.context.metrics),
    };
    match acks {
        Some(acks) if !appends.is_empty() => {
            let append = scope.context.shards.append(appends, acks);
            #[expect(clippy::async_yields_async, reason = "queued first, committed later")]
            let hand_over = async move {
                let committed = append.await;
                let answer: LocalBoxFuture<'static, Outcome> =
                    Box::pin(async move { rest.finish(committed.await) });
                answer
            };
            Ok(Handled::HandOver(Box::pin(hand_over)))
        }
        Some(_) | None => Ok(Handled::Done(rest.finish(Vec::new()))),
    }
}

/// A request taken apart.
struct Planned {
    plan: Plan<Partition<'static>, Sent>,
    /// One for each partition of the plan that is not refused, in order.
    appends: Vec<Append>,
    /// The first thing the producer did wrong, for the log.
    fault: Option<String>,
}

/// Sorts out what goes to which shard. `refusal` is what is wrong with the request as a whole.
fn planned<S: Shards>(
    scope: &Scope<'_, S>,
    topics: Vec<RequestTopic>,
    refusal: Option<Refusal>,
) -> Planned {
    let catalog = scope.context.catalog.current();
    let mut plan = Plan::new();
    let mut appends = Vec::new();
    let mut fault = refusal.as_ref().map(|refusal| refusal.sentence.to_string());
    for topic in topics {
        let access = scope.access(&catalog, &topic.name, Action::Publish);
        plan.topic(topic.name, topic.partitions, |topic, partition| {
            let index = partition.index;
            if let Some(refusal) = &refusal {
                return Err(refusal.answer(index));
            }
            let shard = access
                .shard(index)
                .map_err(|code| Partition::error(index, code, None))?;
            let batch = batch(partition.records, scope.reply.version).map_err(|refusal| {
                fault.get_or_insert_with(|| {
                    format!("{topic} partition {index}: {}", refusal.sentence)
                });
                refusal.answer(index)
            })?;
            let sent = Sent {
                index,
                records: batch.offsets(),
                bytes: batch.size(),
            };
            appends.push(Append { shard, batch });
            Ok(sent)
        });
    }
    Planned {
        plan,
        appends,
        fault,
    }
}

/// What is wrong with all of a request, before its batches are looked into.
fn refusal_of_all(version: i16, body: &Body, acks: Option<Acks>) -> Option<Refusal> {
    let (code, sentence) = if version < BATCHES_FROM {
        // These versions carry only the message formats before v2.
        (
            ErrorCode::UnsupportedForMessageFormat,
            "message formats v0 and v1 are not supported: use v2 (Kafka 0.11 or later)",
        )
    } else if body.transactional_id.is_some() {
        (
            ErrorCode::TransactionalIdAuthorizationFailed,
            NO_TRANSACTIONS,
        )
    } else if acks.is_none() {
        (
            ErrorCode::InvalidRequiredAcks,
            "acks must be 0, 1 or all (-1)",
        )
    } else {
        return None;
    };
    Some(Refusal {
        code,
        sentence: sentence.into(),
        record: None,
    })
}

/// The batch of a partition, if it keeps all rules.
fn batch(records: Option<BytesMut>, version: i16) -> Result<Batch, Refusal> {
    let batch = Batch::parse(records.unwrap_or_default()).map_err(|error| Refusal::of(&error))?;
    let (code, sentence) = if batch.header().has_producer_id() {
        // Taking the records and ignoring the numbers would promise what is not kept.
        (ErrorCode::ClusterAuthorizationFailed, NO_IDEMPOTENCE)
    } else if batch.codec() == Codec::Zstd && version < ZSTD_FROM {
        (
            ErrorCode::UnsupportedCompressionType,
            "zstd needs Produce version 7 or later",
        )
    } else {
        return Ok(batch);
    };
    Err(Refusal {
        code,
        sentence: sentence.into(),
        record: None,
    })
}

impl Refusal {
    fn of(error: &BatchError) -> Self {
        let sentence = if matches!(error, BatchError::Transactional) {
            NO_TRANSACTIONS.into()
        } else {
            error.to_string().into()
        };
        let record = if let BatchError::Record { index, fault: _ } = error {
            Some(*index)
        } else {
            None
        };
        Self {
            code: batch_error(error),
            sentence,
            record,
        }
    }

    fn answer(&self, index: i32) -> Partition<'static> {
        let record = self.record.and_then(|record| i32::try_from(record).ok());
        let record_errors = record.map(|batch_index| RecordError {
            batch_index,
            message: Some(self.sentence.clone()),
        });
        Partition {
            record_errors: record_errors.into_iter().collect(),
            ..Partition::error(index, self.code, Some(self.sentence.clone()))
        }
    }
}

impl Rest {
    fn finish(self, results: Vec<Result<Appended, ShardError>>) -> Outcome {
        let Self {
            plan,
            reply,
            answered,
            session,
            log,
            metrics,
        } = self;
        let topics = plan.answer(results, |sent, result| answer(&metrics, sent, result));
        if answered {
            return respond(reply, topics);
        }
        // acks=0: no byte goes back, and closing is the one way to tell that records were lost
        // (T63).
        let failed = topics.iter().find_map(|topic| {
            let mut partitions = topic.partitions.iter();
            let failed = partitions.find(|partition| partition.error_code != ErrorCode::None)?;
            Some((&topic.name, failed))
        });
        let Some((topic, failed)) = failed else {
            return Outcome::Silence;
        };
        let reason = format!(
            "acks=0, and {topic} partition {} failed with {:?}: {}",
            failed.index,
            failed.error_code,
            failed
                .error_message
                .as_deref()
                .unwrap_or("no such partition for this client"),
        );
        log.tell(Line::Lost, &session, &reply, &reason);
        Outcome::Close
    }
}

fn answer(
    metrics: &KafkaMetrics,
    sent: Sent,
    result: Result<Appended, ShardError>,
) -> Partition<'static> {
    match result {
        Ok(appended) => {
            metrics.produce_records.add(sent.records);
            metrics
                .produce_bytes
                .add(u64::try_from(sent.bytes).expect("a size fits 64 bits"));
            Partition {
                base_offset: appended.base_offset.to_wire(),
                log_append_time_ms: appended.append_time.map_or(-1, |time| time.0),
                log_start_offset: appended.log_start.to_wire(),
                ..Partition::error(sent.index, ErrorCode::None, None)
            }
        }
        Err(error) => {
            let code = shard_error(&error, Asked::Other);
            Partition::error(sent.index, code, Some(error.to_string().into()))
        }
    }
}

fn respond(reply: Reply, mut topics: Vec<AnsweredTopic<Partition<'static>>>) -> Outcome {
    let topics = topics
        .iter_mut()
        .map(|topic| Topic {
            partitions: std::mem::take(&mut topic.partitions),
            name: &topic.name,
        })
        .collect();
    let response = Response {
        topics,
        throttle_time_ms: 0,
        node_endpoints: Vec::new(),
    };
    reply.answer(|version, to| response.encode(version, to))
}
