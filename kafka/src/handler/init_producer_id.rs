//! InitProducerId: refused, for now also without a transaction. Advertised, since clients otherwise
//! say that the broker is too old, which sends people the wrong way.

use super::Scope;
use crate::answer::Handled;
use crate::codec::init_producer_id::{Request as Body, Response};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{NO_IDEMPOTENCE, NO_TRANSACTIONS};
use crate::log::Line;
use crate::request::Request;

pub(super) fn begin<S>(scope: &Scope<'_, S>, request: &Request) -> Result<Handled, DecodeError> {
    let body = Body::decode(scope.reply.version, &mut request.cursor())?;
    // Both codes are final for librdkafka and for the Java client: neither tries again for ever.
    let (code, sentence) = match body.transactional_id {
        Some(_) => (
            ErrorCode::TransactionalIdAuthorizationFailed,
            NO_TRANSACTIONS,
        ),
        None => (ErrorCode::ClusterAuthorizationFailed, NO_IDEMPOTENCE),
    };
    // The answer has no room for a sentence, so the log has it.
    scope.tell(Line::Producer, &sentence);
    let response = Response::error(code);
    Ok(Handled::Done(
        scope
            .reply
            .answer(|version, to| response.encode(version, to)),
    ))
}
