//! Metadata: the nodes, and the topics the peer may know of with the leader of each partition.
//!
//! An answer may have a thousand partitions for each name asked, so it is made in turns with other
//! tasks, and says each topic once.

use super::{Scope, in_turns};
use crate::answer::{Handled, Outcome};
use crate::codec::metadata::{Broker, Partition, Request as Body, RequestTopic, Response, Topic};
use crate::codec::{DecodeError, ErrorCode};
use crate::context::Context;
use crate::request::Request;
use crate::topics::{Topics, check_cost, is_topic_name};
use crate::turn::Turn;
use felix_core::shards::ShardState;
use felix_core::topology::Node;
use felix_core::{Principal, ShardId, Shards, Stream, StreamId};
use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

/// The wire's "no topic id".
const NO_ID: u128 = 0;

/// What a stream that is looked at, a topic, and a partition cost of a turn, in bytes.
const STREAM_COST: usize = 32;
const TOPIC_COST: usize = 128;
const PARTITION_COST: usize = 64;

pub(super) fn begin<S: Shards>(
    scope: &Scope<'_, S>,
    request: Request,
) -> Result<Handled, DecodeError> {
    let context = Rc::clone(scope.context);
    let principal = scope.session.principal.clone();
    in_turns(make(context, principal, scope.turn.clone(), request))
}

/// Fails before it awaits anything, or not at all.
async fn make<S: Shards>(
    context: Rc<Context<S>>,
    principal: Option<Principal>,
    turn: Turn,
    request: Request,
) -> Result<Handled, DecodeError> {
    let reply = request.reply;
    let body = Body::decode(reply.version, &mut request.cursor())?;
    let catalog = context.catalog.current();
    let topics = principal
        .as_ref()
        .map(|principal| Topics::new(&context, &catalog, principal));
    let check_cost = principal.as_ref().map_or(0, check_cost);
    let mut said = Vec::new();
    match (&body.topics, topics) {
        (None, None) => {}
        (None, Some(topics)) => {
            // Most of them may be other tenants'.
            for stream in catalog.streams() {
                turn.spend(STREAM_COST);
                if topics.is_own(stream) {
                    turn.spend(check_cost);
                }
                if topics.sees(stream) {
                    said.push(Said::stream(stream, stream.topic().into()));
                    turn.spend(TOPIC_COST);
                }
                turn.room().await;
            }
        }
        (Some(asked), topics) => {
            // Once, however often and by whatever it is asked: an answer is far larger than a name.
            let mut seen = HashSet::new();
            for asked in asked {
                let answer = answer(topics, *asked);
                if seen.insert(answer.key()) {
                    said.push(answer);
                }
                turn.spend(TOPIC_COST + check_cost);
                turn.room().await;
            }
        }
    }
    let nodes = context.topology.nodes();
    let response = Response {
        throttle_time_ms: 0,
        brokers: nodes.iter().map(broker).collect(),
        cluster_id: Some(&context.settings.cluster_id),
        controller_id: nodes.first().map_or(-1, |node| node.id),
        topics: Vec::new(),
    };
    let mut writer = reply.begin();
    response.encode_before_topics(reply.version, said.len(), &mut writer);
    for topic in said {
        let topic = topic.with_partitions(&context);
        topic.encode(reply.version, &mut writer);
        turn.spend(TOPIC_COST + PARTITION_COST * topic.partitions.len());
        turn.room().await;
    }
    Response::encode_after_topics(reply.version, &mut writer);
    Ok(Handled::Done(Outcome::written(writer)))
}

fn broker(node: &Node) -> Broker<'_> {
    Broker {
        node_id: node.id,
        host: &node.address.host,
        port: node.address.port.into(),
        rack: node.rack.as_deref(),
    }
}

/// What is said of one topic.
struct Said<'c, 'a> {
    error_code: ErrorCode,
    name: Option<Cow<'a, str>>,
    topic_id: u128,
    /// Whose partitions are told.
    stream: Option<&'c Stream>,
}

impl<'c, 'a> Said<'c, 'a> {
    /// Under its own name, or under the short one in the default namespace. A client that uses both
    /// would take one id under two names for a topic that was renamed, so the short one has none.
    fn stream(stream: &'c Stream, name: Cow<'a, str>) -> Self {
        let is_own = name == stream.topic();
        Self {
            error_code: ErrorCode::None,
            name: Some(name),
            topic_id: if is_own { stream.id.0 } else { NO_ID },
            stream: Some(stream),
        }
    }

    fn refused(asked: RequestTopic<'a>, error_code: ErrorCode) -> Self {
        Self {
            error_code,
            name: asked.name.map(Cow::Borrowed),
            topic_id: asked.topic_id,
            stream: None,
        }
    }

    /// Two that have the same say the same.
    fn key(&self) -> (Option<Cow<'a, str>>, u128) {
        (self.name.clone(), self.topic_id)
    }

    fn with_partitions<'s, S: Shards>(self, context: &'s Context<S>) -> Topic<'s>
    where
        'a: 's,
    {
        let partitions = self.stream.into_iter().flat_map(Stream::shard_ids).zip(0..);
        Topic {
            error_code: self.error_code,
            name: self.name,
            topic_id: self.topic_id,
            partitions: partitions
                .map(|(shard, index)| partition(context, shard, index))
                .collect(),
        }
    }
}

/// The answer for one topic asked about. None is ever created by asking (claim 140).
fn answer<'c, 'a>(topics: Option<Topics<'c, '_>>, asked: RequestTopic<'a>) -> Said<'c, 'a> {
    let Some(topics) = topics else {
        return Said::refused(asked, ErrorCode::TopicAuthorizationFailed);
    };
    if asked.topic_id != NO_ID {
        return match topics.by_id(StreamId(asked.topic_id)) {
            Some(stream) => Said::stream(stream, stream.topic().into()),
            None => Said::refused(asked, ErrorCode::UnknownTopicId),
        };
    }
    match asked.name {
        Some(name) if is_topic_name(name) => match topics.by_name(name) {
            Some(stream) => Said::stream(stream, name.into()),
            None => Said::refused(asked, ErrorCode::UnknownTopicOrPartition),
        },
        Some(_) => Said::refused(asked, ErrorCode::InvalidTopic),
        None => Said::refused(asked, ErrorCode::UnknownTopicId),
    }
}

fn partition<S: Shards>(context: &Context<S>, shard: ShardId, index: i32) -> Partition<'_> {
    let leader = std::slice::from_ref(&context.topology.leader(shard).id);
    let leaderless = |error_code, offline| Partition {
        error_code,
        index,
        leader_id: -1,
        leader_epoch: -1,
        replicas: leader,
        in_sync: &[],
        offline,
    };
    match context.shards.state(shard) {
        Some(ShardState::Open(generation)) => Partition {
            error_code: ErrorCode::None,
            index,
            leader_id: leader.first().copied().unwrap_or(-1),
            leader_epoch: generation.to_wire(),
            replicas: leader,
            in_sync: leader,
            offline: &[],
        },
        // A stream that is in the catalog and not yet in the table opens soon, too. It must not be
        // called unknown, which some clients take as final.
        Some(ShardState::Opening) | None => leaderless(ErrorCode::LeaderNotAvailable, &[]),
        Some(ShardState::Failed) => leaderless(ErrorCode::KafkaStorageError, leader),
    }
}
