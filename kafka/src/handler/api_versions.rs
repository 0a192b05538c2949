//! ApiVersions: what is served, in which versions.

use super::Scope;
use crate::answer::Handled;
use crate::codec::api_versions::{Request as Body, Response};
use crate::codec::{ApiKey, DecodeError};
use crate::request::Request;

pub(super) fn begin<S>(scope: &Scope<'_, S>, request: &Request) -> Result<Handled, DecodeError> {
    let reply = scope.reply;
    if !ApiKey::ApiVersions.serves(reply.version) {
        // A client newer than we are is told in the one layout every client reads, and may ask
        // again on the same connection (claim 127, T01).
        let response = Response::unsupported_version();
        let outcome = reply
            .at_version(0)
            .answer(|version, to| response.encode(version, to));
        return Ok(Handled::Done(outcome));
    }
    let body = Body::decode(reply.version, &mut request.cursor())?;
    scope
        .session
        .note_software(body.client_software_name, body.client_software_version);
    tracing::debug!(
        peer = &*scope.session.peer,
        client_id = &*scope.session.client_id,
        software = body.client_software_name,
        software_version = body.client_software_version,
        "Kafka client"
    );
    let response = Response::served();
    Ok(Handled::Done(
        reply.answer(|version, to| response.encode(version, to)),
    ))
}
