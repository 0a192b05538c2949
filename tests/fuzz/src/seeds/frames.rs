//! Kafka requests of every API and version, encoded by an independent implementation.

use super::Seed;
use super::batches::{self, lies, plain};
use super::bombs::bomb;
use crate::bench::{TENANT, TOKEN};
use crate::targets::codec::CODECS;
use bytes::{Bytes, BytesMut};
use felix_core::batch::Codec;
use felix_core::limits::BATCH_DECOMPRESSED_BYTES_MAX;
use felix_kafka::codec::ApiKey;
use kafka_protocol::messages as oracle;
use kafka_protocol::protocol::{Encodable, StrBytes};
use oracle::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use oracle::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use oracle::metadata_request::MetadataRequestTopic;
use oracle::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use oracle::produce_request::{PartitionProduceData, TopicProduceData};

/// The topic that the seeds speak of.
pub const TOPIC: &str = "default.clicks";

/// Every API and version served, but for the versions of Produce that are only refused.
pub fn served() -> impl Iterator<Item = (ApiKey, i16)> {
    let versions = |api: ApiKey| {
        let versions = api.versions();
        (versions.min..=versions.max).map(move |version| (api, version))
    };
    let all = ApiKey::ALL.into_iter().flat_map(versions);
    all.filter(|(api, version)| *api != ApiKey::Produce || *version >= 3)
}

/// A frame without its length.
fn frame(api: ApiKey, version: i16, id: i32, body: &impl Encodable) -> Vec<u8> {
    let key = oracle::ApiKey::try_from(api.wire()).expect("the oracle knows it");
    let mut frame = BytesMut::new();
    oracle::RequestHeader::default()
        .with_request_api_key(api.wire())
        .with_request_api_version(version)
        .with_correlation_id(id)
        .with_client_id(Some(StrBytes::from_static_str("fuzz")))
        .encode(&mut frame, key.request_header_version(version))
        .expect("the header is valid");
    body.encode(&mut frame, version).expect("the body is valid");
    frame.to_vec()
}

/// With its length.
#[must_use]
pub fn framed(frame: &[u8]) -> Vec<u8> {
    let length = i32::try_from(frame.len()).expect("a frame is small");
    [&length.to_be_bytes(), frame].concat()
}

fn topic_name(topic: &str) -> oracle::TopicName {
    oracle::TopicName(StrBytes::from_string(topic.to_owned()))
}

/// A Produce of one batch, whatever it is.
#[must_use]
pub fn produce(version: i16, id: i32, topic: &str, acks: i16, records: &[u8]) -> Vec<u8> {
    let partition = PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(Bytes::copy_from_slice(records)));
    let topic = TopicProduceData::default()
        .with_name(topic_name(topic))
        .with_partition_data(vec![partition]);
    let request = oracle::ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(1000)
        .with_topic_data(vec![topic]);
    frame(ApiKey::Produce, version, id, &request)
}

fn list_offsets(topic: &str) -> oracle::ListOffsetsRequest {
    let partition = |index, timestamp| {
        ListOffsetsPartition::default()
            .with_partition_index(index)
            .with_current_leader_epoch(-1)
            .with_timestamp(timestamp)
    };
    let topic = ListOffsetsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition(0, 5), partition(1, -1), partition(2, -2)]);
    oracle::ListOffsetsRequest::default().with_topics(vec![topic])
}

/// A valid request about `topic`.
#[must_use]
pub fn request(api: ApiKey, version: i16, id: i32, topic: &str) -> Vec<u8> {
    match api {
        ApiKey::Produce => produce(version, id, topic, 1, &plain(2, Codec::None)),
        ApiKey::Fetch => frame(api, version, id, &fetch(version, topic)),
        ApiKey::ListOffsets => frame(api, version, id, &list_offsets(topic)),
        ApiKey::Metadata => {
            let topic = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
            let request = oracle::MetadataRequest::default().with_topics(Some(vec![topic; 2]));
            frame(api, version, id, &request)
        }
        ApiKey::FindCoordinator => {
            let group = StrBytes::from_static_str("group");
            let mut request = oracle::FindCoordinatorRequest::default();
            if version >= 4 {
                request.coordinator_keys = vec![group; 2];
            } else {
                request.key = group;
            }
            frame(api, version, id, &request)
        }
        ApiKey::ApiVersions => {
            let request = oracle::ApiVersionsRequest::default()
                .with_client_software_name(StrBytes::from_static_str("fuzz"))
                .with_client_software_version(StrBytes::from_static_str("1"));
            let default = oracle::ApiVersionsRequest::default();
            frame(
                api,
                version,
                id,
                if version >= 3 { &request } else { &default },
            )
        }
        ApiKey::InitProducerId => {
            frame(api, version, id, &oracle::InitProducerIdRequest::default())
        }
        ApiKey::OffsetForLeaderEpoch => {
            let partition = |index, epoch| {
                OffsetForLeaderPartition::default()
                    .with_partition(index)
                    .with_current_leader_epoch(-1)
                    .with_leader_epoch(epoch)
            };
            let topic = OffsetForLeaderTopic::default()
                .with_topic(topic_name(topic))
                .with_partitions(vec![partition(0, 1), partition(1, -1), partition(2, 9)]);
            let request = oracle::OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
            frame(api, version, id, &request)
        }
        ApiKey::DescribeCluster => {
            frame(api, version, id, &oracle::DescribeClusterRequest::default())
        }
        ApiKey::SaslHandshake => {
            let mechanism = StrBytes::from_static_str("PLAIN");
            let request = oracle::SaslHandshakeRequest::default().with_mechanism(mechanism);
            frame(api, version, id, &request)
        }
        ApiKey::SaslAuthenticate => {
            let message = Bytes::from_static(b"\0tenant\0token");
            let request = oracle::SaslAuthenticateRequest::default().with_auth_bytes(message);
            frame(api, version, id, &request)
        }
    }
}

fn fetch(version: i16, topic: &str) -> oracle::FetchRequest {
    let partition = FetchPartition::default()
        .with_current_leader_epoch(-1)
        .with_partition_max_bytes(1 << 20);
    let wanted = FetchTopic::default()
        .with_topic(topic_name(topic))
        .with_partitions(vec![partition]);
    let mut request = oracle::FetchRequest::default()
        .with_max_wait_ms(0)
        .with_max_bytes(1 << 20)
        .with_session_epoch(if version >= 7 { -1 } else { 0 })
        .with_topics(vec![wanted]);
    if version >= 7 {
        let forgotten = ForgottenTopic::default()
            .with_topic(topic_name(topic))
            .with_partitions(vec![1, 2]);
        request.forgotten_topics_data = vec![forgotten];
    }
    request
}

/// Frames that are refused, without their length.
#[must_use]
pub fn refused() -> Vec<(&'static str, Vec<u8>)> {
    let header = |api: i16, version: i16| {
        let mut frame = Vec::new();
        frame.extend(api.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend([0, 0, 0, 1, 0xff, 0xff]);
        frame
    };
    let with = |api, version, body: &[u8]| [&header(api, version)[..], body].concat();
    let mut trailing = request(ApiKey::Metadata, 9, 1, TOPIC);
    trailing.push(0);
    let whole = request(ApiKey::Fetch, 12, 1, TOPIC);
    vec![
        ("api-unknown", with(999, 0, b"")),
        ("api-negative", with(-1, 0, b"")),
        ("version-unknown", with(1, 99, b"")),
        ("version-negative", with(3, -1, b"")),
        ("header-cut", vec![0, 3, 0]),
        ("count-huge", with(3, 1, &i32::MAX.to_be_bytes())),
        ("count-negative", with(3, 1, &(-2_i32).to_be_bytes())),
        (
            "count-compact-huge",
            with(3, 9, &[0, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        ),
        (
            "count-filled",
            with(
                3,
                1,
                &[&1_000_000_i32.to_be_bytes()[..], &[0; 9000]].concat(),
            ),
        ),
        ("varint-endless", with(3, 9, &[0xff; 40])),
        ("tags-huge", with(3, 9, &[0xff, 0xff, 0xff, 0xff, 0x0f])),
        (
            "string-not-utf8",
            with(3, 0, &[0, 0, 0, 1, 0, 2, 0xff, 0xfe]),
        ),
        ("string-huge", with(3, 0, &[0, 0, 0, 1, 0x7f, 0xff, b'a'])),
        ("cut", whole[..whole.len() - 3].to_vec()),
        ("trailing", trailing),
    ]
}

/// Frames, whole or not, without their length.
#[must_use]
pub fn requests() -> Vec<Seed> {
    let served = served().map(|(api, version)| {
        let name = format!("{}-{version}", api.name());
        Seed::ok(name, request(api, version, 7, TOPIC))
    });
    let refused = refused()
        .into_iter()
        .map(|(name, bytes)| Seed::bad(name, bytes));
    served.chain(refused).collect()
}

/// Requests that change whom a connection speaks for, so that they have an order.
fn is_sasl(api: ApiKey) -> bool {
    matches!(api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate)
}

/// Connections that authenticate, and then ask for something else.
fn authentications(then: &[u8]) -> Vec<Seed> {
    let shake = |version| request(ApiKey::SaslHandshake, version, 1, TOPIC);
    let plain = |token: &str| format!("\0{TENANT}\0{token}").into_bytes();
    let show = |version, token: &str| {
        let message = Bytes::from(plain(token));
        let request = oracle::SaslAuthenticateRequest::default().with_auth_bytes(message);
        frame(ApiKey::SaslAuthenticate, version, 2, &request)
    };
    let sent = |how: u8, frames: &[&[u8]]| {
        let frames: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        [&[how][..], &frames].concat()
    };
    let mut seeds = Vec::new();
    for version in 0..=2 {
        let frames = [&*shake(1), &*show(version, TOKEN), then];
        seeds.push(Seed::ok(format!("sasl-{version}"), sent(1, &frames)));
        let frames = [&*shake(1), &*show(version, "another"), then];
        seeds.push(Seed::bad(format!("sasl-{version}-token"), sent(1, &frames)));
    }
    let raw = sent(1, &[&shake(0), &plain(TOKEN), then]);
    seeds.push(Seed::ok("sasl-raw", raw));
    let raw = sent(0, &[&shake(0), &plain("another"), then]);
    seeds.push(Seed::bad("sasl-raw-token", raw));
    seeds.push(Seed::bad("sasl-order", sent(0, &[&show(2, TOKEN)])));
    seeds.push(Seed::bad("sasl-twice", sent(0, &[&shake(1), &shake(1)])));
    seeds
}

/// Everything one connection sends, behind a byte that says how.
#[must_use]
pub fn connections() -> Vec<Seed> {
    let sent = |how: u8, frames: &[Vec<u8>]| {
        let frames: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        [&[how][..], &frames].concat()
    };
    let mut seeds = Vec::new();
    let others = ApiKey::ALL.into_iter().filter(|api| !is_sasl(*api));
    for api in others.clone() {
        let versions = served().filter(|(served, _)| *served == api);
        let frames: Vec<_> = (1..)
            .zip(versions)
            .map(|(id, (api, version))| request(api, version, id, TOPIC))
            .collect();
        seeds.push(Seed::ok(api.name(), sent(0, &frames)));
    }
    let mixed: Vec<_> = (1..)
        .zip(others)
        .map(|(id, api)| request(api, api.versions().max, id, TOPIC))
        .collect();
    seeds.push(Seed::ok("mixed", sent(0, &mixed)));
    seeds.push(Seed::ok("mixed-trickled", sent(2, &mixed)));
    seeds.push(Seed {
        name: "unauthenticated".into(),
        bytes: sent(1, &mixed),
    });
    seeds.extend(authentications(&mixed[3]));
    for (name, frame) in refused() {
        seeds.push(Seed::bad(name, sent(0, &[mixed[3].clone(), frame])));
    }
    for (name, batch) in lies() {
        // Each partition has its own answer, and the connection goes on.
        let frames = [produce(9, 1, TOPIC, -1, &batch), mixed[3].clone()];
        seeds.push(Seed::ok(format!("batch-{name}"), sent(0, &frames)));
    }
    for codec in CODECS {
        let Some(body) = bomb(codec, BATCH_DECOMPRESSED_BYTES_MAX + 1) else {
            continue;
        };
        if body.len() < 20 << 10 {
            let batch = batches::around(5, codec, &body);
            let frames = [produce(7, 1, TOPIC, 1, &batch), mixed[3].clone()];
            seeds.push(Seed::ok(format!("bomb-{codec}"), sent(0, &frames)));
        }
    }
    let silent = produce(7, 1, TOPIC, 0, &plain(1, Codec::None));
    seeds.push(Seed::ok("unanswered", sent(0, &[silent, mixed[3].clone()])));
    for (name, length) in [("length-huge", i32::MAX), ("length-negative", -1)] {
        seeds.push(Seed::bad(
            name,
            [&[0], &length.to_be_bytes()[..], &[0; 20]].concat(),
        ));
    }
    seeds
}
