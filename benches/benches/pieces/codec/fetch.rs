//! Fetch: one partition, and twelve, each answered with a piece of 64 KiB of records.
//!
//! The records are passed on as they lie in memory, so what an answer costs does not grow with
//! them.

use super::{Group, PARTITIONS, TOPIC, answer, frame, newest, open, read, text};
use bytes::{Bytes, BytesMut};
use criterion::BenchmarkId;
use felix_kafka::codec::fetch::{Partition, Request, Response, Topic};
use felix_kafka::codec::{ApiKey, ErrorCode};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse, TopicName};

const API: ApiKey = ApiKey::Fetch;

const RECORDS_BYTES: usize = 64 << 10;

pub(super) fn measure(group: &mut Group<'_>) {
    let version = newest(API);
    for partitions in [1, PARTITIONS] {
        let frame = request(partitions);
        check_request(&decode(&frame), partitions);
        let id = BenchmarkId::new(format!("fetch_v{version}_request"), partitions);
        group.bench_function(id, |bencher| bencher.iter(|| decode(&frame)));
        let response = response(partitions);
        let write = || answer(API, |version, writer| response.encode(version, writer));
        check_answer(&read(API, &write()), partitions);
        let id = BenchmarkId::new(format!("fetch_v{version}_answer"), partitions);
        group.bench_function(id, |bencher| bencher.iter(write));
    }
}

fn request(partitions: i32) -> BytesMut {
    let partition = |index| {
        FetchPartition::default()
            .with_partition(index)
            .with_current_leader_epoch(3)
            .with_fetch_offset(1_234_567)
            .with_partition_max_bytes(1 << 20)
    };
    let topic = FetchTopic::default()
        .with_topic(TopicName(text(TOPIC)))
        .with_partitions((0..partitions).map(partition).collect());
    let body = FetchRequest::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_isolation_level(1)
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
    assert_eq!((request.max_wait_ms, topic.name), (500, TOPIC));
    let indexes: Vec<i32> = topic.partitions.iter().map(|asked| asked.index).collect();
    assert!(indexes.into_iter().eq(0..partitions));
}

fn response(partitions: i32) -> Response<'static> {
    let records = Bytes::from(vec![1; RECORDS_BYTES]);
    let partition = |index| Partition {
        error_code: ErrorCode::None,
        high_watermark: 1_234_999,
        last_stable_offset: 1_234_999,
        log_start_offset: 0,
        records: vec![records.clone()],
        ..Partition::error(index, ErrorCode::None)
    };
    let topic = Topic {
        name: TOPIC,
        partitions: (0..partitions).map(partition).collect(),
    };
    Response {
        throttle_time_ms: 0,
        error_code: ErrorCode::None,
        topics: vec![topic],
    }
}

fn check_answer(answer: &FetchResponse, partitions: i32) {
    let [topic] = &answer.responses[..] else {
        panic!("one topic was answered")
    };
    assert_eq!(topic.topic.as_str(), TOPIC);
    for (index, partition) in (0..partitions).zip(&topic.partitions) {
        assert_eq!(partition.partition_index, index);
        assert_eq!(partition.high_watermark, 1_234_999);
        let records = partition.records.as_ref().map(Bytes::len);
        assert_eq!(records, Some(RECORDS_BYTES));
    }
    assert_eq!(Ok(topic.partitions.len()), usize::try_from(partitions));
}
