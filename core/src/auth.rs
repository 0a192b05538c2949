//! Who is asking, and whether they may.

use crate::catalog::Stream;
use std::rc::Rc;

/// Somebody a connection speaks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    /// The tenant whose streams are meant by the names the connection uses.
    pub tenant: Rc<str>,
}

/// What somebody may be allowed to do with a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write records (`stream.publish`).
    Publish,
    /// Read records (`stream.subscribe`).
    Subscribe,
}

/// Decides who may do what. Every handler asks it, once per stream and request.
pub trait Auth {
    /// Who an unauthenticated connection speaks for; `None`: nobody, and it may do nothing.
    fn anonymous(&self) -> Option<Principal>;

    /// Whether `principal` may do `action` with `stream`.
    fn allows(&self, principal: &Principal, action: Action, stream: &Stream) -> bool;
}

/// Development only: everybody speaks for one tenant and may read and write all its streams.
#[derive(Clone, Debug)]
pub struct AnonymousTenant(pub Option<Rc<str>>);

impl Auth for AnonymousTenant {
    fn anonymous(&self) -> Option<Principal> {
        self.0.as_ref().map(|tenant| Principal {
            tenant: Rc::clone(tenant),
        })
    }

    fn allows(&self, principal: &Principal, _action: Action, stream: &Stream) -> bool {
        *principal.tenant == *stream.tenant
    }
}
