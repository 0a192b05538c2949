//! OffsetForLeaderEpoch.

use super::*;
use crate::codec::offset_for_leader_epoch::{
    Partition, Request, RequestPartition, RequestTopic, Response, Topic,
};
use oracle::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};

const API: ApiKey = ApiKey::OffsetForLeaderEpoch;

fn request_partition() -> impl Strategy<Value = RequestPartition> {
    any::<(i32, i32, i32)>().prop_map(|(index, current_leader_epoch, leader_epoch)| {
        RequestPartition {
            index,
            current_leader_epoch,
            leader_epoch,
        }
    })
}

fn partition() -> impl Strategy<Value = Partition> {
    let parts = (any::<i32>(), error_code(), any::<i32>(), any::<i64>());
    parts.prop_map(|(index, error_code, leader_epoch, end_offset)| Partition {
        index,
        error_code,
        leader_epoch,
        end_offset,
    })
}

fn oracle_request(version: i16, request: &Request<'_>) -> oracle::OffsetForLeaderEpochRequest {
    let tags = || tags(API.is_flexible(version));
    let partition = |partition: &RequestPartition| {
        OffsetForLeaderPartition::default()
            .with_partition(partition.index)
            .with_current_leader_epoch(partition.current_leader_epoch)
            .with_leader_epoch(partition.leader_epoch)
            .with_unknown_tagged_fields(tags())
    };
    let topic = |topic: &RequestTopic<'_>| {
        OffsetForLeaderTopic::default()
            .with_topic(topic_name(topic.name))
            .with_partitions(topic.partitions.iter().map(partition).collect())
            .with_unknown_tagged_fields(tags())
    };
    let request_of = oracle::OffsetForLeaderEpochRequest::default()
        .with_topics(request.topics.iter().map(topic).collect())
        .with_unknown_tagged_fields(tags());
    if version >= 3 {
        return request_of.with_replica_id(request.replica_id.into());
    }
    // The oracle's default is a follower of no broker's.
    let replica_id = oracle::OffsetForLeaderEpochRequest::default().replica_id;
    request_of.with_replica_id(replica_id)
}

proptest! {
    #[test]
    fn requests_of_every_version_are_read_as_they_were_meant(
        replica_id: i32,
        topics in few((text(), few(request_partition()))),
    ) {
        let topics: Vec<_> = topics.iter().map(|(name, partitions)| {
            RequestTopic { name, partitions: partitions.clone() }
        }).collect();
        for version in advertised(API) {
            // Before version 3 there is nothing but clients.
            let replica_id = if version >= 3 { replica_id } else { -1 };
            let request = Request { replica_id, topics: topics.clone() };
            let frame = request_frame(API, version, &oracle_request(version, &request));
            let read = Request::decode(version, &mut open(API, version, &frame)).unwrap();
            prop_assert_eq!(read, request);
        }
    }

    #[test]
    fn answers_of_every_version_are_read_by_others_as_they_were_meant(
        throttle_time_ms: i32,
        topics in few((text(), few(partition()))),
    ) {
        let topics = topics.iter().map(|(name, partitions)| {
            Topic { name, partitions: partitions.clone() }
        }).collect();
        let response = Response { throttle_time_ms, topics };
        for version in advertised(API) {
            let read: oracle::OffsetForLeaderEpochResponse =
                answer(API, version, |writer| response.encode(version, writer));
            check(&response, &read);
        }
    }
}

fn check(sent: &Response<'_>, read: &oracle::OffsetForLeaderEpochResponse) {
    assert_eq!(read.throttle_time_ms, sent.throttle_time_ms);
    assert_eq!(read.topics.len(), sent.topics.len());
    for (read, sent) in read.topics.iter().zip(&sent.topics) {
        assert_eq!(read.topic.0.as_str(), sent.name);
        let told = read.partitions.iter().map(|told| {
            let code = told.error_code;
            (told.partition, code, told.leader_epoch, told.end_offset)
        });
        let meant = sent.partitions.iter().map(|meant| {
            let code = meant.error_code.wire();
            (meant.index, code, meant.leader_epoch, meant.end_offset)
        });
        assert_eq!(told.collect::<Vec<_>>(), meant.collect::<Vec<_>>());
    }
}
