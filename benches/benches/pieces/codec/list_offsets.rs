//! ListOffsets: the latest offsets of one partition, and of twelve.

use super::{Group, PARTITIONS, TOPIC, answer, frame, newest, open, read, text};
use bytes::BytesMut;
use criterion::BenchmarkId;
use felix_kafka::codec::list_offsets::{LATEST, Partition, Request, Response, Topic};
use felix_kafka::codec::{ApiKey, ErrorCode};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse, TopicName};

const API: ApiKey = ApiKey::ListOffsets;

pub(super) fn measure(group: &mut Group<'_>) {
    let version = newest(API);
    for partitions in [1, PARTITIONS] {
        let frame = request(partitions);
        check_request(&decode(&frame), partitions);
        let id = BenchmarkId::new(format!("list_offsets_v{version}_request"), partitions);
        group.bench_function(id, |bencher| bencher.iter(|| decode(&frame)));
        let response = response(partitions);
        let write = || answer(API, |version, writer| response.encode(version, writer));
        check_answer(&read(API, &write()), partitions);
        let id = BenchmarkId::new(format!("list_offsets_v{version}_answer"), partitions);
        group.bench_function(id, |bencher| bencher.iter(write));
    }
}

fn request(partitions: i32) -> BytesMut {
    let partition = |index| {
        ListOffsetsPartition::default()
            .with_partition_index(index)
            .with_current_leader_epoch(3)
            .with_timestamp(LATEST)
    };
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(text(TOPIC)))
        .with_partitions((0..partitions).map(partition).collect());
    let body = ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_topics(vec![topic]);
    frame(API, &body)
}

fn decode(frame: &[u8]) -> Request<'_> {
    let mut cursor = open(API, frame);
    Request::decode(newest(API), &mut cursor).expect("the request is well formed")
}

fn check_request(request: &Request<'_>, partitions: i32) {
    let [topic] = &request.topics[..] else {
        panic!("one topic was asked for")
    };
    assert_eq!(topic.name, TOPIC);
    let asked = topic.partitions.iter();
    let asked = asked.map(|partition| (partition.index, partition.timestamp));
    assert!(asked.eq((0..partitions).map(|index| (index, LATEST))));
}

fn response(partitions: i32) -> Response<'static> {
    let partition = |index| Partition {
        index,
        error_code: ErrorCode::None,
        timestamp: -1,
        offset: 1_234_567,
        leader_epoch: 3,
    };
    let topic = Topic {
        name: TOPIC,
        partitions: (0..partitions).map(partition).collect(),
    };
    Response {
        throttle_time_ms: 0,
        topics: vec![topic],
    }
}

fn check_answer(answer: &ListOffsetsResponse, partitions: i32) {
    let [topic] = &answer.topics[..] else {
        panic!("one topic was answered")
    };
    assert_eq!(topic.name.as_str(), TOPIC);
    let answered = topic.partitions.iter();
    let answered = answered.map(|partition| (partition.partition_index, partition.offset));
    assert!(answered.eq((0..partitions).map(|index| (index, 1_234_567))));
}
