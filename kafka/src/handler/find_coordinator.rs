//! FindCoordinator: answered at once and finally, because a client that gets no answer waits for
//! ever (T107).

use super::Scope;
use crate::answer::Handled;
use crate::codec::find_coordinator::{Coordinator, GROUP, Request as Body, Response, TRANSACTION};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{NO_GROUPS, NO_TRANSACTIONS};
use crate::log::Line;
use crate::request::Request;

pub(super) fn begin<S>(scope: &Scope<'_, S>, request: &Request) -> Result<Handled, DecodeError> {
    let body = Body::decode(scope.reply.version, &mut request.cursor())?;
    let (code, sentence) = match body.key_type {
        GROUP => (ErrorCode::GroupAuthorizationFailed, NO_GROUPS),
        TRANSACTION => (
            ErrorCode::TransactionalIdAuthorizationFailed,
            NO_TRANSACTIONS,
        ),
        _ => (
            ErrorCode::InvalidRequest,
            "Felix has no coordinators of this kind",
        ),
    };
    scope.tell(Line::Coordinator, &sentence);
    let coordinators = body
        .keys
        .iter()
        .map(|key| Coordinator::error(key, code, Some(sentence.into())))
        .collect();
    let response = Response {
        throttle_time_ms: 0,
        coordinators,
    };
    Ok(Handled::Done(
        scope
            .reply
            .answer(|version, to| response.encode(version, to)),
    ))
}
