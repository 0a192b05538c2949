//! ApiVersions: what a client asks first.

use super::{Group, answer, frame, newest, open, read, text};
use bytes::BytesMut;
use felix_kafka::codec::ApiKey;
use felix_kafka::codec::api_versions::{Request, Response};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

const API: ApiKey = ApiKey::ApiVersions;

const SOFTWARE: &str = "some-client";

pub(super) fn measure(group: &mut Group<'_>) {
    let version = newest(API);
    let frame = request();
    assert_eq!(decode(&frame).client_software_name, SOFTWARE);
    group.bench_function(format!("api_versions_v{version}_request"), |bencher| {
        bencher.iter(|| decode(&frame));
    });
    // The handler makes it anew for each request, too.
    let write = || {
        answer(API, |version, writer| {
            Response::served().encode(version, writer)
        })
    };
    let read: ApiVersionsResponse = read(API, &write());
    let told = read
        .api_keys
        .iter()
        .map(|api| (api.api_key, api.max_version));
    assert!(told.eq(ApiKey::ALL.map(|api| (api.wire(), newest(api)))));
    group.bench_function(format!("api_versions_v{version}_answer"), |bencher| {
        bencher.iter(write);
    });
}

fn request() -> BytesMut {
    let body = ApiVersionsRequest::default()
        .with_client_software_name(text(SOFTWARE))
        .with_client_software_version(text("1.2.3"));
    frame(API, &body)
}

fn decode(frame: &[u8]) -> Request<'_> {
    let mut cursor = open(API, frame);
    Request::decode(newest(API), &mut cursor).expect("the request is well formed")
}
