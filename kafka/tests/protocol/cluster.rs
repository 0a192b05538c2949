//! DescribeCluster: the nodes, as Metadata names them.

use crate::bench::Bench;
use crate::metadata::all_topics;
use kafka_protocol::messages::{
    ApiKey, DescribeClusterRequest, DescribeClusterResponse, MetadataResponse,
};

fn ask(
    bench: &mut Bench,
    version: i16,
    request: &DescribeClusterRequest,
) -> DescribeClusterResponse {
    let mut client = bench.connect();
    let id = client.send(ApiKey::DescribeCluster, version, request);
    bench.turn();
    client.answer(ApiKey::DescribeCluster, version, id)
}

#[test]
fn the_nodes_are_those_of_metadata_and_no_operations_are_told() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    let id = client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    let metadata: MetadataResponse = client.answer(ApiKey::Metadata, 9, id);
    let named = metadata.brokers.iter().map(|node| {
        let (host, rack) = (node.host.to_string(), node.rack.clone());
        (node.node_id, host, node.port, rack)
    });
    let named: Vec<_> = named.collect();
    assert_eq!(named.len(), 2);
    for version in 0..=1 {
        let request =
            DescribeClusterRequest::default().with_include_cluster_authorized_operations(true);
        let told = ask(&mut bench, version, &request);
        assert_eq!((told.error_code, told.throttle_time_ms), (0, 0));
        assert_eq!((told.error_message, told.endpoint_type), (None, 1));
        assert_eq!(Some(told.cluster_id), metadata.cluster_id);
        assert_eq!(told.controller_id, metadata.controller_id);
        assert_eq!(told.cluster_authorized_operations, i32::MIN);
        let brokers = told.brokers.into_iter().map(|node| {
            let host = node.host.to_string();
            (node.broker_id, host, node.port, node.rack)
        });
        assert_eq!(brokers.collect::<Vec<_>>(), named);
    }
}

#[test]
fn controllers_are_asked_for_elsewhere_and_nothing_else_exists() {
    let mut bench = Bench::new();
    for (endpoint_type, code, words) in [
        (2, 114, "this is a broker"),
        (0, 115, "do not exist"),
        (3, 115, "do not exist"),
        (-1, 115, "do not exist"),
    ] {
        let request = DescribeClusterRequest::default().with_endpoint_type(endpoint_type);
        let told = ask(&mut bench, 1, &request);
        assert_eq!(told.error_code, code);
        assert_eq!((told.endpoint_type, told.brokers.len()), (endpoint_type, 0));
        assert_eq!(told.controller_id.0, -1);
        let sentence = told.error_message.unwrap();
        assert!(sentence.contains(words), "{sentence:?}");
    }
}
