//! DescribeCluster: the nodes that Metadata names, without any topics.

use super::Scope;
use crate::answer::Handled;
use crate::codec::describe_cluster::{BROKERS, CONTROLLERS, Request as Body, Response};
use crate::codec::{DecodeError, ErrorCode, NodeEndpoint};
use crate::request::Request;
use felix_core::topology::Node;

pub(super) fn begin<S>(scope: &Scope<'_, S>, request: &Request) -> Result<Handled, DecodeError> {
    let body = Body::decode(scope.reply.version, &mut request.cursor())?;
    let context = scope.context;
    let (error_code, sentence) = match body.endpoint_type {
        BROKERS => (ErrorCode::None, None),
        CONTROLLERS => (
            ErrorCode::MismatchedEndpointType,
            Some("this is a broker: ask it for brokers, and see the controller among them"),
        ),
        _ => (
            ErrorCode::UnsupportedEndpointType,
            Some("endpoints of this type do not exist: ask for brokers (1)"),
        ),
    };
    let nodes = match error_code {
        ErrorCode::None => context.topology.nodes(),
        _ => &[],
    };
    let response = Response {
        throttle_time_ms: 0,
        error_code,
        error_message: sentence.map(Into::into),
        endpoint_type: body.endpoint_type,
        cluster_id: &context.settings.cluster_id,
        controller_id: nodes.first().map_or(-1, |node| node.id),
        brokers: nodes.iter().map(endpoint).collect(),
    };
    let outcome = scope
        .reply
        .answer(|version, to| response.encode(version, to));
    Ok(Handled::Done(outcome))
}

fn endpoint(node: &Node) -> NodeEndpoint<'_> {
    NodeEndpoint {
        node_id: node.id,
        host: &node.address.host,
        port: node.address.port.into(),
        rack: node.rack.as_deref(),
    }
}
