//! The Kafka wire, one API a file: a request read from its frame, header and body, and an answer
//! written, from the structure that says what is in it to the pieces to be sent.
//!
//! Each in the newest version that is served, with names and numbers as a real client has them.
//! Shows what the wire costs. Does not show the handler between the two, nor the socket. No record
//! is copied but where `produce` says so.

mod api_versions;
mod fetch;
mod list_offsets;
mod metadata;
mod produce;

use bytes::{Bytes, BytesMut};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use felix_kafka::codec::{ApiKey, Cursor, RequestHeader, Support, Writer};
use kafka_protocol::messages as oracle;
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

/// What all names in the requests begin with.
const TOPIC: &str = "default.orders-placed";

const CORRELATION_ID: i32 = 4711;

/// Partitions of a topic that is asked about.
const PARTITIONS: i32 = 12;

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codec");
    produce::measure(&mut group);
    fetch::measure(&mut group);
    metadata::measure(&mut group);
    list_offsets::measure(&mut group);
    api_versions::measure(&mut group);
    group.finish();
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// The newest version that is served.
fn newest(api: ApiKey) -> i16 {
    api.versions().max
}

/// A request as another implementation writes it: a whole frame without its length prefix.
fn frame(api: ApiKey, body: &impl Encodable) -> BytesMut {
    let mut frame = BytesMut::new();
    let key = oracle::ApiKey::try_from(api.wire()).expect("both know the API");
    let version = newest(api);
    oracle::RequestHeader::default()
        .with_request_api_key(api.wire())
        .with_request_api_version(version)
        .with_correlation_id(CORRELATION_ID)
        .with_client_id(Some(text("orders-service-7")))
        .encode(&mut frame, key.request_header_version(version))
        .expect("the version has such a header");
    body.encode(&mut frame, version)
        .expect("the version has such a body");
    frame
}

/// Reads the header; the cursor is then at the body.
fn open(api: ApiKey, frame: &[u8]) -> Cursor<'_> {
    let mut cursor = Cursor::new(frame);
    let header = RequestHeader::decode(&mut cursor).expect("the request is well formed");
    assert_eq!(header.support, Support::Served(api));
    cursor
}

/// Writes an answer.
fn answer(api: ApiKey, encode: impl FnOnce(i16, &mut Writer)) -> Vec<Bytes> {
    let version = newest(api);
    let mut writer = Writer::response(api, version, CORRELATION_ID);
    encode(version, &mut writer);
    writer.finish()
}

/// An answer as another implementation reads it.
fn read<R: Decodable>(api: ApiKey, pieces: &[Bytes]) -> R {
    let mut bytes = Bytes::from(pieces.concat());
    let length = bytes.split_to(size_of::<u32>());
    assert_eq!(
        usize::try_from(i32::from_be_bytes(
            length[..].try_into().expect("four bytes")
        )),
        Ok(bytes.len())
    );
    let version = newest(api);
    let key = oracle::ApiKey::try_from(api.wire()).expect("both know the API");
    let header = oracle::ResponseHeader::decode(&mut bytes, key.response_header_version(version))
        .expect("the version has such a header");
    assert_eq!(header.correlation_id, CORRELATION_ID);
    let response = R::decode(&mut bytes, version).expect("the version has such a body");
    assert!(bytes.is_empty(), "nothing is left over");
    response
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
