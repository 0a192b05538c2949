//! SASL/PLAIN: how far a connection has come with it, and what its message says (RFC 4616).

use felix_core::catalog::name_fault;
use felix_core::limits::TOKEN_BYTES_MAX;
use std::fmt;

/// The mechanism that is offered.
pub(crate) const PLAIN: &str = "PLAIN";

/// How far a connection has come. Lives with its session.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Exchange {
    /// It has not begun.
    #[default]
    Unbegun,
    /// The mechanism is agreed on, and its message comes as a frame without a header: what follows
    /// SaslHandshake 0.
    AwaitsRaw,
    /// The mechanism is agreed on, and its message comes in SaslAuthenticate.
    Awaits,
    /// The peer has shown who it is.
    Succeeded,
    /// It has not, and is about to be closed.
    Failed,
}

/// What a request of SASL leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// It fits.
    Go,
    /// It comes at the wrong time. The connection is closed, as Kafka does it.
    OutOfOrder(&'static str),
    /// The connection has authenticated, which is done once. It goes on as it was.
    Again,
}

/// Why a connection that has authenticated may not do so again (claim 213).
pub(crate) const NO_REAUTHENTICATION: &str = "Felix authenticates a connection once and does not \
                                              re-authenticate it; open a new connection. See \
                                              docs/kafka-compatibility.md";

impl Exchange {
    /// Whether SaslHandshake may come now.
    pub(crate) fn on_handshake(self) -> Step {
        match self {
            Self::Unbegun => Step::Go,
            Self::Awaits | Self::AwaitsRaw | Self::Failed => {
                Step::OutOfOrder("a second SaslHandshake; SaslAuthenticate is to follow the first")
            }
            Self::Succeeded => Step::Again,
        }
    }

    /// Whether SaslAuthenticate may come now.
    pub(crate) fn on_authenticate(self) -> Step {
        match self {
            Self::Awaits => Step::Go,
            Self::Unbegun | Self::AwaitsRaw | Self::Failed => {
                Step::OutOfOrder("SaslAuthenticate without SaslHandshake version 1 before it")
            }
            Self::Succeeded => Step::Again,
        }
    }
}

/// What a PLAIN message says.
#[derive(Clone, Copy)]
pub(crate) struct Plain<'a> {
    /// The user name: the tenant.
    pub(crate) tenant: &'a str,
    /// The password: the token.
    pub(crate) token: &'a str,
}

/// What is wrong with a PLAIN message. Shown, it completes "token rejected: ".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlainFault {
    /// It is not UTF-8.
    Utf8,
    /// It is not three parts.
    Parts,
    /// It asks to act for somebody else.
    Authzid,
    /// The user name cannot be a tenant's.
    Tenant(&'static str),
    /// The token is empty or too long.
    Token,
}

impl<'a> Plain<'a> {
    /// Reads a message: authorization identity, user name, password, with a NUL between them.
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, PlainFault> {
        let text = std::str::from_utf8(message).map_err(|_| PlainFault::Utf8)?;
        let mut parts = text.split('\0');
        let (Some(authzid), Some(tenant), Some(token), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(PlainFault::Parts);
        };
        if !authzid.is_empty() && authzid != tenant {
            return Err(PlainFault::Authzid);
        }
        if let Some(fault) = name_fault(tenant) {
            return Err(PlainFault::Tenant(fault));
        }
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
            return Err(PlainFault::Token);
        }
        Ok(Self { tenant, token })
    }
}

impl fmt::Display for PlainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf8 => write!(f, "username and password are not UTF-8"),
            Self::Parts => write!(
                f,
                "the PLAIN message is not an authorization identity, a username and a password \
                 with a NUL between them"
            ),
            Self::Authzid => write!(
                f,
                "the authorization identity is another than the username; leave it empty"
            ),
            Self::Tenant(fault) => {
                write!(f, "the username is to be the tenant's name, and {fault}")
            }
            Self::Token => write!(
                f,
                "the password is to be a token of 1 to {TOKEN_BYTES_MAX} bytes"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fault(message: &[u8]) -> PlainFault {
        match Plain::parse(message) {
            Ok(Plain { tenant, .. }) => panic!("taken, for {tenant}"),
            Err(fault) => fault,
        }
    }

    #[test]
    fn a_message_is_tenant_and_token_and_the_identity_is_nobody_elses() {
        for message in [&b"\0t1\0secret"[..], b"t1\0t1\0secret"] {
            let plain = Plain::parse(message).unwrap();
            assert_eq!((plain.tenant, plain.token), ("t1", "secret"));
        }
        for (message, expected) in [
            (&b""[..], PlainFault::Parts),
            (b"t1", PlainFault::Parts),
            (b"\0t1", PlainFault::Parts),
            (b"\0t1\0secret\0", PlainFault::Parts),
            (b"t2\0t1\0secret", PlainFault::Authzid),
            (b"\0t1\0\xff", PlainFault::Utf8),
            (b"\0\0secret", PlainFault::Tenant("is empty")),
            (b"\0t1\0", PlainFault::Token),
        ] {
            assert_eq!(fault(message), expected, "{message:?}");
            assert!(!fault(message).to_string().is_empty());
        }
    }

    #[test]
    fn a_token_has_a_bound() {
        for (bytes, taken) in [(TOKEN_BYTES_MAX, true), (TOKEN_BYTES_MAX + 1, false)] {
            let message = format!("\0t1\0{}", "x".repeat(bytes));
            assert_eq!(Plain::parse(message.as_bytes()).is_ok(), taken, "{bytes}");
        }
    }

    #[test]
    fn what_comes_at_the_wrong_time_is_told_apart_from_what_comes_again() {
        for (exchange, handshake, authenticate) in [
            (Exchange::Unbegun, true, false),
            (Exchange::Awaits, false, true),
            (Exchange::AwaitsRaw, false, false),
            (Exchange::Failed, false, false),
            (Exchange::Succeeded, false, false),
        ] {
            assert_eq!(exchange.on_handshake() == Step::Go, handshake);
            assert_eq!(exchange.on_authenticate() == Step::Go, authenticate);
            let again = exchange == Exchange::Succeeded;
            assert_eq!(exchange.on_handshake() == Step::Again, again);
            assert_eq!(exchange.on_authenticate() == Step::Again, again);
        }
    }

    proptest! {
        #[test]
        fn no_message_panics(message in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(plain) = Plain::parse(&message) {
                prop_assert!(plain.tenant.len() + plain.token.len() <= message.len());
            }
        }
    }
}
