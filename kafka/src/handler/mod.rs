//! What each API does: one file each.
//!
//! A handler runs when its request's turn has come and must not wait. It reads the body, asks who
//! may do what, and either has its answer at once or leaves the rest to a future.

mod api_versions;
mod asker;
mod describe_cluster;
mod fetch;
mod find_coordinator;
mod init_producer_id;
mod list_offsets;
mod metadata;
mod offset_for_leader_epoch;
mod plan;
mod produce;
mod uncharged;

use crate::answer::Handled;
use crate::codec::{ApiKey, DecodeError};
use crate::context::Context;
use crate::in_flight::FetchEnd;
use crate::log::Line;
use crate::request::{Reply, Request};
use crate::session::Session;
use crate::turn::Turn;
use felix_core::Shards;
use futures_util::FutureExt;
use std::fmt;
use std::rc::Rc;

/// What a handler sees of its surroundings.
pub(crate) struct Scope<'a, S> {
    /// What the core's connections share.
    pub(crate) context: &'a Rc<Context<S>>,
    /// Who asks.
    pub(crate) session: &'a Session,
    /// How to answer.
    pub(crate) reply: Reply,
    /// Bytes of records a Fetch may bring.
    pub(crate) fetch_bytes_max: usize,
    /// What tells a Fetch to answer with what it has.
    pub(crate) poll_end: &'a FetchEnd,
    /// What the connection may do before other tasks get their turn.
    pub(crate) turn: &'a Turn,
}

impl<S> Scope<'_, S> {
    /// Puts what the peer did wrong into the log.
    fn tell(&self, line: Line, reason: &dyn fmt::Display) {
        self.context
            .log
            .tell(line, self.session, &self.reply, reason);
    }
}

/// Begins what may have to make way for other tasks. One at a time: a connection may ask for far
/// more than it may be answered at once. `work` fails before it awaits anything, or not at all.
fn in_turns(
    work: impl Future<Output = Result<Handled, DecodeError>> + 'static,
) -> Result<Handled, DecodeError> {
    let mut work = Box::pin(work);
    match work.as_mut().now_or_never() {
        Some(handled) => handled,
        None => Ok(Handled::First(Box::pin(async move {
            work.await.expect("it has not failed at once")
        }))),
    }
}

/// Handles a request as far as it goes without waiting.
///
/// # Errors
/// The body cannot be read, so that no answer would have a shape the client expects.
pub(crate) fn begin<S: Shards>(
    scope: &Scope<'_, S>,
    request: Request,
) -> Result<Handled, DecodeError> {
    match scope.reply.api {
        ApiKey::ApiVersions => api_versions::begin(scope, &request),
        ApiKey::Metadata => metadata::begin(scope, request),
        ApiKey::ListOffsets => list_offsets::begin(scope, request),
        ApiKey::Fetch => fetch::begin(scope, request),
        ApiKey::Produce => produce::begin(scope, request),
        ApiKey::FindCoordinator => find_coordinator::begin(scope, &request),
        ApiKey::InitProducerId => init_producer_id::begin(scope, &request),
        ApiKey::OffsetForLeaderEpoch => offset_for_leader_epoch::begin(scope, request),
        ApiKey::DescribeCluster => describe_cluster::begin(scope, &request),
        ApiKey::SaslHandshake | ApiKey::SaslAuthenticate => {
            unreachable!("they change whom the connection speaks for, so it answers them itself")
        }
    }
}
