//! From the topic names clients use to the streams they may know of.

use crate::context::Context;
use felix_core::catalog::is_legal;
use felix_core::limits::TOPIC_NAME_BYTES_MAX;
use felix_core::{Action, Catalog, Principal, Stream, StreamId};

/// Whether Kafka would let a topic have this name.
pub(crate) fn is_topic_name(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && name.len() <= TOPIC_NAME_BYTES_MAX
        && is_legal(name)
}

/// What each grant costs of a turn, in bytes, that is looked at to find out whether a stream may be
/// seen and used: up to three times.
const GRANT_COST: usize = 8;

/// What it costs of a turn, in bytes, to find out what somebody may do with one stream.
pub(crate) fn check_cost(principal: &Principal) -> usize {
    GRANT_COST * principal.permissions.grants()
}

/// The streams one principal may know of: those it may read or write. Others do not exist for it.
#[derive(Clone, Copy)]
pub(crate) struct Topics<'c, 'a> {
    catalog: &'c Catalog,
    auth: &'a dyn felix_core::Auth,
    principal: &'a Principal,
    default_namespace: Option<&'a str>,
}

impl<'c, 'a> Topics<'c, 'a> {
    /// What `principal` sees in `catalog`.
    pub(crate) fn new<S>(
        context: &'a Context<S>,
        catalog: &'c Catalog,
        principal: &'a Principal,
    ) -> Self {
        let default_namespace = context.settings.default_namespace.as_deref();
        Self {
            catalog,
            auth: &*context.auth,
            principal,
            default_namespace,
        }
    }

    /// The stream a topic name means. A name without a dot means a stream of the default
    /// namespace, where there is one.
    pub(crate) fn by_name(&self, name: &str) -> Option<&'c Stream> {
        if !is_topic_name(name) {
            return None;
        }
        let tenant = &self.principal.tenant;
        // Never put together and split again: the namespace is the operator's.
        let stream = if name.contains('.') {
            self.catalog.topic(tenant, name)?
        } else {
            self.catalog.named(tenant, self.default_namespace?, name)?
        };
        self.sees(stream).then_some(stream)
    }

    /// The stream a topic id means.
    pub(crate) fn by_id(&self, id: StreamId) -> Option<&'c Stream> {
        let stream = self.catalog.stream(id)?;
        self.sees(stream).then_some(stream)
    }

    /// Whether `stream` belongs to the principal's tenant: of others it knows nothing.
    pub(crate) fn is_own(&self, stream: &Stream) -> bool {
        *stream.tenant == *self.principal.tenant
    }

    /// Whether the principal may do `action` with `stream`.
    pub(crate) fn allows(&self, action: Action, stream: &Stream) -> bool {
        self.is_own(stream) && self.auth.allows(self.principal, action, stream)
    }

    /// Whether the principal may know of `stream`.
    pub(crate) fn sees(&self, stream: &Stream) -> bool {
        self.allows(Action::Subscribe, stream) || self.allows(Action::Publish, stream)
    }
}
