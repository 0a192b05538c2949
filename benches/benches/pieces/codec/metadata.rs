//! Metadata: one topic of twelve partitions, and twelve such topics.

use super::{Group, PARTITIONS, TOPIC, answer, frame, newest, open, read, text};
use bytes::BytesMut;
use criterion::BenchmarkId;
use felix_kafka::codec::metadata::{Broker, Partition, Request, Response, Topic};
use felix_kafka::codec::{ApiKey, ErrorCode};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};

const API: ApiKey = ApiKey::Metadata;

/// The one node, which leads and holds all.
const NODES: [i32; 1] = [1];

pub(super) fn measure(group: &mut Group<'_>) {
    let version = newest(API);
    for topics in [1, 12] {
        let names: Vec<String> = (0..topics).map(|n| format!("{TOPIC}-{n}")).collect();
        let frame = request(&names);
        check_request(&decode(&frame), &names);
        let id = BenchmarkId::new(format!("metadata_v{version}_request"), topics);
        group.bench_function(id, |bencher| bencher.iter(|| decode(&frame)));
        let response = response(&names);
        let write = || answer(API, |version, writer| response.encode(version, writer));
        check_answer(&read(API, &write()), &names);
        let id = BenchmarkId::new(format!("metadata_v{version}_answer"), topics);
        group.bench_function(id, |bencher| bencher.iter(write));
    }
}

fn request(names: &[String]) -> BytesMut {
    let topic =
        |name: &String| MetadataRequestTopic::default().with_name(Some(TopicName(text(name))));
    let body = MetadataRequest::default()
        .with_topics(Some(names.iter().map(topic).collect()))
        .with_allow_auto_topic_creation(false);
    frame(API, &body)
}

fn decode(frame: &[u8]) -> Request<'_> {
    let mut cursor = open(API, frame);
    Request::decode(newest(API), &mut cursor).expect("the request is well formed")
}

fn check_request(request: &Request<'_>, names: &[String]) {
    let asked = request.topics.as_deref().expect("some were asked for");
    let asked = asked.iter().filter_map(|topic| topic.name);
    assert!(asked.eq(names.iter().map(String::as_str)));
}

fn response(names: &[String]) -> Response<'_> {
    let partition = |index| Partition {
        error_code: ErrorCode::None,
        index,
        leader_id: 1,
        leader_epoch: 3,
        replicas: &NODES,
        in_sync: &NODES,
        offline: &[],
    };
    let topic = |(id, name): (u128, &'_ String)| Topic {
        error_code: ErrorCode::None,
        name: Some(name.clone().into()),
        topic_id: id,
        partitions: (0..PARTITIONS).map(partition).collect(),
    };
    let broker = Broker {
        node_id: 1,
        host: "broker-1.example.org",
        port: 9092,
        rack: None,
    };
    Response {
        throttle_time_ms: 0,
        brokers: vec![broker],
        cluster_id: Some("a-cluster-of-one"),
        controller_id: 1,
        topics: (1..).zip(names).map(topic).collect(),
    }
}

fn check_answer(answer: &MetadataResponse, names: &[String]) {
    assert_eq!(answer.brokers.len(), 1);
    assert_eq!(answer.topics.len(), names.len());
    for (topic, name) in answer.topics.iter().zip(names) {
        assert_eq!(
            topic.name.as_ref().map(|name| name.as_str()),
            Some(&name[..])
        );
        let leaders = topic
            .partitions
            .iter()
            .map(|partition| partition.leader_id.0);
        assert!(leaders.eq((0..PARTITIONS).map(|_| 1)));
    }
}
