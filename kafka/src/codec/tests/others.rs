//! ApiVersions, FindCoordinator and InitProducerId.

use super::*;
use crate::codec::{api_versions, find_coordinator, init_producer_id};
use std::borrow::Cow;

proptest! {
    #[test]
    fn api_versions_requests_of_every_version_are_read_as_they_were_meant(
        name in text(),
        software_version in text(),
    ) {
        const API: ApiKey = ApiKey::ApiVersions;
        for version in advertised(API) {
            let mut sent = oracle::ApiVersionsRequest::default();
            if version >= 3 {
                sent.client_software_name = text_of(&name);
                sent.client_software_version = text_of(&software_version);
                sent.unknown_tagged_fields = tags(true);
            }
            let frame = request_frame(API, version, &sent);
            let mut body = open(API, version, &frame);
            let read = api_versions::Request::decode(version, &mut body).unwrap();
            prop_assert_eq!(read.client_software_name, sent.client_software_name.as_str());
            prop_assert_eq!(read.client_software_version, sent.client_software_version.as_str());
        }
    }

    #[test]
    fn find_coordinator_requests_of_every_version_are_read_as_they_were_meant(
        keys in few(text()),
        key in text(),
        key_type: i8,
    ) {
        const API: ApiKey = ApiKey::FindCoordinator;
        for version in advertised(API) {
            let mut sent = oracle::FindCoordinatorRequest::default();
            if version >= 1 {
                sent.key_type = key_type;
            }
            let keys = if version >= 4 { keys.clone() } else { vec![key.clone()] };
            if version >= 4 {
                sent.coordinator_keys = keys.iter().map(|key| text_of(key)).collect();
            } else {
                sent.key = text_of(&key);
            }
            sent.unknown_tagged_fields = tags(API.is_flexible(version));
            let frame = request_frame(API, version, &sent);
            let mut body = open(API, version, &frame);
            let read = find_coordinator::Request::decode(version, &mut body).unwrap();
            prop_assert_eq!(read.keys, keys);
            prop_assert_eq!(read.key_type, sent.key_type);
        }
    }

    #[test]
    fn find_coordinator_answers_of_every_version_are_read_by_others_as_they_were_meant(
        throttle_time_ms: i32,
        answers in prop::collection::vec((
            text(), any::<i32>(), text(), any::<i32>(), error_code(), prop::option::of(text()),
        ), 1..4),
    ) {
        const API: ApiKey = ApiKey::FindCoordinator;
        for version in advertised(API) {
            let answers = if version >= 4 { &answers[..] } else { &answers[..1] };
            let response = find_coordinator::Response {
                throttle_time_ms,
                coordinators: answers.iter().map(|answer| find_coordinator::Coordinator {
                    key: &answer.0,
                    node_id: answer.1,
                    host: &answer.2,
                    port: answer.3,
                    error_code: answer.4,
                    error_message: answer.5.as_deref().map(Cow::Borrowed),
                }).collect(),
            };
            let read: oracle::FindCoordinatorResponse =
                answer(API, version, |writer| response.encode(version, writer));
            check_coordinators(version, &response, &read);
        }
    }

    #[test]
    fn init_producer_id_requests_of_every_version_are_read_as_they_were_meant(
        transactional_id in prop::option::of(text()),
        transaction_timeout_ms: i32,
        producer_id: i64,
        producer_epoch: i16,
    ) {
        const API: ApiKey = ApiKey::InitProducerId;
        for version in advertised(API) {
            let (producer_id, producer_epoch) =
                if version >= 3 { (producer_id, producer_epoch) } else { (-1, -1) };
            let sent = oracle::InitProducerIdRequest::default()
                .with_transactional_id(transactional_id.as_deref().map(|id| text_of(id).into()))
                .with_transaction_timeout_ms(transaction_timeout_ms)
                .with_producer_id(producer_id.into())
                .with_producer_epoch(producer_epoch)
                .with_unknown_tagged_fields(tags(API.is_flexible(version)));
            let frame = request_frame(API, version, &sent);
            let mut body = open(API, version, &frame);
            let read = init_producer_id::Request::decode(version, &mut body).unwrap();
            prop_assert_eq!(read, init_producer_id::Request {
                transactional_id: transactional_id.as_deref(),
                transaction_timeout_ms,
                producer_id,
                producer_epoch,
            });
        }
    }

    #[test]
    fn init_producer_id_answers_of_every_version_are_read_by_others_as_they_were_meant(
        throttle_time_ms: i32,
        error_code in error_code(),
        producer_id: i64,
        producer_epoch: i16,
    ) {
        const API: ApiKey = ApiKey::InitProducerId;
        let response = init_producer_id::Response {
            throttle_time_ms,
            error_code,
            producer_id,
            producer_epoch,
        };
        for version in advertised(API) {
            let read: oracle::InitProducerIdResponse =
                answer(API, version, |writer| response.encode(version, writer));
            prop_assert_eq!(read.throttle_time_ms, throttle_time_ms);
            prop_assert_eq!(read.error_code, error_code.wire());
            prop_assert_eq!(read.producer_id.0, producer_id);
            prop_assert_eq!(read.producer_epoch, producer_epoch);
        }
    }
}

fn check_coordinators(
    version: i16,
    sent: &find_coordinator::Response<'_>,
    read: &oracle::FindCoordinatorResponse,
) {
    assert_eq!(
        read.throttle_time_ms,
        if version >= 1 {
            sent.throttle_time_ms
        } else {
            0
        }
    );
    if version < 4 {
        let [sent] = &sent.coordinators[..] else {
            panic!("one answer")
        };
        assert_eq!(read.error_code, sent.error_code.wire());
        let message = sent.error_message.as_deref().filter(|_| version >= 1);
        // A version without the field reads as the field's default, which is empty.
        assert_eq!(
            read.error_message.as_deref().filter(|_| version >= 1),
            message
        );
        assert_eq!(
            (read.node_id.0, &*read.host, read.port),
            (sent.node_id, sent.host, sent.port)
        );
        return;
    }
    assert_eq!(read.coordinators.len(), sent.coordinators.len());
    for (read, sent) in read.coordinators.iter().zip(&sent.coordinators) {
        assert_eq!(&*read.key, sent.key);
        assert_eq!(
            (read.node_id.0, &*read.host, read.port),
            (sent.node_id, sent.host, sent.port)
        );
        assert_eq!(read.error_code, sent.error_code.wire());
        assert_eq!(read.error_message.as_deref(), sent.error_message.as_deref());
    }
}

#[test]
fn what_is_served_is_told_in_every_version_of_api_versions() {
    const API: ApiKey = ApiKey::ApiVersions;
    for version in advertised(API) {
        let response = api_versions::Response {
            throttle_time_ms: 9,
            ..api_versions::Response::served()
        };
        let read: oracle::ApiVersionsResponse =
            answer(API, version, |writer| response.encode(version, writer));
        assert_eq!(read.error_code, 0);
        assert_eq!(read.throttle_time_ms, if version >= 1 { 9 } else { 0 });
        let told: Vec<_> = read
            .api_keys
            .iter()
            .map(|told| (told.api_key, told.min_version, told.max_version))
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
fn api_versions_too_new_is_answered_in_the_layout_of_version_0() {
    let response = api_versions::Response::unsupported_version();
    let bytes = answer_bytes(ApiKey::ApiVersions, 0, |writer| response.encode(0, writer));
    let expected = [
        0x12, 0x34, 0x56, 0x78, // correlation id, and no tagged fields after it
        0, 35, // UNSUPPORTED_VERSION
        0, 0, 0, 1, // APIs
        0, 18, 0, 0, 0, 4, // ApiVersions, 0 to 4
    ];
    assert_eq!(bytes[..], expected);
}
