use super::*;
use crate::codec::list_offsets::{
    Partition, Request, RequestPartition, RequestTopic, Response, Topic,
};
use oracle::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};

const API: ApiKey = ApiKey::ListOffsets;

fn request_partition() -> impl Strategy<Value = RequestPartition> {
    any::<(i32, i32, i64)>().prop_map(
        |(index, current_leader_epoch, timestamp)| RequestPartition {
            index,
            current_leader_epoch,
            timestamp,
        },
    )
}

fn partition() -> impl Strategy<Value = Partition> {
    let parts = (
        any::<i32>(),
        error_code(),
        any::<i64>(),
        any::<i64>(),
        any::<i32>(),
    );
    parts.prop_map(
        |(index, error_code, timestamp, offset, leader_epoch)| Partition {
            index,
            error_code,
            timestamp,
            offset,
            leader_epoch,
        },
    )
}

/// What is left of a request in a version that lacks some of its fields.
fn as_of<'a>(version: i16, request: &Request<'a>) -> Request<'a> {
    let mut request = request.clone();
    if version < 2 {
        request.isolation_level = 0;
    }
    for partition in request
        .topics
        .iter_mut()
        .flat_map(|topic| &mut topic.partitions)
    {
        if version < 4 {
            partition.current_leader_epoch = -1;
        }
    }
    request
}

fn oracle_request(version: i16, request: &Request<'_>) -> oracle::ListOffsetsRequest {
    let tags = || tags(API.is_flexible(version));
    let partition = |partition: &RequestPartition| {
        ListOffsetsPartition::default()
            .with_partition_index(partition.index)
            .with_current_leader_epoch(partition.current_leader_epoch)
            .with_timestamp(partition.timestamp)
            .with_unknown_tagged_fields(tags())
    };
    let topic = |topic: &RequestTopic<'_>| {
        ListOffsetsTopic::default()
            .with_name(topic_name(topic.name))
            .with_partitions(topic.partitions.iter().map(partition).collect())
            .with_unknown_tagged_fields(tags())
    };
    oracle::ListOffsetsRequest::default()
        .with_replica_id(request.replica_id.into())
        .with_isolation_level(request.isolation_level)
        .with_topics(request.topics.iter().map(topic).collect())
        .with_unknown_tagged_fields(tags())
}

proptest! {
    #[test]
    fn requests_of_every_version_are_read_as_they_were_meant(
        replica_id: i32,
        isolation_level: i8,
        topics in few((text(), few(request_partition()))),
    ) {
        let topics = topics.iter().map(|(name, partitions)| {
            RequestTopic { name, partitions: partitions.clone() }
        }).collect();
        let request = Request { replica_id, isolation_level, topics };
        for version in advertised(API) {
            let request = as_of(version, &request);
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
            let read: oracle::ListOffsetsResponse =
                answer(API, version, |writer| response.encode(version, writer));
            check(version, &response, &read);
        }
    }
}

fn check(version: i16, sent: &Response<'_>, read: &oracle::ListOffsetsResponse) {
    assert_eq!(
        read.throttle_time_ms,
        if version >= 2 {
            sent.throttle_time_ms
        } else {
            0
        }
    );
    assert_eq!(read.topics.len(), sent.topics.len());
    for (read, sent) in read.topics.iter().zip(&sent.topics) {
        assert_eq!(read.name.0.as_str(), sent.name);
        assert_eq!(read.partitions.len(), sent.partitions.len());
        for (read, sent) in read.partitions.iter().zip(&sent.partitions) {
            assert_eq!(
                (read.partition_index, read.error_code),
                (sent.index, sent.error_code.wire())
            );
            assert_eq!((read.timestamp, read.offset), (sent.timestamp, sent.offset));
            assert_eq!(
                read.leader_epoch,
                if version >= 4 { sent.leader_epoch } else { -1 }
            );
        }
    }
}
