//! Who is asking, and whether they may.

use crate::catalog::Stream;
use crate::{CertificateNames, Timestamp};
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Somebody a connection speaks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    /// The tenant whose streams are meant by the names the connection uses.
    pub tenant: Rc<str>,
    /// Whom the credentials were issued to; `None`: there were none.
    pub subject: Option<Rc<str>>,
    /// What it may do with the tenant's streams, from when it authenticated to its end: credentials
    /// that are revoked or expire cut no connection (claim 212).
    pub permissions: Permissions,
}

/// What somebody may be allowed to do with a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Write records (`stream.publish`).
    Publish,
    /// Read records (`stream.subscribe`).
    Subscribe,
}

/// What somebody may do with the streams of the own tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Permissions {
    /// Everything with all of them.
    All,
    /// What one of these says.
    Granted(Grants),
}

/// What somebody was granted. All cores share the list, and nobody copies it; what each request
/// clones is counted on its own core, so that cores do not meet there. Lives on one CPU core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grants(Rc<List>);

#[derive(PartialEq, Eq, Debug)]
struct List(Arc<[Grant]>);

impl Grants {
    /// Those of this list, for one who has just authenticated.
    #[must_use]
    pub fn of(list: &Arc<[Grant]>) -> Self {
        Self(Rc::new(List(Arc::clone(list))))
    }

    /// In the order in which they are looked at.
    #[must_use]
    pub fn all(&self) -> &[Grant] {
        &self.0.0
    }
}

/// One action, with some streams of a tenant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Grant {
    /// What may be done.
    pub action: Action,
    /// With which streams.
    pub scope: GrantScope,
}

/// The streams of a tenant that a [`Grant`] is about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum GrantScope {
    /// All.
    Tenant,
    /// Those of a namespace.
    Namespace(String),
    /// One.
    Stream {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Action {
    /// What it is called in files and tokens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "stream.publish",
            Self::Subscribe => "stream.subscribe",
        }
    }
}

impl Permissions {
    /// How many grants a check looks at, at most: whoever checks for many streams takes turns by it.
    #[must_use]
    pub fn grants(&self) -> usize {
        match self {
            Self::All => 0,
            Self::Granted(grants) => grants.all().len(),
        }
    }

    /// Whether they cover `action` with `stream`, which belongs to the own tenant.
    #[must_use]
    pub fn allow(&self, action: Action, stream: &Stream) -> bool {
        match self {
            Self::All => true,
            Self::Granted(grants) => {
                let mut grants = grants.all().iter();
                grants.any(|grant| grant.covers(action, stream))
            }
        }
    }
}

impl Grant {
    fn covers(&self, action: Action, stream: &Stream) -> bool {
        self.action == action
            && match &self.scope {
                GrantScope::Tenant => true,
                GrantScope::Namespace(namespace) => *namespace == stream.namespace,
                GrantScope::Stream { namespace, name } => {
                    *namespace == stream.namespace && *name == stream.name
                }
            }
    }
}

/// What a peer shows to say who it is.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// The tenant it wants to speak for.
    pub tenant: &'a str,
    /// Its token: at most [`TOKEN_BYTES_MAX`](crate::limits::TOKEN_BYTES_MAX) bytes.
    pub token: &'a str,
    /// What its certificate says, where the listener asks for one.
    pub certificate: Option<&'a CertificateNames>,
}

/// Without the token, which no log is to have.
impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("tenant", &self.tenant)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Why credentials are refused. Shown, it completes "token rejected: ".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// This broker knows no tokens at all.
    NoTokens,
    /// It has not the form of a token of ours: nobody who chose a password gets further.
    Form,
    /// Nobody was issued this token, or it has been revoked.
    Unknown,
    /// It was issued for another tenant.
    WrongTenant,
    /// Its time is over.
    Expired,
    /// The certificate is somebody else's (claim 208).
    Certificate,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTokens => {
                "this broker has no tokens (FELIX_KAFKA_TOKEN_FILE is unset); connect without SASL"
            }
            Self::Form => {
                "the password is no Felix token; those begin with felix_ and are made by \
                 felix-broker --new-token"
            }
            Self::Unknown => {
                "the token is not known here; it was revoked, or not copied whole, or never \
                 entered into the token file"
            }
            Self::WrongTenant => {
                "wrong tenant: the token was issued for another tenant than the username names"
            }
            Self::Expired => "the token has expired; ask for a new one",
            Self::Certificate => "the client certificate is not issued to the token's subject",
        })
    }
}

/// Decides who may do what. Every handler asks it, once per stream and request.
pub trait Auth {
    /// Who an unauthenticated connection speaks for; `None`: nobody, and it may do nothing.
    fn anonymous(&self) -> Option<Principal>;

    /// Whom these credentials speak for at this time. Must not hold the core: it takes no longer
    /// than a hash over the token. How long it takes tells nothing of the tokens that are known.
    ///
    /// # Errors
    /// They speak for nobody.
    fn authenticate(
        &self,
        credentials: Credentials<'_>,
        now: Timestamp,
    ) -> Result<Principal, Rejection>;

    /// Whether `principal` may do `action` with `stream`.
    fn allows(&self, principal: &Principal, action: Action, stream: &Stream) -> bool {
        *principal.tenant == *stream.tenant && principal.permissions.allow(action, stream)
    }
}

impl Principal {
    /// Somebody without credentials, who may do everything with the streams of a tenant.
    #[must_use]
    pub fn anonymous(tenant: Rc<str>) -> Self {
        Self {
            tenant,
            subject: None,
            permissions: Permissions::All,
        }
    }
}

/// What a certificate's URI for a subject begins with.
const PRINCIPAL_URI: &str = "felix:principal:";

/// Whether a certificate names this subject: by the URI `felix:principal:<subject>`, or by a DNS
/// name or IP address that is the subject (claim 208).
#[must_use]
pub fn certificate_names_subject(certificate: &CertificateNames, subject: &str) -> bool {
    let mut uris = certificate.uris.iter();
    let by_uri = uris.any(|uri| uri.strip_prefix(PRINCIPAL_URI) == Some(subject));
    let mut names = certificate.dns.iter();
    let by_name = names.any(|name| name.eq_ignore_ascii_case(subject));
    let by_ip = || {
        let ip: Option<IpAddr> = subject.parse().ok();
        ip.is_some_and(|ip| certificate.ips.contains(&ip))
    };
    by_uri || by_name || by_ip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Durability, Timestamps};
    use crate::limits::SEGMENT_AGE;
    use crate::{Generation, Retention, StreamId};

    fn stream(namespace: &str, name: &str) -> Stream {
        Stream {
            id: StreamId(1),
            tenant: "t1".into(),
            namespace: namespace.into(),
            name: name.into(),
            shards: 1,
            durability: Durability::Periodic,
            timestamps: Timestamps::Append,
            retention: Retention::default(),
            segment_age: SEGMENT_AGE,
            generation_floor: Generation::new(0),
        }
    }

    fn granted(grants: &[Grant]) -> Permissions {
        Permissions::Granted(Grants::of(&Arc::from(grants)))
    }

    #[test]
    fn a_grant_covers_its_action_with_its_streams_and_nothing_else() {
        let everywhere = GrantScope::Tenant;
        let orders = GrantScope::Namespace("orders".into());
        let created = GrantScope::Stream {
            namespace: "orders".into(),
            name: "created.eu".into(),
        };
        for (scope, expected) in [
            (everywhere, [true, true, true]),
            (orders, [true, true, false]),
            (created, [true, false, false]),
        ] {
            let granted = granted(&[Grant {
                action: Action::Publish,
                scope,
            }]);
            assert_eq!(granted.grants(), 1);
            let streams = [
                ("orders", "created.eu"),
                ("orders", "paid"),
                ("orders2", "created.eu"),
            ]
            .map(|(namespace, name)| stream(namespace, name));
            for (stream, expected) in streams.iter().zip(expected) {
                assert_eq!(
                    granted.allow(Action::Publish, stream),
                    expected,
                    "{stream:?}"
                );
                assert!(!granted.allow(Action::Subscribe, stream));
            }
        }
        let nothing = granted(&[]);
        assert!(!nothing.allow(Action::Publish, &stream("orders", "paid")));
    }

    #[test]
    fn a_certificate_names_its_subject_by_uri_dns_name_or_address() {
        let names = CertificateNames {
            uris: vec!["felix:principal:checkout".into(), "spiffe://other".into()],
            dns: vec!["Checkout.example.com".into()],
            ips: vec!["192.0.2.7".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        };
        for subject in [
            "checkout",
            "checkout.example.com",
            "192.0.2.7",
            "2001:db8:0::1",
        ] {
            assert!(certificate_names_subject(&names, subject), "{subject}");
        }
        for subject in [
            "",
            "check",
            "spiffe://other",
            "other",
            "192.0.2.70",
            "felix:principal:",
        ] {
            assert!(!certificate_names_subject(&names, subject), "{subject}");
        }
        let nobody = CertificateNames::default();
        assert!(!certificate_names_subject(&nobody, "checkout"));
    }
}
