//! Produce: one record of 1 KiB for one partition, and the same for each of twelve.
//!
//! One record set stays in the frame; twelve are copied out of it, since each is less than half of
//! it, and that is included.

use super::{Group, PARTITIONS, TOPIC, answer, frame, newest, open, read, text};
use crate::batches;
use bytes::BytesMut;
use criterion::{BatchSize, BenchmarkId};
use felix_core::Timestamp;
use felix_core::batch::Codec;
use felix_kafka::codec::produce::{Partition, Request, Response, Topic};
use felix_kafka::codec::{ApiKey, ErrorCode};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, TopicName};

const API: ApiKey = ApiKey::Produce;

/// Frames that are copied in one go. They stay within the processor's second cache.
const FRAMES: BatchSize = BatchSize::NumIterations(8);

pub(super) fn measure(group: &mut Group<'_>) {
    let version = newest(API);
    for partitions in [1, PARTITIONS] {
        let frame = request(partitions);
        check_request(decode(frame.clone()), partitions);
        let id = BenchmarkId::new(format!("produce_v{version}_request"), partitions);
        group.bench_function(id, |bencher| {
            bencher.iter_batched(|| frame.clone(), decode, FRAMES);
        });
        let response = response(partitions);
        let write = || answer(API, |version, writer| response.encode(version, writer));
        check_answer(&read(API, &write()), partitions);
        let id = BenchmarkId::new(format!("produce_v{version}_answer"), partitions);
        group.bench_function(id, |bencher| bencher.iter(write));
    }
}

fn request(partitions: i32) -> BytesMut {
    let records = batches::bytes(1, Timestamp(1), Codec::None).freeze();
    let partition = |index| {
        PartitionProduceData::default()
            .with_index(index)
            .with_records(Some(records.clone()))
    };
    let topic = TopicProduceData::default()
        .with_name(TopicName(text(TOPIC)))
        .with_partition_data((0..partitions).map(partition).collect());
    let body = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic]);
    frame(API, &body)
}

fn decode(frame: BytesMut) -> Request {
    let body = open(API, &frame).position();
    Request::decode(newest(API), frame, body).expect("the request is well formed")
}

fn check_request(request: Request, partitions: i32) {
    let [topic] = &request.topics[..] else {
        panic!("one topic was asked for")
    };
    assert_eq!((request.acks, topic.name.as_str()), (-1, TOPIC));
    let records = batches::bytes(1, Timestamp(1), Codec::None);
    for (index, partition) in (0..partitions).zip(&topic.partitions) {
        assert_eq!(partition.index, index);
        assert_eq!(partition.records.as_ref(), Some(&records));
    }
    assert_eq!(Ok(topic.partitions.len()), usize::try_from(partitions));
}

fn response(partitions: i32) -> Response<'static> {
    let partition = |index| Partition {
        error_code: ErrorCode::None,
        base_offset: 1_234_567,
        log_append_time_ms: 1_700_000_000_000,
        log_start_offset: 0,
        ..Partition::error(index, ErrorCode::None, None)
    };
    let topic = Topic {
        name: TOPIC,
        partitions: (0..partitions).map(partition).collect(),
    };
    Response {
        topics: vec![topic],
        throttle_time_ms: 0,
        node_endpoints: Vec::new(),
    }
}

fn check_answer(answer: &ProduceResponse, partitions: i32) {
    let [topic] = &answer.responses[..] else {
        panic!("one topic was answered")
    };
    assert_eq!(topic.name.as_str(), TOPIC);
    let offsets: Vec<i64> = topic
        .partition_responses
        .iter()
        .map(|partition| partition.base_offset)
        .collect();
    assert_eq!(Ok(offsets.len()), usize::try_from(partitions));
    assert!(offsets.iter().all(|offset| *offset == 1_234_567));
}
