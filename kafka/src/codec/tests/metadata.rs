use super::*;
use crate::codec::Fault;
use crate::codec::metadata::{Broker, Partition, Request, RequestTopic, Response, Topic};
use std::borrow::Cow;

const API: ApiKey = ApiKey::Metadata;

fn oracle_request(
    version: i16,
    topics: Option<&[(u128, Option<String>)]>,
    flags: [bool; 3],
) -> oracle::MetadataRequest {
    let flexible = API.is_flexible(version);
    let topics = topics.map(|topics| {
        let topic = |(id, name): &(u128, Option<String>)| {
            let mut topic = oracle::metadata_request::MetadataRequestTopic::default();
            topic.name = if version >= 10 {
                topic.topic_id = format!("{id:032x}").parse().unwrap();
                name.as_deref().map(topic_name)
            } else {
                Some(topic_name(name.as_deref().unwrap_or_default()))
            };
            topic.with_unknown_tagged_fields(tags(flexible))
        };
        topics.iter().map(topic).collect()
    });
    let [create, cluster, topic] = flags;
    oracle::MetadataRequest::default()
        .with_topics(topics)
        .with_allow_auto_topic_creation(version < 4 || create)
        .with_include_cluster_authorized_operations((8..=10).contains(&version) && cluster)
        .with_include_topic_authorized_operations(version >= 8 && topic)
        .with_unknown_tagged_fields(tags(flexible))
}

fn nodes() -> impl Strategy<Value = Vec<i32>> {
    few(any::<i32>())
}

fn partition(made_up: &(ErrorCode, [i32; 3], [Vec<i32>; 3])) -> Partition<'_> {
    let (error_code, [index, leader_id, leader_epoch], [replicas, in_sync, offline]) = made_up;
    Partition {
        error_code: *error_code,
        index: *index,
        leader_id: *leader_id,
        leader_epoch: *leader_epoch,
        replicas,
        in_sync,
        offline,
    }
}

proptest! {
    #[test]
    fn requests_of_every_version_are_read_as_they_were_meant(
        topics in prop::option::of(few((any::<u128>(), prop::option::of(text())))),
        flags: [bool; 3],
    ) {
        for version in advertised(API) {
            // Version 0 has no null.
            let none = (version == 0).then(Vec::new);
            let asked = topics.clone().or(none);
            let sent = oracle_request(version, asked.as_deref(), flags);
            let frame = request_frame(API, version, &sent);
            let read = Request::decode(version, &mut open(API, version, &frame)).unwrap();

            let expected: Option<Vec<_>> = asked.as_ref().map(|topics| {
                topics.iter().map(|(id, name)| if version >= 10 {
                    RequestTopic { topic_id: *id, name: name.as_deref() }
                } else {
                    RequestTopic { topic_id: 0, name: Some(name.as_deref().unwrap_or_default()) }
                }).collect()
            });
            let all = version == 0 && expected.as_ref().is_some_and(Vec::is_empty);
            prop_assert_eq!(read.topics, if all { None } else { expected });
            prop_assert_eq!(read.allow_auto_topic_creation, sent.allow_auto_topic_creation);
            prop_assert_eq!(
                read.include_cluster_authorized_operations,
                sent.include_cluster_authorized_operations
            );
            prop_assert_eq!(
                read.include_topic_authorized_operations,
                sent.include_topic_authorized_operations
            );
        }
    }

    #[test]
    fn answers_of_every_version_are_read_by_others_as_they_were_meant(
        throttle_time_ms: i32,
        brokers in few((any::<i32>(), text(), any::<i32>(), prop::option::of(text()))),
        cluster_id in prop::option::of(text()),
        controller_id: i32,
        topics in few((
            error_code(),
            prop::option::of(text()),
            any::<u128>(),
            few((error_code(), any::<[i32; 3]>(), [nodes(), nodes(), nodes()])),
        )),
    ) {
        let response = Response {
            throttle_time_ms,
            brokers: brokers.iter().map(|(node_id, host, port, rack)| Broker {
                node_id: *node_id, host, port: *port, rack: rack.as_deref(),
            }).collect(),
            cluster_id: cluster_id.as_deref(),
            controller_id,
            topics: topics.iter().map(|(error_code, name, topic_id, partitions)| Topic {
                error_code: *error_code,
                name: name.as_deref().map(Cow::Borrowed),
                topic_id: *topic_id,
                partitions: partitions.iter().map(partition).collect(),
            }).collect(),
        };
        for version in advertised(API) {
            let read: oracle::MetadataResponse =
                answer(API, version, |writer| response.encode(version, writer));
            check(version, &response, &read);
        }
    }
}

fn check(version: i16, sent: &Response<'_>, read: &oracle::MetadataResponse) {
    assert_eq!(
        read.throttle_time_ms,
        if version >= 3 {
            sent.throttle_time_ms
        } else {
            0
        }
    );
    assert_eq!(
        read.cluster_id.as_deref(),
        sent.cluster_id.filter(|_| version >= 2)
    );
    assert_eq!(
        read.controller_id.0,
        if version >= 1 { sent.controller_id } else { -1 }
    );
    assert_eq!(read.cluster_authorized_operations, i32::MIN);
    assert_eq!(read.brokers.len(), sent.brokers.len());
    for (read, sent) in read.brokers.iter().zip(&sent.brokers) {
        assert_eq!(
            (read.node_id.0, &*read.host, read.port),
            (sent.node_id, sent.host, sent.port)
        );
        assert_eq!(read.rack.as_deref(), sent.rack.filter(|_| version >= 1));
    }
    assert_eq!(read.topics.len(), sent.topics.len());
    for (read, sent) in read.topics.iter().zip(&sent.topics) {
        let name = read.name.as_ref().map(|name| name.0.as_str());
        if version >= 12 {
            assert_eq!(name, sent.name.as_deref());
        } else {
            assert_eq!(name, Some(sent.name.as_deref().unwrap_or_default()));
        }
        assert_eq!(read.error_code, sent.error_code.wire());
        assert_eq!(
            read.topic_id.as_u128(),
            if version >= 10 { sent.topic_id } else { 0 }
        );
        assert!(!read.is_internal);
        assert_eq!(read.topic_authorized_operations, i32::MIN);
        assert_eq!(read.partitions.len(), sent.partitions.len());
        for (read, sent) in read.partitions.iter().zip(&sent.partitions) {
            check_partition(version, sent, read);
        }
    }
}

fn check_partition(
    version: i16,
    sent: &Partition<'_>,
    read: &oracle::metadata_response::MetadataResponsePartition,
) {
    let ids = |nodes: &[oracle::BrokerId]| nodes.iter().map(|node| node.0).collect::<Vec<_>>();
    assert_eq!(read.error_code, sent.error_code.wire());
    assert_eq!(
        (read.partition_index, read.leader_id.0),
        (sent.index, sent.leader_id)
    );
    assert_eq!(
        read.leader_epoch,
        if version >= 7 { sent.leader_epoch } else { -1 }
    );
    assert_eq!(ids(&read.replica_nodes), sent.replicas);
    assert_eq!(ids(&read.isr_nodes), sent.in_sync);
    let offline = if version >= 5 { sent.offline } else { &[] };
    assert_eq!(ids(&read.offline_replicas), offline);
}

#[test]
fn an_empty_list_asks_for_all_topics_in_version_0_and_for_none_later() {
    fn read(version: i16, body: &[u8]) -> Option<Vec<RequestTopic<'_>>> {
        Request::decode(version, &mut Cursor::new(body))
            .unwrap()
            .topics
    }
    assert_eq!(read(0, &[0, 0, 0, 0]), None);
    assert_eq!(read(1, &[0, 0, 0, 0]), Some(vec![]));
    assert_eq!(read(1, &[255, 255, 255, 255]), None);
    assert_eq!(read(12, &[1, 1, 0, 0]), Some(vec![]));
    assert_eq!(read(12, &[0, 1, 0, 0]), None);
}

#[test]
fn all_topics_can_be_asked_for_as_librdkafka_does() {
    // The bodies that librdkafka 2.16 sends in version 12 for a consumer and for a producer.
    for body in [[0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0]] {
        let request = Request::decode(12, &mut Cursor::new(&body)).unwrap();
        assert_eq!(request.topics, None);
    }
    let longer = [0; 8];
    let error = Request::decode(12, &mut Cursor::new(&longer)).unwrap_err();
    assert_eq!(error.fault, Fault::Trailing(4));
    let named_none = [1, 0, 0, 0, 0];
    let error = Request::decode(12, &mut Cursor::new(&named_none)).unwrap_err();
    assert_eq!(error.fault, Fault::Trailing(1));
}
