//! The codec held against an independent implementation of the protocol, in both directions and at
//! every version; and against hostile bytes.

#![allow(
    clippy::indexing_slicing,
    reason = "a test that indexes wrongly should fail"
)]

mod cluster;
mod epochs;
mod fetch;
mod framing;
mod hostile;
mod list_offsets;
mod metadata;
mod others;
mod produce;
mod sasl;

use super::{
    ApiKey, CurrentLeader, Cursor, ErrorCode, NodeEndpoint, RequestHeader, Support, Writer,
};
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages as oracle;
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const CORRELATION_ID: i32 = 0x1234_5678;
const CLIENT_ID: &str = "a clïent";

fn oracle_key(api: ApiKey) -> oracle::ApiKey {
    oracle::ApiKey::try_from(api.wire()).unwrap()
}

fn advertised(api: ApiKey) -> RangeInclusive<i16> {
    let versions = api.versions();
    versions.min..=versions.max
}

/// Encodes a request with the oracle: a whole frame without its length prefix.
fn request_frame(api: ApiKey, version: i16, body: &impl Encodable) -> BytesMut {
    let mut frame = BytesMut::new();
    let header_version = oracle_key(api).request_header_version(version);
    oracle::RequestHeader::default()
        .with_request_api_key(api.wire())
        .with_request_api_version(version)
        .with_correlation_id(CORRELATION_ID)
        .with_client_id(Some(StrBytes::from_static_str(CLIENT_ID)))
        .with_unknown_tagged_fields(tags(header_version >= 2))
        .encode(&mut frame, header_version)
        .unwrap();
    body.encode(&mut frame, version).unwrap();
    frame
}

/// Reads the header of a frame made by [`request_frame`]; the cursor is at the body.
fn open(api: ApiKey, version: i16, frame: &[u8]) -> Cursor<'_> {
    let mut cursor = Cursor::new(frame);
    let header = RequestHeader::decode(&mut cursor).unwrap();
    let support = Support::Served(api);
    let expected = RequestHeader {
        api_key: api.wire(),
        api_version: version,
        correlation_id: CORRELATION_ID,
        client_id: CLIENT_ID,
        support,
    };
    assert_eq!(header, expected);
    cursor
}

/// Encodes an answer here and decodes it with the oracle, header and all.
fn answer<R: Decodable>(api: ApiKey, version: i16, encode: impl FnOnce(&mut Writer)) -> R {
    let mut bytes = answer_bytes(api, version, encode);
    let header_version = oracle_key(api).response_header_version(version);
    let header = oracle::ResponseHeader::decode(&mut bytes, header_version).unwrap();
    assert_eq!(header.correlation_id, CORRELATION_ID);
    let response = R::decode(&mut bytes, version).unwrap();
    assert!(
        bytes.is_empty(),
        "{} bytes left over in version {version}",
        bytes.len()
    );
    response
}

/// Encodes an answer; its length prefix is checked and cut off.
fn answer_bytes(api: ApiKey, version: i16, encode: impl FnOnce(&mut Writer)) -> Bytes {
    let mut writer = Writer::response(api, version, CORRELATION_ID);
    encode(&mut writer);
    let pieces = writer.finish();
    assert!(pieces.iter().all(|piece| !piece.is_empty()));
    let mut bytes = Bytes::from(pieces.concat());
    let length = bytes.split_to(4);
    assert_eq!(
        u32::from_be_bytes(length[..].try_into().unwrap()) as usize,
        bytes.len()
    );
    bytes
}

/// Tagged fields no version knows, in a flexible version.
fn tags(flexible: bool) -> BTreeMap<i32, Bytes> {
    let some = [
        (77, Bytes::from_static(b"?")),
        (300, Bytes::new()),
        (301, vec![1; 200].into()),
    ];
    if flexible {
        BTreeMap::from(some)
    } else {
        BTreeMap::new()
    }
}

fn text_of(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name(name: &str) -> oracle::TopicName {
    oracle::TopicName(text_of(name))
}

/// Strings: empty, plain, of any characters, and longer than one byte of a varint tells.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z._-]{1,20}",
        "\\PC{1,12}",
        "[a-z]{120,300}"
    ]
}

fn error_code() -> impl Strategy<Value = ErrorCode> {
    prop::sample::select(&ErrorCode::ALL[..])
}

fn current_leader() -> impl Strategy<Value = Option<CurrentLeader>> {
    let leader = any::<(i32, i32)>();
    prop::option::of(leader.prop_map(|(leader_id, leader_epoch)| CurrentLeader {
        leader_id,
        leader_epoch,
    }))
}

/// Up to four of something, none included.
fn few<T: std::fmt::Debug>(element: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(element, 0..4)
}
