//! Metadata: the nodes, and the topics the peer may know of with the leader of each partition.

use super::Scope;
use crate::answer::Handled;
use crate::codec::metadata::{Broker, Partition, Request as Body, RequestTopic, Response, Topic};
use crate::codec::{DecodeError, ErrorCode};
use crate::request::Request;
use crate::topics::{Topics, is_topic_name};
use felix_core::shards::ShardState;
use felix_core::{ShardId, Shards, Stream, StreamId};
use std::borrow::Cow;
use std::collections::HashSet;

/// The wire's "no topic id".
const NO_ID: u128 = 0;

pub(super) fn begin<S: Shards>(
    scope: &Scope<'_, S>,
    request: &Request,
) -> Result<Handled, DecodeError> {
    let body = Body::decode(scope.reply.version, &mut request.cursor())?;
    let context = scope.context;
    let nodes = context.topology.nodes();
    let brokers = nodes
        .iter()
        .map(|node| Broker {
            node_id: node.id,
            host: &node.address.host,
            port: node.address.port.into(),
            rack: node.rack.as_deref(),
        })
        .collect();
    let catalog = context.catalog.current();
    let topics = scope
        .session
        .principal
        .as_ref()
        .map(|principal| Topics::new(&**context, &catalog, principal));
    let topics = match (&body.topics, topics) {
        (None, None) => Vec::new(),
        (None, Some(topics)) => topics
            .all()
            .map(|stream| described(scope, stream, stream.topic().into()))
            .collect(),
        (Some(asked), topics) => {
            // Said once, however often asked: an answer is far larger than a name.
            let mut seen = HashSet::new();
            let asked = asked
                .iter()
                .filter(|topic| seen.insert((topic.topic_id, topic.name)));
            asked.map(|topic| answer(scope, topics, *topic)).collect()
        }
    };
    let response = Response {
        throttle_time_ms: 0,
        brokers,
        cluster_id: Some(&context.settings.cluster_id),
        controller_id: nodes.first().map_or(-1, |node| node.id),
        topics,
    };
    Ok(Handled::Done(
        scope
            .reply
            .answer(|version, to| response.encode(version, to)),
    ))
}

/// The answer for one topic asked about. None is ever created by asking (claim 140).
fn answer<'a, S: Shards>(
    scope: &'a Scope<'_, S>,
    topics: Option<Topics<'_, '_>>,
    asked: RequestTopic<'a>,
) -> Topic<'a> {
    let name = asked.name.map(Cow::Borrowed);
    let refused = |name, error_code| Topic {
        error_code,
        name,
        topic_id: asked.topic_id,
        partitions: Vec::new(),
    };
    let Some(topics) = topics else {
        return refused(name, ErrorCode::TopicAuthorizationFailed);
    };
    if asked.topic_id != NO_ID {
        return match topics.by_id(StreamId(asked.topic_id)) {
            Some(stream) => described(scope, stream, stream.topic().into()),
            None => refused(name, ErrorCode::UnknownTopicId),
        };
    }
    match asked.name {
        // Under the name asked for, which may be the short one in the default namespace.
        Some(asked) if is_topic_name(asked) => match topics.by_name(asked) {
            Some(stream) => described(scope, stream, asked.into()),
            None => refused(name, ErrorCode::UnknownTopicOrPartition),
        },
        Some(_) => refused(name, ErrorCode::InvalidTopic),
        None => refused(name, ErrorCode::UnknownTopicId),
    }
}

fn described<'a, S: Shards>(
    scope: &'a Scope<'_, S>,
    stream: &Stream,
    name: Cow<'a, str>,
) -> Topic<'a> {
    let partitions = stream.shard_ids().zip(0_i32..);
    Topic {
        error_code: ErrorCode::None,
        name: Some(name),
        topic_id: stream.id.0,
        partitions: partitions
            .map(|(shard, index)| partition(scope, shard, index))
            .collect(),
    }
}

fn partition<'a, S: Shards>(scope: &'a Scope<'_, S>, shard: ShardId, index: i32) -> Partition<'a> {
    let leader = std::slice::from_ref(&scope.context.topology.leader(shard).id);
    let leaderless = |error_code, offline| Partition {
        error_code,
        index,
        leader_id: -1,
        leader_epoch: -1,
        replicas: leader,
        in_sync: &[],
        offline,
    };
    match scope.context.shards.state(shard) {
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
