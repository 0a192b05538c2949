//! Produce: from a client's batches to their shards, and back with offsets.
//!
//! Parsing takes time: it goes on turn by turn, large batches are parsed beside the core, and later
//! requests of the connection wait meanwhile. Then all batches go to their shards together.

use super::Scope;
use super::plan::{AnsweredTopic, Plan};
use super::repeated::repeated;
use crate::answer::{Handled, Outcome};
use crate::codec::produce::{
    BATCHES_FROM, Partition, RecordError, Request as Body, RequestPartition, RequestTopic,
    Response, Topic,
};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{Asked, NO_IDEMPOTENCE, NO_TRANSACTIONS, batch_error, shard_error};
use crate::log::{Line, ProtocolLog};
use crate::metrics::KafkaMetrics;
use crate::request::{Reply, Request};
use crate::session::Session;
use crate::turn::Turn;
use bytes::BytesMut;
use felix_core::batch::{Codec, ParsedOnCore};
use felix_core::blocking::{self, Blocking};
use felix_core::limits::{BATCH_DECOMPRESSED_BYTES_MAX, REQUEST_DECOMPRESSED_BYTES_MAX};
use felix_core::shards::{Acks, Append, Appended};
use felix_core::{Action, Batch, BatchError, ShardError, ShardId, Shards};
use std::borrow::Cow;
use std::rc::Rc;

/// The first version that may carry zstd (KIP-110).
const ZSTD_FROM: i16 = 7;

/// What a partition takes of a turn beside its bytes.
const PARTITION_COST_BYTES: usize = 64;

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
    let answered = body.acks != 0;
    if let (Some(refusal), true) = (&refusal, answered) {
        scope.tell(Line::Records, &refusal.sentence);
    }
    let resolved = resolved(scope, body.topics, refusal.as_ref());
    let rest = Rest {
        plan: Plan::new(),
        reply: scope.reply,
        answered,
        session: scope.session.clone(),
        log: scope.context.log.clone(),
        metrics: Rc::clone(&scope.context.metrics),
    };
    let mut parser = Parser {
        version,
        blocking: Rc::clone(&scope.context.blocking),
        turn: scope.turn.clone(),
        work_bytes_left: REQUEST_DECOMPRESSED_BYTES_MAX,
    };
    let context = Rc::clone(scope.context);
    let hand_over = async move {
        let (rest, appends) = rest.with_batches(resolved, &mut parser).await;
        match acks {
            Some(acks) if !appends.is_empty() => {
                let committed = context.shards.append(appends, acks).await;
                Handled::Waiting(Box::pin(async move { rest.finish(committed.await) }))
            }
            Some(_) | None => Handled::Done(rest.finish(Vec::new())),
        }
    };
    Ok(Handled::First(Box::pin(hand_over)))
}

/// A topic whose partitions have their shards, or their refusals.
struct ResolvedTopic {
    name: String,
    partitions: Vec<Result<Unparsed, Partition<'static>>>,
}

/// A partition whose batch has not been looked into.
struct Unparsed {
    index: i32,
    shard: ShardId,
    records: BytesMut,
}

/// Finds out what goes to which shard. `refusal` is what is wrong with the request as a whole.
fn resolved<S: Shards>(
    scope: &Scope<'_, S>,
    topics: Vec<RequestTopic>,
    refusal: Option<&Refusal>,
) -> Vec<ResolvedTopic> {
    let catalog = scope.context.catalog.current();
    let resolve = |topic: RequestTopic| {
        let access = scope.access(&catalog, &topic.name, Action::Publish);
        let resolve = |partition: RequestPartition| {
            let index = partition.index;
            if let Some(refusal) = refusal {
                return Err(refusal.answer(index));
            }
            let shard = access.shard(index);
            Ok(Unparsed {
                index,
                shard: shard.map_err(|code| Partition::error(index, code, None))?,
                records: partition.records.unwrap_or_default(),
            })
        };
        ResolvedTopic {
            partitions: topic.partitions.into_iter().map(resolve).collect(),
            name: topic.name,
        }
    };
    let mut resolved: Vec<_> = topics.into_iter().map(resolve).collect();
    refuse_repeated(&mut resolved);
    resolved
}

/// Refuses the shards that are named more than once, every time.
fn refuse_repeated(topics: &mut [ResolvedTopic]) {
    if let [topic] = &*topics
        && topic.partitions.len() == 1
    {
        return;
    }
    let unparsed = topics.iter().flat_map(|topic| &topic.partitions).flatten();
    let repeated = repeated(unparsed.map(|unparsed| unparsed.shard));
    if repeated.is_empty() {
        return;
    }
    let refusal = Refusal {
        code: ErrorCode::InvalidRequest,
        sentence: "a partition may be named once in a request".into(),
        record: None,
    };
    for partition in topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if let Ok(Unparsed { index, shard, .. }) = partition
            && repeated.contains(shard)
        {
            *partition = Err(refusal.answer(*index));
        }
    }
}

/// Parses the batches of one request, one after another, without holding the core.
struct Parser {
    version: i16,
    blocking: Rc<dyn Blocking>,
    turn: Turn,
    /// Bytes of decompressed records that the request may still have.
    work_bytes_left: usize,
}

impl Parser {
    /// The batch of a partition, if it keeps all rules.
    async fn batch(&mut self, records: BytesMut) -> Result<Batch, Refusal> {
        self.turn.room().await;
        let work_bytes_max = self.work_bytes_left.min(BATCH_DECOMPRESSED_BYTES_MAX);
        if work_bytes_max == 0 {
            return Err(Refusal::of_request_size());
        }
        let bytes = records.len() + PARTITION_COST_BYTES;
        let parsed = match Batch::parse_on_core(records, work_bytes_max) {
            ParsedOnCore::Done(parsed) => {
                self.turn.spend(bytes + parsed.work_bytes);
                parsed
            }
            ParsedOnCore::Heavy { bytes, wasted } => {
                self.turn.spend(wasted);
                let parse = move || Batch::parse_within(bytes, work_bytes_max);
                blocking::run(&*self.blocking, parse).await
            }
        };
        self.work_bytes_left -= parsed.work_bytes;
        let of_request = work_bytes_max < BATCH_DECOMPRESSED_BYTES_MAX;
        match parsed.result {
            Ok(batch) => check(batch, self.version),
            Err(BatchError::DecompressedTooLarge { bytes_max: _ }) if of_request => {
                Err(Refusal::of_request_size())
            }
            Err(error) => Err(Refusal::of(&error)),
        }
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

/// The batch, if it asks nothing that is not kept.
fn check(batch: Batch, version: i16) -> Result<Batch, Refusal> {
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

    /// The batches of the request are too large together.
    fn of_request_size() -> Self {
        Self {
            code: ErrorCode::MessageTooLarge,
            sentence: format!(
                "the batches of this request decompress to more than \
                 {REQUEST_DECOMPRESSED_BYTES_MAX} bytes"
            )
            .into(),
            record: None,
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
    /// Parses the batches. There is one append for each partition of the plan that is not refused,
    /// in order.
    async fn with_batches(
        mut self,
        topics: Vec<ResolvedTopic>,
        parser: &mut Parser,
    ) -> (Self, Vec<Append>) {
        let mut appends = Vec::new();
        // The first thing the producer did wrong, for the log.
        let mut fault = None;
        for ResolvedTopic { name, partitions } in topics {
            let mut planned = Vec::with_capacity(partitions.len());
            for partition in partitions {
                let Unparsed {
                    index,
                    shard,
                    records,
                } = match partition {
                    Ok(unparsed) => unparsed,
                    Err(answer) => {
                        planned.push(Err(answer));
                        continue;
                    }
                };
                planned.push(match parser.batch(records).await {
                    Ok(batch) => {
                        let sent = Sent {
                            index,
                            records: batch.offsets(),
                            bytes: batch.size(),
                        };
                        appends.push(Append { shard, batch });
                        Ok(sent)
                    }
                    Err(refusal) => {
                        fault.get_or_insert_with(|| {
                            format!("{name} partition {index}: {}", refusal.sentence)
                        });
                        Err(refusal.answer(index))
                    }
                });
            }
            self.plan.topic(name, planned, |_, planned| planned);
        }
        if let (Some(fault), true) = (fault, self.answered) {
            let Self { session, reply, .. } = &self;
            self.log.tell(Line::Records, session, reply, &fault);
        }
        (self, appends)
    }

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
            words(failed),
        );
        log.tell(Line::Lost, &session, &reply, &reason);
        Outcome::Close
    }
}

/// Why a partition failed, for the log.
fn words<'a>(failed: &'a Partition<'_>) -> &'a str {
    match (&failed.error_message, failed.error_code) {
        (Some(message), _) => message,
        (None, ErrorCode::TopicAuthorizationFailed) => {
            "the connection is not authenticated, or may not publish to the topic"
        }
        (None, ErrorCode::UnknownTopicOrPartition) => "no such partition for this client",
        (None, _) => "the code says it",
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
