//! Writes requests: each function appends one whole frame, its length in front, to a buffer.
//!
//! The buffer is the caller's and keeps its room, so that a request costs no allocation once it
//! has grown.

use super::Api;
use super::frame::Frame;

/// How many bytes a fetch may bring and how long it may wait for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchBounds {
    /// Milliseconds that the broker may wait for the least bytes.
    pub max_wait_ms: i32,
    /// With fewer bytes it waits.
    pub min_bytes: i32,
    /// Of all partitions together; the first batch comes however large it is.
    pub max_bytes: i32,
    /// Of each partition.
    pub partition_max_bytes: i32,
}

/// Appends `batch` to a partition. With `acks` 0 there is no answer.
///
/// # Panics
/// Where the topic's name has 32 KiB, or the batch 2 GiB.
pub fn produce(
    out: &mut Vec<u8>,
    correlation: i32,
    acks: i16,
    timeout_ms: i32,
    topic: &str,
    partition: i32,
    batch: &[u8],
) {
    let mut frame = Frame::begin(out, Api::Produce, correlation);
    frame.null_text(); // of no transaction
    frame.i16(acks);
    frame.i32(timeout_ms);
    frame.i32(1);
    frame.text(topic);
    frame.i32(1);
    frame.i32(partition);
    frame.blob(batch);
    frame.finish();
}

/// Appends the same `batch` to each of the partitions.
pub(crate) fn produce_to_all(
    out: &mut Vec<u8>,
    correlation: i32,
    acks: i16,
    topic: &str,
    partitions: impl Iterator<Item = i32>,
    batch: &[u8],
) {
    let mut frame = Frame::begin(out, Api::Produce, correlation);
    frame.null_text(); // of no transaction
    frame.i16(acks);
    frame.i32(0);
    frame.i32(1);
    frame.text(topic);
    let place = frame.later_i32();
    let mut count = 0;
    for partition in partitions {
        frame.i32(partition);
        frame.blob(batch);
        count += 1;
    }
    frame.set_i32(place, count);
    frame.finish();
}

/// Reads each of the partitions from an offset, without a fetch session.
///
/// # Panics
/// Where the topic's name has 32 KiB.
pub fn fetch(
    out: &mut Vec<u8>,
    correlation: i32,
    bounds: &FetchBounds,
    topic: &str,
    partitions: impl Iterator<Item = (i32, i64)>,
) {
    let mut frame = Frame::begin(out, Api::Fetch, correlation);
    frame.i32(-1); // a consumer, no replica
    frame.i32(bounds.max_wait_ms);
    frame.i32(bounds.min_bytes);
    frame.i32(bounds.max_bytes);
    frame.i8(0); // read uncommitted
    frame.i32(0); // no session,
    frame.i32(-1); // and none to be made
    frame.i32(1);
    frame.text(topic);
    let place = frame.later_i32();
    let mut count = 0;
    for (partition, offset) in partitions {
        frame.i32(partition);
        frame.i32(-1); // of whichever leader epoch
        frame.i64(offset);
        frame.i64(-1); // log start, told by replicas only
        frame.i32(bounds.partition_max_bytes);
        count += 1;
    }
    frame.set_i32(place, count);
    frame.i32(0); // nothing to leave out of a session
    frame.text(""); // in no rack
    frame.finish();
}

pub(super) fn api_versions(out: &mut Vec<u8>, correlation: i32) {
    Frame::begin(out, Api::ApiVersions, correlation).finish();
}

/// Asks for one topic and does not make it by asking.
pub(super) fn metadata(out: &mut Vec<u8>, correlation: i32, topic: &str) {
    let mut frame = Frame::begin(out, Api::Metadata, correlation);
    frame.i32(1);
    frame.text(topic);
    frame.bool(false);
    frame.finish();
}

/// The offset after the last record.
pub(super) fn list_end(out: &mut Vec<u8>, correlation: i32, topic: &str, partition: i32) {
    let mut frame = Frame::begin(out, Api::ListOffsets, correlation);
    frame.i32(-1); // a consumer, no replica
    frame.i8(0); // read uncommitted
    frame.i32(1);
    frame.text(topic);
    frame.i32(1);
    frame.i32(partition);
    frame.i64(-1); // latest
    frame.finish();
}

/// What a topic is to be made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewTopic<'a> {
    pub(super) name: &'a str,
    pub(super) partitions: i32,
    /// -1: what the broker has for a default.
    pub(super) replication: i16,
}

pub(super) fn create_topic(
    out: &mut Vec<u8>,
    correlation: i32,
    topic: NewTopic<'_>,
    timeout_ms: i32,
) {
    let mut frame = Frame::begin(out, Api::CreateTopics, correlation);
    frame.i32(1);
    frame.text(topic.name);
    frame.i32(topic.partitions);
    frame.i16(topic.replication);
    frame.i32(0); // placed as the broker likes
    frame.i32(0); // configured as the broker is
    frame.i32(timeout_ms);
    frame.bool(false); // not only to see whether it would do
    frame.finish();
}

pub(super) fn delete_topic(out: &mut Vec<u8>, correlation: i32, topic: &str, timeout_ms: i32) {
    let mut frame = Frame::begin(out, Api::DeleteTopics, correlation);
    frame.i32(1);
    frame.text(topic);
    frame.i32(timeout_ms);
    frame.finish();
}

pub(super) fn init_producer_id(out: &mut Vec<u8>, correlation: i32) {
    let mut frame = Frame::begin(out, Api::InitProducerId, correlation);
    frame.null_text(); // of no transaction
    frame.i32(i32::MAX); // which therefore never times out
    frame.finish();
}

pub(super) fn sasl_handshake(out: &mut Vec<u8>, correlation: i32, mechanism: &str) {
    let mut frame = Frame::begin(out, Api::SaslHandshake, correlation);
    frame.text(mechanism);
    frame.finish();
}

pub(super) fn sasl_authenticate(out: &mut Vec<u8>, correlation: i32, token: &[u8]) {
    let mut frame = Frame::begin(out, Api::SaslAuthenticate, correlation);
    frame.blob(token);
    frame.finish();
}

#[cfg(test)]
mod tests {
    use super::super::frame::CLIENT_ID;
    use super::*;
    use bytes::{Buf, Bytes, BytesMut};
    use kafka_protocol::messages::create_topics_request::CreatableTopic;
    use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
    use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
    use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
    use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
    use kafka_protocol::messages::{
        ApiVersionsRequest, BrokerId, CreateTopicsRequest, DeleteTopicsRequest, FetchRequest,
        InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest, RequestHeader,
        SaslAuthenticateRequest, SaslHandshakeRequest, TopicName,
    };
    use kafka_protocol::protocol::{Decodable, Encodable, Request, StrBytes};
    use std::fmt::Debug;

    const CORRELATION: i32 = 0x0102_0304;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    fn topic(name: &'static str) -> TopicName {
        TopicName(text(name))
    }

    /// The same bytes as an independent implementation writes, and read by it in full.
    fn check<R>(api: Api, write: impl FnOnce(&mut Vec<u8>), expected: &R)
    where
        R: Request + PartialEq + Debug,
    {
        assert_eq!(api.key(), R::KEY);
        let header = RequestHeader::default()
            .with_request_api_key(api.key())
            .with_request_api_version(api.version())
            .with_correlation_id(CORRELATION)
            .with_client_id(Some(text(CLIENT_ID)));
        let mut body = BytesMut::new();
        let header_version = R::header_version(api.version());
        assert_eq!(header_version, 1, "{api} is not flexible");
        header.encode(&mut body, header_version).unwrap();
        expected.encode(&mut body, api.version()).unwrap();
        let mut whole = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        whole.extend_from_slice(&body);

        // What is in the buffer already stays.
        let mut out = b"before".to_vec();
        write(&mut out);
        assert!(out.starts_with(b"before"));
        let ours = out.split_off(b"before".len());
        assert_eq!(ours, whole, "{api}");

        let mut read = Bytes::from(ours);
        read.advance(4);
        assert_eq!(RequestHeader::decode(&mut read, 1).unwrap(), header);
        assert_eq!(&R::decode(&mut read, api.version()).unwrap(), expected);
        assert!(!read.has_remaining());
    }

    #[test]
    fn produce_is_what_kafka_reads() {
        let batch = Bytes::from_static(b"whatever the batch is");
        let partition = PartitionProduceData::default()
            .with_index(3)
            .with_records(Some(batch.clone()));
        let data = TopicProduceData::default()
            .with_name(topic("orders.created"))
            .with_partition_data(vec![partition]);
        let expected = ProduceRequest::default()
            .with_transactional_id(None)
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![data]);
        let write = |out: &mut Vec<u8>| {
            produce(out, CORRELATION, -1, 30_000, "orders.created", 3, &batch);
        };
        check(Api::Produce, write, &expected);
    }

    #[test]
    fn fetch_is_what_kafka_reads_for_no_one_and_many_partitions() {
        for count in [0, 1, 100] {
            let bounds = FetchBounds {
                max_wait_ms: 500,
                min_bytes: 1,
                max_bytes: 50 << 20,
                partition_max_bytes: 1 << 20,
            };
            let wanted = (0..count).map(|index| (index, i64::from(index) << 40));
            let partitions = wanted.clone().map(|(index, offset)| {
                FetchPartition::default()
                    .with_partition(index)
                    .with_current_leader_epoch(-1)
                    .with_fetch_offset(offset)
                    .with_log_start_offset(-1)
                    .with_partition_max_bytes(1 << 20)
            });
            let topic = FetchTopic::default()
                .with_topic(topic("clicks"))
                .with_partitions(partitions.collect());
            let expected = FetchRequest::default()
                .with_replica_id(BrokerId(-1))
                .with_max_wait_ms(500)
                .with_min_bytes(1)
                .with_max_bytes(50 << 20)
                .with_isolation_level(0)
                .with_session_id(0)
                .with_session_epoch(-1)
                .with_topics(vec![topic]);
            let write = |out: &mut Vec<u8>| fetch(out, CORRELATION, &bounds, "clicks", wanted);
            check(Api::Fetch, write, &expected);
        }
    }

    #[test]
    fn questions_before_the_load_are_what_kafka_reads() {
        check(
            Api::ApiVersions,
            |out| api_versions(out, CORRELATION),
            &ApiVersionsRequest::default(),
        );
        let asked = MetadataRequestTopic::default().with_name(Some(topic("clicks")));
        check(
            Api::Metadata,
            |out| metadata(out, CORRELATION, "clicks"),
            &MetadataRequest::default()
                .with_topics(Some(vec![asked]))
                .with_allow_auto_topic_creation(false),
        );
        let partition = ListOffsetsPartition::default()
            .with_partition_index(7)
            .with_timestamp(-1);
        let asked = ListOffsetsTopic::default()
            .with_name(topic("clicks"))
            .with_partitions(vec![partition]);
        check(
            Api::ListOffsets,
            |out| list_end(out, CORRELATION, "clicks", 7),
            &ListOffsetsRequest::default()
                .with_replica_id(BrokerId(-1))
                .with_topics(vec![asked]),
        );
        check(
            Api::InitProducerId,
            |out| init_producer_id(out, CORRELATION),
            &InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(i32::MAX),
        );
    }

    #[test]
    fn topics_are_made_and_dropped_in_words_that_kafka_reads() {
        let made = CreatableTopic::default()
            .with_name(topic("clicks"))
            .with_num_partitions(12)
            .with_replication_factor(-1);
        let wanted = NewTopic {
            name: "clicks",
            partitions: 12,
            replication: -1,
        };
        check(
            Api::CreateTopics,
            |out| create_topic(out, CORRELATION, wanted, 9_000),
            &CreateTopicsRequest::default()
                .with_topics(vec![made])
                .with_timeout_ms(9_000)
                .with_validate_only(false),
        );
        check(
            Api::DeleteTopics,
            |out| delete_topic(out, CORRELATION, "clicks", 9_000),
            &DeleteTopicsRequest::default()
                .with_topic_names(vec![topic("clicks")])
                .with_timeout_ms(9_000),
        );
    }

    #[test]
    fn authentication_is_what_kafka_reads() {
        check(
            Api::SaslHandshake,
            |out| sasl_handshake(out, CORRELATION, "PLAIN"),
            &SaslHandshakeRequest::default().with_mechanism(text("PLAIN")),
        );
        check(
            Api::SaslAuthenticate,
            |out| sasl_authenticate(out, CORRELATION, b"\0alice\0secret"),
            &SaslAuthenticateRequest::default()
                .with_auth_bytes(Bytes::from_static(b"\0alice\0secret")),
        );
    }

    #[test]
    fn a_buffer_that_has_grown_once_is_not_grown_again() {
        let batch = [7; 1000];
        let mut out = Vec::new();
        produce(&mut out, 1, 1, 1000, "clicks", 0, &batch);
        let capacity = out.capacity();
        for correlation in 2..100 {
            out.clear();
            produce(&mut out, correlation, 1, 1000, "clicks", 0, &batch);
        }
        assert_eq!(out.capacity(), capacity);
    }
}
