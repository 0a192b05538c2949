//! DescribeCluster.

use super::*;
use crate::codec::describe_cluster::{BROKERS, Request, Response};
use std::borrow::Cow;

const API: ApiKey = ApiKey::DescribeCluster;

proptest! {
    #[test]
    fn requests_of_every_version_are_read_as_they_were_meant(
        include_cluster_authorized_operations: bool,
        endpoint_type: i8,
    ) {
        for version in advertised(API) {
            let mut sent = oracle::DescribeClusterRequest::default()
                .with_include_cluster_authorized_operations(include_cluster_authorized_operations)
                .with_unknown_tagged_fields(tags(true));
            if version >= 1 {
                sent.endpoint_type = endpoint_type;
            }
            let frame = request_frame(API, version, &sent);
            let read = Request::decode(version, &mut open(API, version, &frame)).unwrap();
            prop_assert_eq!(read, Request {
                include_cluster_authorized_operations,
                endpoint_type: if version >= 1 { endpoint_type } else { BROKERS },
            });
        }
    }

    #[test]
    fn answers_of_every_version_are_read_by_others_as_they_were_meant(
        throttle_time_ms: i32,
        error_code in error_code(),
        message in prop::option::of(text()),
        (endpoint_type, controller_id) in any::<(i8, i32)>(),
        cluster_id in text(),
        nodes in few((any::<i32>(), text(), any::<i32>(), prop::option::of(text()))),
    ) {
        let response = Response {
            throttle_time_ms,
            error_code,
            error_message: message.as_deref().map(Cow::Borrowed),
            endpoint_type,
            cluster_id: &cluster_id,
            controller_id,
            brokers: nodes.iter().map(|(node_id, host, port, rack)| NodeEndpoint {
                node_id: *node_id, host, port: *port, rack: rack.as_deref(),
            }).collect(),
        };
        for version in advertised(API) {
            let read: oracle::DescribeClusterResponse =
                answer(API, version, |writer| response.encode(version, writer));
            check(version, &response, &read);
        }
    }
}

fn check(version: i16, sent: &Response<'_>, read: &oracle::DescribeClusterResponse) {
    assert_eq!(read.throttle_time_ms, sent.throttle_time_ms);
    assert_eq!(read.error_code, sent.error_code.wire());
    assert_eq!(read.error_message.as_deref(), sent.error_message.as_deref());
    let endpoint_type = if version >= 1 {
        sent.endpoint_type
    } else {
        BROKERS
    };
    assert_eq!(read.endpoint_type, endpoint_type);
    assert_eq!(read.cluster_id.as_str(), sent.cluster_id);
    assert_eq!(read.controller_id.0, sent.controller_id);
    assert_eq!(read.cluster_authorized_operations, i32::MIN);
    let told = read.brokers.iter().map(|node| {
        (
            node.broker_id.0,
            node.host.as_str(),
            node.port,
            node.rack.as_deref(),
        )
    });
    let meant = sent
        .brokers
        .iter()
        .map(|node| (node.node_id, node.host, node.port, node.rack));
    assert_eq!(told.collect::<Vec<_>>(), meant.collect::<Vec<_>>());
}
