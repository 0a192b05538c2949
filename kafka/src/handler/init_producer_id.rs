//! InitProducerId: a new id for each idempotent producer, with epoch 0.
//!
//! Also for one that has an id and wants its next epoch (KIP-360, version 3): a new id does what the
//! next epoch would, and nobody has to remember which epochs were given (claim 188). Epochs that
//! clients raise by themselves are honoured where their batches arrive.

use super::Scope;
use crate::answer::Handled;
use crate::codec::init_producer_id::{Request as Body, Response};
use crate::codec::{DecodeError, ErrorCode};
use crate::errors::{NO_TRANSACTIONS, NOBODY};
use crate::log::Line;
use crate::request::Request;

/// On the wire: the producer has no id, or no epoch.
const NONE: i64 = -1;

pub(super) fn begin<S>(scope: &Scope<'_, S>, request: &Request) -> Result<Handled, DecodeError> {
    let body = Body::decode(scope.reply.version, &mut request.cursor())?;
    let response = match refusal(scope, &body) {
        None => Response::given(scope.context.producer_ids.next_id()),
        Some((code, sentence)) => {
            // The answer has no room for a sentence, so the log has it.
            scope.tell(Line::Producer, &sentence);
            Response::error(code)
        }
    };
    let outcome = scope
        .reply
        .answer(|version, to| response.encode(version, to));
    Ok(Handled::Done(outcome))
}

/// Every code is final for librdkafka and for the Java client: neither tries again for ever.
fn refusal<S>(scope: &Scope<'_, S>, body: &Body<'_>) -> Option<(ErrorCode, &'static str)> {
    let (has_id, has_epoch) = (
        body.producer_id != NONE,
        i64::from(body.producer_epoch) != NONE,
    );
    if body.transactional_id.is_some() {
        let code = ErrorCode::TransactionalIdAuthorizationFailed;
        Some((code, NO_TRANSACTIONS))
    } else if scope.session.principal.is_none() {
        Some((ErrorCode::ClusterAuthorizationFailed, NOBODY))
    } else if has_id != has_epoch {
        let sentence = "a producer that has an id has an epoch, and none without the other";
        Some((ErrorCode::InvalidRequest, sentence))
    } else {
        None
    }
}
