//! Produce: from a client's batches to their shards, and back with offsets.
//!
//! Parsing takes time: it goes on turn by turn, large batches are parsed beside the core, and later
//! requests of the connection wait meanwhile. Then all batches go to their shards together.

use super::Scope;
use super::asker::Asker;
use super::plan::{AnsweredTopic, Plan};
use super::uncharged::Uncharged;
use crate::answer::{Handled, Outcome};
use crate::codec::produce::{
    BATCHES_FROM, Partition, RecordError, Request as Body, RequestTopic, Response, Topic,
};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{Asked, NO_TRANSACTIONS, batch_error, shard_error};
use crate::log::{Line, ProtocolLog};
use crate::metrics::KafkaMetrics;
use crate::mute::Throttle;
use crate::request::{Reply, Request};
use crate::session::Session;
use crate::turn::Turn;
use bytes::BytesMut;
use felix_core::batch::{Codec, ParsedOnCore};
use felix_core::blocking::{self, Blocking};
use felix_core::limits::{BATCH_DECOMPRESSED_BYTES_MAX, REQUEST_DECOMPRESSED_BYTES_MAX};
use felix_core::quota::PublishQuota;
use felix_core::shards::{Acks, Append, Appended};
use felix_core::{Action, Batch, BatchError, ShardError, Shards};
use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

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
    quota: Option<Rc<dyn PublishQuota>>,
    /// What the shards were given.
    uncharged: Option<Uncharged>,
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
    // Nobody waits for the answer to acks=0, and refusing its batches loses them.
    let deadline = answered.then(|| {
        let wait = u64::try_from(body.timeout_ms).unwrap_or_default();
        let now = scope.context.clock.monotonic();
        now.after(Duration::from_millis(wait))
    });
    if let (Some(refusal), true) = (&refusal, answered) {
        scope.tell(Line::Records, &refusal.sentence);
    }
    let rest = Rest {
        plan: Plan::new(),
        reply: scope.reply,
        answered,
        session: scope.session.clone(),
        log: scope.context.log.clone(),
        metrics: Rc::clone(&scope.context.metrics),
        quota: scope.context.quota.clone(),
        uncharged: None,
    };
    let mut parser = Parser {
        version,
        blocking: Rc::clone(&scope.context.blocking),
        turn: scope.turn.clone(),
        work_bytes_left: REQUEST_DECOMPRESSED_BYTES_MAX,
    };
    let asker = Asker::of(scope);
    let hand_over = async move {
        let (mut rest, appends) = match refusal {
            Some(refusal) => (
                rest.refused(&asker, body.topics, &refusal).await,
                Vec::new(),
            ),
            None => rest.with_batches(&asker, body.topics, &mut parser).await,
        };
        match acks {
            Some(acks) if !appends.is_empty() => {
                rest.hand_over(&appends);
                let shards = &asker.context.shards;
                let committed = shards.append_until(appends, acks, deadline).await;
                Handled::Waiting(Box::pin(async move { rest.finish(committed.await).await }))
            }
            Some(_) | None => Handled::Done(rest.unwritten()),
        }
    };
    Ok(Handled::First(Box::pin(hand_over)))
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

/// The batch, if it may come in a request of this version.
fn check(batch: Batch, version: i16) -> Result<Batch, Refusal> {
    if batch.codec() == Codec::Zstd && version < ZSTD_FROM {
        return Err(Refusal {
            code: ErrorCode::UnsupportedCompressionType,
            sentence: "zstd needs Produce version 7 or later".into(),
            record: None,
        });
    }
    Ok(batch)
}

/// The answer for a partition that means no shard.
fn no_shard(index: i32, code: ErrorCode) -> Partition<'static> {
    let is_repeated = code == ErrorCode::InvalidRequest;
    let sentence = is_repeated.then_some("a partition may be named once in a request".into());
    Partition::error(index, code, sentence)
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
    /// Refuses all of it.
    async fn refused<S>(
        mut self,
        asker: &Asker<S>,
        topics: Vec<RequestTopic>,
        refusal: &Refusal,
    ) -> Self {
        for topic in topics {
            self.plan.topic(&topic.name);
            asker.step().await;
            for partition in topic.partitions {
                self.plan.partition(Err(refusal.answer(partition.index)));
                asker.step().await;
            }
        }
        self
    }

    /// Parses the batches. There is one append for each partition of the plan that is not refused,
    /// in order.
    async fn with_batches<S>(
        mut self,
        asker: &Asker<S>,
        topics: Vec<RequestTopic>,
        parser: &mut Parser,
    ) -> (Self, Vec<Append>) {
        let named = topics.iter().map(|topic| {
            let indexes = topic.partitions.iter().map(|partition| partition.index);
            (&*topic.name, indexes)
        });
        let meant = asker.meant(Action::Publish, named).await;
        let mut appends = Vec::new();
        // The first thing the producer did wrong, for the log.
        let mut fault = None;
        for (topic, meant) in topics.into_iter().zip(meant) {
            self.plan.topic(&topic.name);
            asker.step().await;
            for (partition, shard) in topic.partitions.into_iter().zip(meant) {
                let index = partition.index;
                let shard = match shard {
                    Ok(shard) => shard,
                    Err(code) => {
                        self.plan.partition(Err(no_shard(index, code)));
                        asker.step().await;
                        continue;
                    }
                };
                let records = partition.records.unwrap_or_default();
                let sent = match parser.batch(records).await {
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
                            format!("{} partition {index}: {}", topic.name, refusal.sentence)
                        });
                        Err(refusal.answer(index))
                    }
                };
                self.plan.partition(sent);
            }
        }
        if let (Some(fault), true) = (fault, self.answered) {
            let Self { session, reply, .. } = &self;
            self.log.tell(Line::Records, session, reply, &fault);
        }
        (self, appends)
    }

    /// These go to the shards now, and from here on somebody pays for them.
    fn hand_over(&mut self, appends: &[Append]) {
        let (Some(quota), Some(principal)) = (&self.quota, &self.session.principal) else {
            return;
        };
        let bytes = appends.iter().map(|append| size(append.batch.size())).sum();
        self.uncharged = Some(Uncharged::new(quota, &principal.tenant, bytes));
    }

    /// The answer where no shard was given anything.
    fn unwritten(mut self) -> Outcome {
        let plan = std::mem::replace(&mut self.plan, Plan::new());
        self.outcome(plan.refused(), Throttle::default())
    }

    /// The answer, once what the shards took is charged.
    async fn finish(mut self, results: Vec<Result<Appended, ShardError>>) -> Outcome {
        let plan = std::mem::replace(&mut self.plan, Plan::new());
        let mut bytes = 0;
        let topics = plan.answer(results, |sent, result| {
            if result.is_ok() {
                bytes += size(sent.bytes);
            }
            answer(&self.metrics, sent, result)
        });
        let throttle = match self.uncharged.take() {
            Some(uncharged) => uncharged.charge(bytes).await,
            None => Throttle::default(),
        };
        self.outcome(topics, throttle)
    }

    fn outcome(
        self,
        topics: Vec<AnsweredTopic<Partition<'static>>>,
        throttle: Throttle,
    ) -> Outcome {
        if self.answered {
            return respond(self.reply, topics, throttle);
        }
        // acks=0: no byte goes back, and closing is the one way to tell that records were lost
        // (T63).
        let failed = topics.iter().find_map(|topic| {
            let mut partitions = topic.partitions.iter();
            let failed = partitions.find(|partition| partition.error_code != ErrorCode::None)?;
            Some((&topic.name, failed))
        });
        let Some((topic, failed)) = failed else {
            return Outcome::Silence(throttle);
        };
        let reason = format!(
            "acks=0, and {topic} partition {} failed with {:?}: {}",
            failed.index,
            failed.error_code,
            words(failed),
        );
        self.log
            .tell(Line::Lost, &self.session, &self.reply, &reason);
        Outcome::Close
    }
}

/// Bytes of a batch, as they are counted and charged.
fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a size fits 64 bits")
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
            metrics.produce_bytes.add(size(sent.bytes));
            Partition {
                base_offset: appended.base_offset.to_wire(),
                log_append_time_ms: appended.append_time.map_or(-1, |time| time.0),
                log_start_offset: appended.log_start.to_wire(),
                ..Partition::error(sent.index, ErrorCode::None, None)
            }
        }
        Err(error) => {
            let code = shard_error(&error, Asked::Other);
            let mut partition = Partition::error(sent.index, code, Some(error.to_string().into()));
            if let ShardError::UnknownProducer { log_start } = error {
                // By it the Java client tells records that retention has deleted from lost ones;
                // without, it tries again until its delivery timeout.
                partition.log_start_offset = log_start.to_wire();
            }
            partition
        }
    }
}

fn respond(
    reply: Reply,
    mut topics: Vec<AnsweredTopic<Partition<'static>>>,
    throttle: Throttle,
) -> Outcome {
    let topics = topics
        .iter_mut()
        .map(|topic| Topic {
            partitions: std::mem::take(&mut topic.partitions),
            name: &topic.name,
        })
        .collect();
    let response = Response {
        topics,
        throttle_time_ms: throttle.to_wire(),
        node_endpoints: Vec::new(),
    };
    let answer = reply.answer(|version, to| response.encode(version, to));
    answer.throttled(throttle)
}
