//! Who is at the other end of a connection.

use crate::sasl::Exchange;
use felix_core::memory::Origin;
use felix_core::{CertificateNames, Principal, ShardId};
use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::rc::Rc;

/// Characters of a client's name for itself, or of its library's, that are kept for the log.
const NAME_CHARS_MAX: usize = 128;

/// Where a connection comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// For the log.
    pub name: String,
    /// Whom the memory that it holds is counted for.
    pub origin: Origin,
    /// What its certificate says, where it has shown one and the listener asks for it.
    pub certificate: Option<Rc<CertificateNames>>,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self {
            name: address.to_string(),
            origin: address.ip().into(),
            certificate: None,
        }
    }
}

/// A peer without an address.
impl From<String> for Peer {
    fn from(name: String) -> Self {
        Self {
            name,
            origin: Origin::Unknown,
            certificate: None,
        }
    }
}

/// What is known of a connection's peer. Lives with its connection.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Its address, for the log.
    pub(crate) peer: Rc<str>,
    /// Its name for itself, from its last request.
    pub(crate) client_id: Rc<str>,
    /// Name and version of its library, once it has told them (KIP-511).
    pub(crate) software: Rc<OnceCell<String>>,
    /// Whom it speaks for; `None` until it has authenticated.
    pub(crate) principal: Option<Principal>,
    /// The last shard that a Fetch of its brought records of: the next Fetch begins behind it.
    pub(crate) last_read: Rc<Cell<Option<ShardId>>>,
    /// How far it has come with SASL.
    pub(crate) exchange: Exchange,
    /// What its certificate says, where it has shown one.
    pub(crate) certificate: Option<Rc<CertificateNames>>,
}

impl Session {
    /// A peer that has said nothing yet.
    pub(crate) fn new(peer: &Peer, principal: Option<Principal>) -> Self {
        Self {
            peer: peer.name.as_str().into(),
            client_id: "".into(),
            software: Rc::default(),
            principal,
            last_read: Rc::default(),
            exchange: Exchange::default(),
            certificate: peer.certificate.clone(),
        }
    }

    /// Notes what library it says it is. The first word counts.
    pub(crate) fn note_software(&self, name: &str, version: &str) {
        if name.is_empty() && version.is_empty() {
            return;
        }
        let software = format!("{} {}", cut(name), cut(version));
        // Some ask twice, and say the same again.
        self.software.get_or_init(|| software);
    }

    /// Notes the name a request gives. Most give the same one every time.
    pub(crate) fn note_client_id(&mut self, client_id: &str) {
        let client_id = cut(client_id);
        if *self.client_id != *client_id {
            self.client_id = client_id.into();
        }
    }
}

/// As much of a name as is kept.
fn cut(name: &str) -> &str {
    let end = name.char_indices().nth(NAME_CHARS_MAX).map(|(at, _)| at);
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_client_id_is_cut_between_characters() {
        let mut session = Session::new(&"peer".to_owned().into(), None);
        session.note_client_id(&"\u{e9}".repeat(1000));
        assert_eq!(*session.client_id, *"\u{e9}".repeat(NAME_CHARS_MAX));
        session.note_client_id("rdkafka");
        assert_eq!(*session.client_id, *"rdkafka");
    }
}
