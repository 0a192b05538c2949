//! What is refused is refused at once, finally, and with a sentence that says what to do.

use crate::bench::Bench;
use crate::fetch::fetch;
use crate::metadata::all_topics;
use crate::produce::{TRANSACTION_REFUSAL, name, produce, produced};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, FetchResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
    MetadataResponse, ProduceResponse,
};
use kafka_protocol::protocol::StrBytes;

const GROUP_REFUSAL: &str = "Felix has no Kafka consumer groups; assign partitions instead. See \
                             docs/kafka-compatibility.md";

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

#[test]
fn a_coordinator_is_refused_with_the_exact_sentence_for_each_key_at_every_version() {
    for (key_type, code, sentence) in [(0, 30, GROUP_REFUSAL), (1, 53, TRANSACTION_REFUSAL)] {
        for version in 0..=6 {
            if version == 0 && key_type != 0 {
                continue;
            }
            let mut bench = Bench::new();
            let mut client = bench.connect();
            let mut request = FindCoordinatorRequest::default();
            if version >= 1 {
                request = request.with_key_type(key_type);
            }
            request = if version >= 4 {
                request.with_coordinator_keys(vec![text("g1"), text("g2")])
            } else {
                request.with_key(text("g1"))
            };
            let id = client.send(ApiKey::FindCoordinator, version, &request);
            bench.turn();
            let answer: FindCoordinatorResponse =
                client.answer(ApiKey::FindCoordinator, version, id);
            if version >= 4 {
                let told: Vec<_> = answer
                    .coordinators
                    .iter()
                    .map(|c| {
                        (
                            c.key.as_str(),
                            c.error_code,
                            c.error_message.as_ref().unwrap().as_str(),
                        )
                    })
                    .collect();
                assert_eq!(told, [("g1", code, sentence), ("g2", code, sentence)]);
            } else {
                assert_eq!(answer.error_code, code);
                if version >= 1 {
                    assert_eq!(answer.error_message.unwrap().as_str(), sentence);
                }
            }
        }
    }
}

#[test]
fn a_coordinator_of_another_kind_is_an_invalid_request() {
    for key_type in [2, 3, -1] {
        let mut bench = Bench::new();
        let mut client = bench.connect();
        let request = FindCoordinatorRequest::default()
            .with_key_type(key_type)
            .with_coordinator_keys(vec![text("g")]);
        let id = client.send(ApiKey::FindCoordinator, 6, &request);
        bench.turn();
        let answer: FindCoordinatorResponse = client.answer(ApiKey::FindCoordinator, 6, id);
        assert_eq!(answer.coordinators[0].error_code, 42);
    }
}

#[test]
fn versions_are_told_as_clients_need_them_to_enable_their_features() {
    for version in 0..=4 {
        let mut bench = Bench::new();
        let mut client = bench.connect();
        let request = ApiVersionsRequest::default()
            .with_client_software_name(text("tester"))
            .with_client_software_version(text("1"));
        let request = if version < 3 {
            ApiVersionsRequest::default()
        } else {
            request
        };
        let id = client.send(ApiKey::ApiVersions, version, &request);
        bench.turn();
        let answer: ApiVersionsResponse = client.answer(ApiKey::ApiVersions, version, id);
        assert_eq!(answer.error_code, 0);
        let told: Vec<_> = answer
            .api_keys
            .iter()
            .map(|api| (api.api_key, api.min_version, api.max_version))
            .collect();
        let expected = [
            (0, 0, 11),
            (1, 4, 12),
            (2, 1, 8),
            (3, 0, 12),
            (10, 0, 6),
            (17, 0, 1),
            (18, 0, 4),
            (22, 0, 5),
            (23, 2, 4),
            (36, 0, 2),
            (60, 0, 1),
        ];
        assert_eq!(told, expected);
    }
}

#[test]
fn a_newer_api_versions_is_answered_in_version_0_and_the_connection_goes_on() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text("tester"))
        .with_client_software_version(text("1"));
    let (_, mut newer) = client.encode(ApiKey::ApiVersions, 4, &request);
    for version in [5_i16, 99, i16::MAX, -1] {
        newer[6..8].copy_from_slice(&version.to_be_bytes());
        client.peer.send(&newer);
        bench.turn();
        let answer: ApiVersionsResponse = client.answer(ApiKey::ApiVersions, 0, 1);
        assert_eq!(answer.error_code, 35);
        let own = &answer.api_keys[0];
        assert_eq!((own.api_key, own.min_version, own.max_version), (18, 0, 4));
    }
    let id = client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    let _: MetadataResponse = client.answer(ApiKey::Metadata, 9, id);
}

#[test]
fn an_api_or_version_that_is_not_served_closes_after_earlier_answers() {
    // Key and version: groups, admin, unknown; served APIs outside their ranges.
    for (key, version) in [
        (11, 5),
        (19, 7),
        (999, 0),
        (-1, 0),
        (1, 3),
        (1, 13),
        (0, 12),
        (3, 13),
    ] {
        let mut bench = Bench::new();
        let commits = bench.hold_commits();
        let mut client = bench.connect();
        let first = client.send(
            ApiKey::Produce,
            9,
            &produce("default.clicks", 0, &["a"], -1),
        );
        let (_, mut other) = client.encode(ApiKey::Metadata, 1, &all_topics());
        other[4..6].copy_from_slice(&i16::to_be_bytes(key));
        other[6..8].copy_from_slice(&i16::to_be_bytes(version));
        client.peer.send(&other);
        client.send(ApiKey::Metadata, 1, &all_topics());
        bench.turn();
        assert!(!client.peer.is_closed());
        commits.raise();
        bench.turn();
        let first: ProduceResponse = client.answer(ApiKey::Produce, 9, first);
        assert_eq!(produced(&first).error_code, 0);
        assert!(client.is_unanswered(), "nothing behind it is answered");
        assert!(client.peer.is_closed());
        let metrics = &bench.context.metrics;
        assert_eq!(metrics.refused(felix_kafka::Refused::Version), 1);
        assert_eq!(metrics.protocol_errors.value(), 1);
    }
}

#[test]
fn who_has_not_authenticated_may_ask_for_versions_and_nothing_else() {
    let mut bench = Bench::with_anonymous(false);
    let mut client = bench.connect();
    let id = client.send(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default());
    bench.turn();
    let versions: ApiVersionsResponse = client.answer(ApiKey::ApiVersions, 0, id);
    assert_eq!(versions.error_code, 0);

    let id = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    bench.turn();
    let answer: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
    assert_eq!(produced(&answer).error_code, 29);

    let id = client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    bench.turn();
    let answer: FetchResponse = client.answer(ApiKey::Fetch, 11, id);
    assert_eq!(answer.responses[0].partitions[0].error_code, 29);

    let parts = vec![ListOffsetsPartition::default().with_timestamp(-1)];
    let topic = ListOffsetsTopic::default()
        .with_name(name("default.clicks"))
        .with_partitions(parts);
    let id = client.send(
        ApiKey::ListOffsets,
        5,
        &ListOffsetsRequest::default().with_topics(vec![topic]),
    );
    bench.turn();
    let answer: ListOffsetsResponse = client.answer(ApiKey::ListOffsets, 5, id);
    assert_eq!(answer.topics[0].partitions[0].error_code, 29);

    let id = client.send(ApiKey::Metadata, 9, &all_topics());
    let topic = MetadataRequestTopic::default().with_name(Some(name("default.clicks")));
    let named = MetadataRequest::default().with_topics(Some(vec![topic]));
    let named = client.send(ApiKey::Metadata, 9, &named);
    bench.turn();
    let answer: MetadataResponse = client.answer(ApiKey::Metadata, 9, id);
    assert!(answer.topics.is_empty());
    let answer: MetadataResponse = client.answer(ApiKey::Metadata, 9, named);
    assert_eq!(answer.topics[0].error_code, 29);
    assert_eq!(bench.events(), [], "no shard was asked");
}
