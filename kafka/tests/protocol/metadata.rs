//! Metadata: nodes, topics, and what one may know.

use crate::bench::{Bench, CLICKS, HIDDEN, clicks};
use crate::model::GENERATION;
use crate::produce::name;
use felix_core::shards::ShardState;
use felix_core::topology::node_id;
use felix_core::{BrokerId, Catalog, CpuId, StreamId};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{ApiKey, MetadataRequest, MetadataResponse};
use std::rc::Rc;

pub(crate) fn all_topics() -> MetadataRequest {
    MetadataRequest::default().with_topics(None)
}

fn topics(names: &[&str]) -> MetadataRequest {
    let topics = names
        .iter()
        .map(|topic| MetadataRequestTopic::default().with_name(Some(name(topic))));
    MetadataRequest::default().with_topics(Some(topics.collect()))
}

fn ask(bench: &mut Bench, version: i16, request: &MetadataRequest) -> MetadataResponse {
    let mut client = bench.connect();
    let id = client.send(ApiKey::Metadata, version, request);
    bench.turn();
    client.answer(ApiKey::Metadata, version, id)
}

fn names(response: &MetadataResponse) -> Vec<String> {
    response
        .topics
        .iter()
        .map(|topic| topic.name.as_ref().unwrap().to_string())
        .collect()
}

const VISIBLE: [&str; 4] = [
    "default.clicks",
    "default.own-clock",
    "default.read-only",
    "default.write-only",
];

#[test]
fn nodes_cluster_and_leaders_are_told_at_every_version() {
    let nodes = [0, 1].map(|core| node_id(BrokerId(1), CpuId(core)));
    for version in 0..=12 {
        let mut bench = Bench::new();
        let response = ask(&mut bench, version, &topics(&["default.clicks"]));
        let brokers: Vec<_> = response
            .brokers
            .iter()
            .map(|broker| (broker.node_id.0, broker.port))
            .collect();
        assert_eq!(brokers, [(nodes[0], 9100), (nodes[1], 9101)]);
        assert_eq!(response.brokers[0].host.as_str(), "127.0.0.1");
        if version >= 1 {
            assert_eq!(response.controller_id.0, nodes[0]);
            assert_eq!(
                response.brokers[1].rack.as_ref().unwrap().as_str(),
                "rack-a"
            );
        }
        if version >= 2 {
            assert_eq!(response.cluster_id.as_ref().unwrap().as_str(), "felix-test");
        }
        let topic = &response.topics[0];
        assert_eq!((topic.error_code, topic.partitions.len()), (0, 3));
        if version >= 10 {
            assert_eq!(topic.topic_id.as_u128(), CLICKS.0);
        }
        for (index, partition) in (0_u32..).zip(&topic.partitions) {
            let leader = bench.context.topology.leader(clicks(index)).id;
            assert_eq!(partition.partition_index.cast_unsigned(), index);
            assert_eq!((partition.error_code, partition.leader_id.0), (0, leader));
            assert_eq!(
                partition.replica_nodes,
                [kafka_protocol::messages::BrokerId(leader)]
            );
            assert_eq!(partition.isr_nodes, partition.replica_nodes);
            assert!(partition.offline_replicas.is_empty());
            if version >= 7 {
                assert_eq!(partition.leader_epoch, GENERATION.to_wire());
            }
        }
    }
}

#[test]
fn no_list_asks_for_all_that_may_be_known_and_an_empty_one_for_none_but_in_version_0() {
    for version in 0..=12 {
        let mut bench = Bench::new();
        if version > 0 {
            assert_eq!(names(&ask(&mut bench, version, &all_topics())), VISIBLE);
            assert_eq!(names(&ask(&mut bench, version, &topics(&[]))), [""; 0]);
        } else {
            assert_eq!(names(&ask(&mut bench, version, &topics(&[]))), VISIBLE);
        }
    }
}

#[test]
fn unknown_hidden_and_foreign_topics_look_alike_and_none_is_made() {
    for version in 0..=12 {
        let mut bench = Bench::new();
        let asked = [
            "default.nothing",
            "default.hidden",
            "default.foreign",
            "x.clicks",
        ];
        let request = topics(&asked).with_allow_auto_topic_creation(true);
        let response = ask(&mut bench, version, &request);
        assert_eq!(names(&response), asked);
        assert!(response.topics.iter().all(|topic| topic.error_code == 3));
        let again = ask(&mut bench, version, &request);
        assert!(again.topics.iter().all(|topic| topic.error_code == 3));
    }
}

#[test]
fn names_no_topic_can_have_are_invalid() {
    let long = "x".repeat(250);
    let longest = "x".repeat(249);
    let mut bench = Bench::new();
    let asked = ["", ".", "..", "a b", "a/b", "\u{e9}.a", &long, &longest];
    let response = ask(&mut bench, 9, &topics(&asked));
    let codes: Vec<_> = response
        .topics
        .iter()
        .map(|topic| topic.error_code)
        .collect();
    assert_eq!(codes, [17, 17, 17, 17, 17, 17, 17, 3]);
}

#[test]
fn a_short_name_is_answered_under_the_name_asked() {
    let mut bench = Bench::new();
    let response = ask(
        &mut bench,
        9,
        &topics(&["clicks", "default.clicks", "clicks"]),
    );
    assert_eq!(
        names(&response),
        ["clicks", "default.clicks"],
        "repetitions are said once"
    );
    assert!(response.topics.iter().all(|topic| topic.error_code == 0));
}

#[test]
fn a_topic_has_its_id_under_its_own_name_alone() {
    let mut bench = Bench::new();
    for version in 10..=12 {
        let response = ask(&mut bench, version, &topics(&["clicks", "default.clicks"]));
        assert_eq!(names(&response), ["clicks", "default.clicks"]);
        let told = response.topics.iter().map(|topic| {
            let id = topic.topic_id.as_u128();
            (topic.error_code, id, topic.partitions.len())
        });
        let told: Vec<_> = told.collect();
        assert_eq!(told, [(0, 0, 3), (0, CLICKS.0, 3)]);
        let all = ask(&mut bench, version, &all_topics());
        assert!(all.topics.iter().all(|topic| !topic.topic_id.is_nil()));
    }
}

#[test]
fn one_id_under_many_names_is_one_topic() {
    let mut bench = Bench::new();
    let asked = (0..5000).map(|number| {
        MetadataRequestTopic::default()
            .with_topic_id(format!("{:032x}", CLICKS.0).parse().unwrap())
            .with_name(Some(name(&format!("name-{number}"))))
    });
    let request = MetadataRequest::default().with_topics(Some(asked.collect()));
    let response = ask(&mut bench, 12, &request);
    assert_eq!(names(&response), ["default.clicks"]);
}

#[test]
fn a_large_answer_is_made_in_turns_with_other_connections() {
    let mut bench = Bench::new();
    bench.widen_catalog(40);
    let mut large = bench.connect();
    let mut small = bench.connect();
    let all = large.send(ApiKey::Metadata, 9, &all_topics());
    bench.polls(2);
    assert!(large.take().is_none(), "it takes more than a turn");
    let one = small.send(ApiKey::Metadata, 9, &topics(&["default.clicks"]));
    bench.polls(3);
    let answer: MetadataResponse = small.answer(ApiKey::Metadata, 9, one);
    assert_eq!(answer.topics[0].partitions.len(), 3);
    assert!(
        large.take().is_none(),
        "the other did not have to wait for it"
    );
    bench.turn();
    let answer: MetadataResponse = large.answer(ApiKey::Metadata, 9, all);
    let partitions: usize = answer
        .topics
        .iter()
        .map(|topic| topic.partitions.len())
        .sum();
    assert!(partitions > 10_000, "{partitions}");
}

#[test]
fn topics_are_found_by_id_and_unknown_ids_are_named() {
    for version in 10..=12 {
        let mut bench = Bench::new();
        let by_id = |id: StreamId| {
            // Versions 10 and 11 have the field and no null for the name in the specification.
            let name = (version < 12).then(|| name(""));
            let id = format!("{:032x}", id.0).parse().unwrap();
            MetadataRequestTopic::default()
                .with_topic_id(id)
                .with_name(name)
        };
        let request = MetadataRequest::default().with_topics(Some(vec![
            by_id(CLICKS),
            by_id(HIDDEN),
            by_id(StreamId(99)),
        ]));
        let response = ask(&mut bench, version, &request);
        let told = |topic: &MetadataResponseTopic| {
            (
                topic.error_code,
                topic.topic_id.as_u128(),
                topic.partitions.len(),
            )
        };
        let told: Vec<_> = response.topics.iter().map(told).collect();
        assert_eq!(told, [(0, CLICKS.0, 3), (100, HIDDEN.0, 0), (100, 99, 0)]);
        assert_eq!(
            response.topics[0].name.as_ref().unwrap().as_str(),
            "default.clicks"
        );
    }
}

#[test]
fn a_shard_that_is_not_open_has_no_leader_and_is_never_unknown() {
    for (state, code, offline) in [
        (Some(ShardState::Opening), 5, 0),
        (None, 5, 0),
        (Some(ShardState::Failed), 56, 1),
    ] {
        for version in 0..=12 {
            let mut bench = Bench::new();
            bench.log(clicks(1), |log| log.state = state);
            let response = ask(&mut bench, version, &topics(&["default.clicks"]));
            let topic = &response.topics[0];
            let partition = &topic.partitions[1];
            assert_eq!((topic.error_code, partition.error_code), (0, code));
            assert_eq!((partition.leader_id.0, partition.leader_epoch), (-1, -1));
            assert_eq!(
                (partition.replica_nodes.len(), partition.isr_nodes.len()),
                (1, 0)
            );
            let told = if version >= 5 { offline } else { 0 };
            assert_eq!(partition.offline_replicas.len(), told);
            assert_eq!(topic.partitions[0].error_code, 0);
        }
    }
}

#[test]
fn a_new_catalog_is_seen_by_the_next_request() {
    let mut bench = Bench::new();
    bench.context.catalog.replace(Rc::new(Catalog::default()));
    assert_eq!(names(&ask(&mut bench, 9, &all_topics())), [""; 0]);
}
