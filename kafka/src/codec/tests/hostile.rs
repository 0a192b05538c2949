//! Bytes that are no request, or lie about what follows.

use super::*;
use crate::codec::{
    DecodeError, Fault, api_versions, describe_cluster, fetch, find_coordinator, init_producer_id,
    list_offsets, metadata, offset_for_leader_epoch, produce, sasl_authenticate, sasl_handshake,
};
use felix_core::limits::REQUEST_ELEMENTS_MAX;
use oracle::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use oracle::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use oracle::metadata_request::MetadataRequestTopic;
use oracle::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use oracle::produce_request::{PartitionProduceData, TopicProduceData};

/// Reads a body at the cursor's place, of any API.
fn decode_body(api: ApiKey, version: i16, mut cursor: Cursor<'_>) -> Result<(), DecodeError> {
    let cursor = &mut cursor;
    match api {
        ApiKey::Produce => {
            // It takes the frame over, so it is given one of its own.
            let body = cursor.position();
            let mut frame = BytesMut::zeroed(body);
            frame.put_slice(cursor.take(cursor.remaining())?);
            produce::Request::decode(version, frame, body).map(drop)
        }
        ApiKey::Fetch => fetch::Request::decode(version, cursor).map(drop),
        ApiKey::ListOffsets => list_offsets::Request::decode(version, cursor).map(drop),
        ApiKey::Metadata => metadata::Request::decode(version, cursor).map(drop),
        ApiKey::FindCoordinator => find_coordinator::Request::decode(version, cursor).map(drop),
        ApiKey::ApiVersions => api_versions::Request::decode(version, cursor).map(drop),
        ApiKey::InitProducerId => init_producer_id::Request::decode(version, cursor).map(drop),
        ApiKey::OffsetForLeaderEpoch => {
            offset_for_leader_epoch::Request::decode(version, cursor).map(drop)
        }
        ApiKey::DescribeCluster => describe_cluster::Request::decode(version, cursor).map(drop),
        ApiKey::SaslHandshake => sasl_handshake::Request::decode(version, cursor).map(drop),
        ApiKey::SaslAuthenticate => sasl_authenticate::Request::decode(version, cursor).map(drop),
    }
}

/// Reads a whole frame: what a connection does.
fn decode_frame(frame: &[u8]) -> Result<(), DecodeError> {
    let mut cursor = Cursor::new(frame);
    let header = RequestHeader::decode(&mut cursor)?;
    match header.support {
        Support::Served(api) => decode_body(api, header.api_version, cursor),
        Support::ApiVersionsUnsupported | Support::Unsupported => Ok(()),
    }
}

/// A request of every API and version, with every array filled. Produce 0 to 2 excepted.
fn samples() -> Vec<(ApiKey, i16, BytesMut)> {
    let versions = |api: ApiKey| advertised(api).map(move |version| (api, version));
    let all = ApiKey::ALL.into_iter().flat_map(versions);
    let made = all.filter(|(api, version)| *api != ApiKey::Produce || *version >= 3);
    made.map(|(api, version)| (api, version, sample(api, version)))
        .collect()
}

fn sample(api: ApiKey, version: i16) -> BytesMut {
    match api {
        ApiKey::Produce => {
            let partition = PartitionProduceData::default()
                .with_index(3)
                .with_records(Some(Bytes::from_static(b"records")));
            let topic = TopicProduceData::default()
                .with_name(topic_name("topic"))
                .with_partition_data(vec![partition.clone(), partition]);
            let request = oracle::ProduceRequest::default()
                .with_transactional_id(Some(text_of("id").into()))
                .with_topic_data(vec![topic.clone(), topic]);
            request_frame(api, version, &request)
        }
        ApiKey::Fetch => request_frame(api, version, &fetch_sample(version)),
        ApiKey::ListOffsets => {
            let topic = ListOffsetsTopic::default()
                .with_name(topic_name("topic"))
                .with_partitions(vec![ListOffsetsPartition::default(); 2]);
            let request = oracle::ListOffsetsRequest::default().with_topics(vec![topic; 2]);
            request_frame(api, version, &request)
        }
        ApiKey::Metadata => {
            let topic = MetadataRequestTopic::default().with_name(Some(topic_name("topic")));
            let request = oracle::MetadataRequest::default().with_topics(Some(vec![topic; 3]));
            request_frame(api, version, &request)
        }
        ApiKey::FindCoordinator => {
            let mut request = oracle::FindCoordinatorRequest::default();
            if version >= 4 {
                request.coordinator_keys = vec![text_of("group"); 3];
            } else {
                request.key = text_of("group");
            }
            request_frame(api, version, &request)
        }
        ApiKey::ApiVersions => request_frame(api, version, &oracle::ApiVersionsRequest::default()),
        ApiKey::InitProducerId => {
            let request = oracle::InitProducerIdRequest::default()
                .with_transactional_id(Some(text_of("id").into()));
            request_frame(api, version, &request)
        }
        ApiKey::OffsetForLeaderEpoch => {
            let topic = OffsetForLeaderTopic::default()
                .with_topic(topic_name("topic"))
                .with_partitions(vec![OffsetForLeaderPartition::default(); 2]);
            let request =
                oracle::OffsetForLeaderEpochRequest::default().with_topics(vec![topic; 2]);
            request_frame(api, version, &request)
        }
        ApiKey::DescribeCluster => {
            request_frame(api, version, &oracle::DescribeClusterRequest::default())
        }
        ApiKey::SaslHandshake => {
            let request = oracle::SaslHandshakeRequest::default().with_mechanism(text_of("PLAIN"));
            request_frame(api, version, &request)
        }
        ApiKey::SaslAuthenticate => {
            let message = Bytes::from_static(b"\0tenant\0token");
            let request = oracle::SaslAuthenticateRequest::default().with_auth_bytes(message);
            request_frame(api, version, &request)
        }
    }
}

fn fetch_sample(version: i16) -> oracle::FetchRequest {
    let topic = FetchTopic::default()
        .with_topic(topic_name("topic"))
        .with_partitions(vec![FetchPartition::default(); 2]);
    let mut request = oracle::FetchRequest::default().with_topics(vec![topic; 2]);
    if version >= 7 {
        let forgotten = ForgottenTopic::default()
            .with_topic(topic_name("topic"))
            .with_partitions(vec![1, 2]);
        request.forgotten_topics_data = vec![forgotten; 2];
    }
    request
}

#[test]
fn a_request_cut_short_at_any_byte_is_an_error() {
    for (api, version, frame) in samples() {
        decode_frame(&frame).unwrap();
        for length in 0..frame.len() {
            let cut = &frame[..length];
            assert!(
                decode_frame(cut).is_err(),
                "{api:?} {version} cut to {length} bytes"
            );
        }
    }
}

#[test]
fn a_request_with_bytes_left_over_is_an_error() {
    for (api, version, mut frame) in samples() {
        let at = frame.len();
        frame.put_u8(0);
        let error = decode_frame(&frame).unwrap_err();
        assert_eq!(
            error,
            DecodeError {
                at,
                fault: Fault::Trailing(1)
            },
            "{api:?} {version}"
        );
    }
}

#[test]
fn no_byte_of_a_request_can_be_changed_into_a_panic() {
    for (_, _, frame) in samples() {
        for at in 0..frame.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = frame.clone();
                changed[at] = byte;
                drop(decode_frame(&changed));
            }
        }
    }
}

#[test]
fn an_array_longer_than_the_frame_is_refused_before_it_is_allocated() {
    // Metadata 1: a classic array.
    let classic = i32::MAX.to_be_bytes();
    let mut body = [0; 40];
    body[..4].copy_from_slice(&classic);
    let error = metadata::Request::decode(1, &mut Cursor::new(&body)).unwrap_err();
    let count = i32::MAX.cast_unsigned() as usize;
    assert_eq!(
        error,
        DecodeError {
            at: 4,
            fault: Fault::Count { count, left: 36 }
        }
    );

    // Metadata 9: a compact one.
    let mut body = [0; 40];
    body[..5].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    let error = metadata::Request::decode(9, &mut Cursor::new(&body)).unwrap_err();
    let count = u32::MAX as usize - 1;
    assert_eq!(
        error,
        DecodeError {
            at: 5,
            fault: Fault::Count { count, left: 35 }
        }
    );
}

#[test]
fn negative_lengths_and_nulls_are_refused_where_there_can_be_none() {
    for length in [-2, i32::MIN] {
        let body = length.to_be_bytes();
        let error = metadata::Request::decode(1, &mut Cursor::new(&body)).unwrap_err();
        assert_eq!(error.fault, Fault::NegativeLength(length));
    }
    // A null array of topics in version 0, a null name, a name of length -2.
    for (body, fault) in [
        (&[255, 255, 255, 255][..], Fault::NegativeLength(-1)),
        (&[0, 0, 0, 1, 255, 255], Fault::NegativeLength(-1)),
        (&[0, 0, 0, 1, 255, 254], Fault::NegativeLength(-2)),
        (&[0, 0, 0, 1, 0, 1, 0xff], Fault::Utf8),
        (
            &[0, 0, 0, 1, 0, 2, b'a'],
            Fault::Truncated { needed: 2, left: 1 },
        ),
    ] {
        let error = metadata::Request::decode(0, &mut Cursor::new(body)).unwrap_err();
        assert_eq!(error.fault, fault);
    }
}

#[test]
fn a_request_of_more_elements_than_anyone_needs_is_refused() {
    let body = |topics: usize| {
        let mut body = Vec::new();
        body.put_u32(topics.try_into().unwrap());
        body.extend(vec![0; topics * 2]); // empty names
        body
    };
    let most = body(REQUEST_ELEMENTS_MAX);
    let read = metadata::Request::decode(1, &mut Cursor::new(&most)).unwrap();
    assert_eq!(read.topics.unwrap().len(), REQUEST_ELEMENTS_MAX);

    let too_many = body(REQUEST_ELEMENTS_MAX + 1);
    let error = metadata::Request::decode(1, &mut Cursor::new(&too_many)).unwrap_err();
    assert_eq!(error.fault, Fault::Elements);
}

#[test]
fn the_bound_on_elements_counts_nested_arrays_together() {
    // Two topics, each with more than half of the elements allowed.
    let partitions = REQUEST_ELEMENTS_MAX / 2 + 1;
    let mut body = vec![0; 4];
    body.put_u32(2);
    for _ in 0..2 {
        body.put_u16(0);
        body.put_u32(partitions.try_into().unwrap());
        body.extend(vec![0; partitions * 12]);
    }
    let error = list_offsets::Request::decode(1, &mut Cursor::new(&body)).unwrap_err();
    assert_eq!(error.fault, Fault::Elements);
}

#[test]
fn a_version_that_is_not_advertised_is_never_decoded() {
    for api in ApiKey::ALL {
        let versions = api.versions();
        for version in [i16::MIN, -1, versions.min - 1, versions.max + 1, i16::MAX] {
            let error = decode_body(api, version, Cursor::new(&[0; 64])).unwrap_err();
            assert_eq!(error.fault, Fault::Version(version), "{api:?}");
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(decode_frame(&bytes));
        for api in ApiKey::ALL {
            for version in advertised(api) {
                drop(decode_body(api, version, Cursor::new(&bytes)));
            }
        }
    }

    #[test]
    fn random_small_numbers_never_panic(bytes in prop::collection::vec(0_u8..4, 0..200)) {
        // Small lengths and counts get deeper than random ones.
        for api in ApiKey::ALL {
            for version in advertised(api) {
                drop(decode_body(api, version, Cursor::new(&bytes)));
            }
        }
    }
}
