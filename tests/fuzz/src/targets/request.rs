//! A Kafka request frame: the header, and the body of whatever API and version it names.

use crate::memory::bounded;
use bytes::BytesMut;
use felix_core::limits::REQUEST_ELEMENTS_MAX;
use felix_kafka::codec::{
    ApiKey, Cursor, DecodeError, RequestHeader, Support, api_versions, describe_cluster, fetch,
    find_coordinator, init_producer_id, list_offsets, metadata, offset_for_leader_epoch, produce,
    sasl_authenticate, sasl_handshake,
};
use kafka_protocol::messages as oracle;
use kafka_protocol::protocol::Decodable;

/// Bytes of the greatest element of an array, with some to spare.
const ELEMENT_BYTES_MAX: usize = 128;

/// What may be in use at once while a request is read. An array is refused if it has more elements
/// than bytes are left, and the last one read may be the one that is cut short.
fn decode_bytes_max(bytes: usize) -> usize {
    ELEMENT_BYTES_MAX * (2 * bytes).min(REQUEST_ELEMENTS_MAX) + (4 << 10)
}

/// What is accepted is within its bounds, and an independent implementation accepts it too.
pub fn run(data: &[u8]) -> bool {
    let mut cursor = Cursor::new(data);
    let Ok(header) = RequestHeader::decode(&mut cursor) else {
        return false;
    };
    let body = cursor.position();
    assert!(body <= data.len());
    let Support::Served(api) = header.support else {
        return false;
    };
    let frame = BytesMut::from(data);
    let decoded = bounded(decode_bytes_max(data.len()), || {
        decode(api, header.api_version, cursor, frame, body)
    });
    if let Err(error) = decoded {
        assert!(error.at <= data.len());
        assert!(!error.to_string().is_empty());
        return false;
    }
    agree(api, header.api_version, &data[body..]);
    true
}

fn decode(
    api: ApiKey,
    version: i16,
    mut cursor: Cursor<'_>,
    frame: BytesMut,
    body: usize,
) -> Result<(), DecodeError> {
    let cursor = &mut cursor;
    match api {
        ApiKey::Produce => {
            let bytes = frame.len() - body;
            let request = produce::Request::decode(version, frame, body)?;
            let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
            let records = partitions.filter_map(|partition| partition.records.as_ref());
            assert!(records.map(|records| records.len()).sum::<usize>() <= bytes);
            Ok(())
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
        ApiKey::SaslAuthenticate => {
            let request = sasl_authenticate::Request::decode(version, cursor)?;
            assert!(request.auth_bytes.end <= frame.len());
            Ok(())
        }
    }
}

/// What librdkafka leaves over in a Metadata request about all topics, as the listener forgives.
const SURPLUS_BYTES_MAX: usize = 3;

/// The oracle allocates before it checks, so it is only asked about what was accepted.
fn agree(api: ApiKey, version: i16, body: &[u8]) {
    let read = match api {
        // Versions 0 to 2 are read only to be refused.
        ApiKey::Produce if version < 3 => return,
        ApiKey::Produce => accepts::<oracle::ProduceRequest>(version, body),
        ApiKey::Fetch => accepts::<oracle::FetchRequest>(version, body),
        ApiKey::ListOffsets => accepts::<oracle::ListOffsetsRequest>(version, body),
        ApiKey::Metadata => accepts::<oracle::MetadataRequest>(version, body),
        ApiKey::FindCoordinator => accepts::<oracle::FindCoordinatorRequest>(version, body),
        ApiKey::ApiVersions => accepts::<oracle::ApiVersionsRequest>(version, body),
        ApiKey::InitProducerId => accepts::<oracle::InitProducerIdRequest>(version, body),
        ApiKey::OffsetForLeaderEpoch => {
            accepts::<oracle::OffsetForLeaderEpochRequest>(version, body)
        }
        ApiKey::DescribeCluster => accepts::<oracle::DescribeClusterRequest>(version, body),
        ApiKey::SaslHandshake => accepts::<oracle::SaslHandshakeRequest>(version, body),
        ApiKey::SaslAuthenticate => accepts::<oracle::SaslAuthenticateRequest>(version, body),
    };
    let surplus_max = match api {
        ApiKey::Metadata if api.is_flexible(version) => SURPLUS_BYTES_MAX,
        _ => 0,
    };
    match read {
        Ok(left) => assert!(
            left <= surplus_max,
            "{api:?} {version}: {left} bytes left over"
        ),
        Err(reason) => panic!("{api:?} {version} is accepted here, not elsewhere: {reason}"),
    }
}

/// Bytes that are left over.
fn accepts<R: Decodable>(version: i16, mut body: &[u8]) -> Result<usize, String> {
    R::decode(&mut body, version).map_err(|error| error.to_string())?;
    Ok(body.len())
}
