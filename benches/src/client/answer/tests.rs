//! Answers that an independent implementation has written.
#![expect(clippy::indexing_slicing, reason = "a test knows what it has built")]

use super::*;
use crate::client::{Address, Api};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, PartitionData,
};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    ApiVersionsResponse, BrokerId, CreateTopicsResponse, DeleteTopicsResponse, FetchResponse,
    InitProducerIdResponse, ListOffsetsResponse, MetadataResponse, ProduceResponse, ProducerId,
    ResponseHeader, SaslAuthenticateResponse, SaslHandshakeResponse, TopicName,
};
use kafka_protocol::protocol::{Encodable, HeaderVersion, StrBytes};

const CORRELATION: i32 = 77;

/// What a broker would send, without the length in front.
fn frame<R: Encodable + HeaderVersion>(api: Api, response: &R) -> Vec<u8> {
    let version = R::header_version(api.version());
    assert_eq!(version, 0, "{api} is not flexible");
    let mut out = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(CORRELATION);
    header.encode(&mut out, version).unwrap();
    response.encode(&mut out, api.version()).unwrap();
    out.to_vec()
}

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

fn topic() -> TopicName {
    TopicName(text("orders.created"))
}

fn produced_frame() -> Vec<u8> {
    let partition = PartitionProduceResponse::default()
        .with_index(3)
        .with_error_code(0)
        .with_base_offset(1 << 40)
        .with_log_append_time_ms(1_700_000_000_000)
        .with_log_start_offset(5);
    let response = TopicProduceResponse::default()
        .with_name(topic())
        .with_partition_responses(vec![partition]);
    let answer = ProduceResponse::default()
        .with_responses(vec![response])
        .with_throttle_time_ms(9);
    frame(Api::Produce, &answer)
}

fn fetched_frame() -> Vec<u8> {
    let first = PartitionData::default()
        .with_partition_index(0)
        .with_high_watermark(100)
        .with_last_stable_offset(99)
        .with_log_start_offset(1)
        .with_aborted_transactions(Some(vec![AbortedTransaction::default(); 2]))
        .with_records(Some(Bytes::from_static(b"some batches")));
    let second = PartitionData::default()
        .with_partition_index(1)
        .with_error_code(1)
        .with_high_watermark(-1)
        .with_aborted_transactions(None)
        .with_records(None);
    let response = FetchableTopicResponse::default()
        .with_topic(topic())
        .with_partitions(vec![first, second]);
    let answer = FetchResponse::default()
        .with_throttle_time_ms(8)
        .with_session_id(0)
        .with_responses(vec![response]);
    frame(Api::Fetch, &answer)
}

fn metadata_frame() -> Vec<u8> {
    let broker = |id: i32, host| {
        MetadataResponseBroker::default()
            .with_node_id(BrokerId(id))
            .with_host(text(host))
            .with_port(9090 + id)
            .with_rack((id == 1).then(|| text("rack")))
    };
    let partition = |index, leader, error| {
        MetadataResponsePartition::default()
            .with_error_code(error)
            .with_partition_index(index)
            .with_leader_id(BrokerId(leader))
            .with_replica_nodes(vec![BrokerId(1), BrokerId(2)])
            .with_isr_nodes(vec![BrokerId(2)])
    };
    let described = MetadataResponseTopic::default()
        .with_name(Some(topic()))
        .with_partitions(vec![partition(1, 2, 0), partition(0, -1, 5)]);
    let answer = MetadataResponse::default()
        .with_brokers(vec![broker(1, "a"), broker(2, "b.example")])
        .with_cluster_id(Some(text("cluster")))
        .with_controller_id(BrokerId(2))
        .with_topics(vec![described]);
    frame(Api::Metadata, &answer)
}

fn versions_frame() -> Vec<u8> {
    let range = |key, min, max| {
        ApiVersion::default()
            .with_api_key(key)
            .with_min_version(min)
            .with_max_version(max)
    };
    let answer =
        ApiVersionsResponse::default().with_api_keys(vec![range(0, 3, 12), range(1, 4, 17)]);
    frame(Api::ApiVersions, &answer)
}

fn end_offset_frame(error: i16) -> Vec<u8> {
    let partition = ListOffsetsPartitionResponse::default()
        .with_partition_index(4)
        .with_error_code(error)
        .with_timestamp(-1)
        .with_offset(1234);
    let response = ListOffsetsTopicResponse::default()
        .with_name(topic())
        .with_partitions(vec![partition]);
    let answer = ListOffsetsResponse::default().with_topics(vec![response]);
    frame(Api::ListOffsets, &answer)
}

fn created_frame(error: i16) -> Vec<u8> {
    let result = CreatableTopicResult::default()
        .with_name(topic())
        .with_error_code(error)
        .with_error_message((error != 0).then(|| text("too many")));
    let answer = CreateTopicsResponse::default().with_topics(vec![result]);
    frame(Api::CreateTopics, &answer)
}

fn deleted_frame(error: i16) -> Vec<u8> {
    let result = DeletableTopicResult::default()
        .with_name(Some(topic()))
        .with_error_code(error);
    let answer = DeleteTopicsResponse::default().with_responses(vec![result]);
    frame(Api::DeleteTopics, &answer)
}

fn producer_id_frame(error: i16) -> Vec<u8> {
    let answer = InitProducerIdResponse::default()
        .with_error_code(error)
        .with_producer_id(ProducerId(4000))
        .with_producer_epoch(2);
    frame(Api::InitProducerId, &answer)
}

fn mechanisms_frame(error: i16) -> Vec<u8> {
    let answer = SaslHandshakeResponse::default()
        .with_error_code(error)
        .with_mechanisms(vec![text("PLAIN"), text("SCRAM-SHA-256")]);
    frame(Api::SaslHandshake, &answer)
}

fn authenticated_frame(error: i16) -> Vec<u8> {
    let answer = SaslAuthenticateResponse::default()
        .with_error_code(error)
        .with_error_message((error != 0).then(|| text("wrong password")))
        .with_auth_bytes(Bytes::from_static(b"token"))
        .with_session_lifetime_ms(60_000);
    frame(Api::SaslAuthenticate, &answer)
}

#[test]
fn what_became_of_a_batch_is_read() {
    let expected = Produced {
        correlation: CORRELATION,
        partition: 3,
        error: 0,
        base_offset: 1 << 40,
        throttle_ms: 9,
    };
    assert_eq!(produced(&produced_frame()), Ok(expected));
}

#[test]
fn an_answer_about_two_partitions_is_none_to_our_produce() {
    let response = TopicProduceResponse::default()
        .with_name(topic())
        .with_partition_responses(vec![PartitionProduceResponse::default(); 2]);
    let answer = ProduceResponse::default().with_responses(vec![response]);
    let problem = produced(&frame(Api::Produce, &answer)).unwrap_err();
    assert!(problem.to_string().contains("one partition"), "{problem}");
}

#[test]
fn what_a_fetch_brought_is_read_partition_by_partition() {
    let frame = fetched_frame();
    let fetched = fetched(&frame).unwrap();
    let Fetched {
        correlation,
        error,
        throttle_ms,
        partitions,
    } = fetched;
    assert_eq!((correlation, error, throttle_ms), (CORRELATION, 0, 8));
    let expected = [
        FetchedPartition {
            partition: 0,
            error: 0,
            high_watermark: 100,
            records: b"some batches",
        },
        FetchedPartition {
            partition: 1,
            error: 1,
            high_watermark: -1,
            records: b"",
        },
    ];
    assert_eq!(partitions.collect::<Vec<_>>(), expected);
}

#[test]
fn a_fetch_that_failed_as_a_whole_brings_its_error_and_nothing_else() {
    let answer = FetchResponse::default().with_error_code(70);
    let frame = frame(Api::Fetch, &answer);
    let fetched = fetched(&frame).unwrap();
    assert_eq!(fetched.error, 70);
    assert_eq!(fetched.partitions.count(), 0);
}

#[test]
fn leaders_are_read_with_where_they_listen() {
    let described = metadata(&metadata_frame()).unwrap();
    let address = |host: &str, port| Address {
        host: host.to_owned(),
        port,
    };
    assert_eq!(
        described.brokers,
        [(1, address("a", 9091)), (2, address("b.example", 9092))]
    );
    assert_eq!((described.controller, described.error), (2, 0));
    let partitions = described.partitions.iter();
    let partitions = partitions.map(|told| (told.index, told.leader, told.error));
    assert_eq!(partitions.collect::<Vec<_>>(), [(1, 2, 0), (0, -1, 5)]);
}

#[test]
fn the_answers_before_the_load_are_read() {
    let served = versions(&versions_frame()).unwrap().unwrap();
    let served = served.iter().map(|range| (range.key, range.min, range.max));
    assert_eq!(served.collect::<Vec<_>>(), [(0, 3, 12), (1, 4, 17)]);
    assert_eq!(end_offset(&end_offset_frame(0)), Ok(Ok(1234)));
    assert_eq!(created(&created_frame(0)), Ok(Ok(())));
    assert_eq!(deleted(&deleted_frame(0)), Ok(Ok(())));
    assert_eq!(producer_id(&producer_id_frame(0)), Ok(Ok((4000, 2))));
    let mechanisms = vec!["PLAIN".to_owned(), "SCRAM-SHA-256".to_owned()];
    assert_eq!(
        sasl_mechanisms(&mechanisms_frame(0)),
        Ok((Ok(()), mechanisms))
    );
    assert_eq!(authenticated(&authenticated_frame(0)), Ok(Ok(())));
}

#[test]
fn refusals_are_told_by_name_and_in_the_brokers_words() {
    let told = |refused: Result<(), Refusal>| refused.unwrap_err().told();
    let created = created(&created_frame(44)).unwrap();
    assert_eq!(told(created), "POLICY_VIOLATION: too many");
    let deleted = deleted(&deleted_frame(73)).unwrap();
    assert_eq!(told(deleted), "TOPIC_DELETION_DISABLED");
    let end = end_offset(&end_offset_frame(6)).unwrap().map(drop);
    assert_eq!(told(end), "NOT_LEADER_OR_FOLLOWER");
    let id = producer_id(&producer_id_frame(31)).unwrap().map(drop);
    assert_eq!(told(id), "CLUSTER_AUTHORIZATION_FAILED");
    let (mechanism, _) = sasl_mechanisms(&mechanisms_frame(33)).unwrap();
    assert_eq!(told(mechanism), "UNSUPPORTED_SASL_MECHANISM");
    let authenticated = authenticated(&authenticated_frame(58)).unwrap();
    assert_eq!(
        told(authenticated),
        "SASL_AUTHENTICATION_FAILED: wrong password"
    );
}

/// Reads a frame as an answer of one kind: whether it is one. All that can be walked is walked.
type Reader = fn(&[u8]) -> bool;

/// Makes a frame that is one.
type Maker = fn() -> Vec<u8>;

const READERS: [(Reader, Maker); 10] = [
    (|frame| produced(frame).is_ok(), produced_frame),
    (
        |frame| fetched(frame).is_ok_and(|fetched| fetched.partitions.count() < frame.len()),
        fetched_frame,
    ),
    (|frame| metadata(frame).is_ok(), metadata_frame),
    (|frame| versions(frame).is_ok(), versions_frame),
    (|frame| end_offset(frame).is_ok(), || end_offset_frame(0)),
    (|frame| created(frame).is_ok(), || created_frame(1)),
    (|frame| deleted(frame).is_ok(), || deleted_frame(1)),
    (|frame| producer_id(frame).is_ok(), || producer_id_frame(0)),
    (
        |frame| sasl_mechanisms(frame).is_ok(),
        || mechanisms_frame(0),
    ),
    (
        |frame| authenticated(frame).is_ok(),
        || authenticated_frame(1),
    ),
];

#[test]
fn an_answer_that_is_cut_off_or_goes_on_is_an_error() {
    for (read, whole) in READERS {
        let mut whole = whole();
        assert!(read(&whole));
        for length in 0..whole.len() {
            assert!(!read(&whole[..length]), "cut off at {length}");
        }
        whole.push(0);
        assert!(!read(&whole), "one byte too many");
    }
}

#[test]
fn declared_lengths_are_believed_no_further_than_the_bytes_reach() {
    for (read, whole) in READERS {
        let whole = whole();
        for at in 4..whole.len() {
            for size in [2, 4] {
                for filling in [0xff, 0x7f] {
                    let mut broken = whole.clone();
                    let end = (at + size).min(whole.len());
                    broken[at..end].fill(0xff);
                    broken[at] = filling;
                    // Whatever it is read as, it ends, and soon: a count of 2^31 meets the end.
                    read(&broken);
                }
            }
        }
    }
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for (read, whole) in READERS {
        let whole = whole();
        for _ in 0..20_000 {
            let mut broken = if random.bool() {
                let length = random.usize(..200);
                std::iter::repeat_with(|| random.u8(..))
                    .take(length)
                    .collect()
            } else {
                whole.clone()
            };
            for _ in 0..random.usize(..4) {
                if !broken.is_empty() {
                    let at = random.usize(..broken.len());
                    broken[at] = random.u8(..);
                }
            }
            broken.truncate(random.usize(..=broken.len()));
            read(&broken);
        }
    }
}

#[test]
fn the_first_frame_is_found_as_soon_as_all_of_it_is_there() {
    let mut received = 6_u32.to_be_bytes().to_vec();
    received.extend_from_slice(&[0, 0, 0, 9, 1, 2]);
    for length in 0..received.len() {
        assert_eq!(first(&received[..length]), Ok(None));
        assert_eq!(
            size(&received[..length]),
            Ok((length >= 4).then_some(10)),
            "{length}"
        );
    }
    received.extend_from_slice(b"the next");
    let frame = first(&received).unwrap().unwrap();
    assert_eq!(frame, [0, 0, 0, 9, 1, 2]);
    assert_eq!(correlation(frame), Some(9));
    assert_eq!(correlation(&frame[..3]), None);
}

#[test]
fn a_length_that_no_answer_has_is_told_at_once() {
    // A TLS alert, HTTP, less than a correlation id, and less than nothing.
    for head in [*b"\x15\x03\x03\x00", *b"HTTP", [0, 0, 0, 3], [0xff; 4]] {
        assert!(first(&head).is_err(), "{head:?}");
        let problem = size(&head).unwrap_err().to_string();
        assert!(problem.contains("TLS"), "{problem}");
    }
}
