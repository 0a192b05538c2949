//! What a certificate says, as far as anybody here looks at it.
//!
//! rustls judges chains and tells little of what is in them: names that are addresses, dates and
//! issuers are read by x509-parser, which is well kept and brings no cryptography of its own.

use felix_core::{CertificateNames, Timestamp};
use rustls::pki_types::CertificateDer;
use std::net::IpAddr;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// One certificate of a file. Plain, to cross threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Described {
    /// Whom it is issued to, for people.
    pub(super) subject: String,
    subject_der: Vec<u8>,
    issuer_der: Vec<u8>,
    /// From when on it holds.
    pub(super) not_before: Timestamp,
    /// Until when.
    pub(super) not_after: Timestamp,
}

impl Described {
    /// Reads it.
    ///
    /// # Errors
    /// A few words: it is no certificate.
    pub(super) fn read(der: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|_| "it does not have the structure of an X.509 certificate".to_owned())?;
        let milliseconds = |seconds: i64| Timestamp(seconds.saturating_mul(1000));
        let validity = certificate.validity();
        Ok(Self {
            subject: certificate.subject().to_string(),
            subject_der: certificate.subject().as_raw().to_vec(),
            issuer_der: certificate.issuer().as_raw().to_vec(),
            not_before: milliseconds(validity.not_before.timestamp()),
            not_after: milliseconds(validity.not_after.timestamp()),
        })
    }

    /// Whether it names `other` as the one that issued it.
    pub(super) fn is_issued_by(&self, other: &Self) -> bool {
        self.issuer_der == other.subject_der
    }
}

/// The names of a peer's certificate, whose chain has been checked. One that cannot be read has
/// none: it then is nobody's.
pub(super) fn names(der: &CertificateDer<'_>) -> CertificateNames {
    let mut names = CertificateNames::default();
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return names;
    };
    let Ok(Some(alternative)) = certificate.subject_alternative_name() else {
        return names;
    };
    for name in &alternative.value.general_names {
        match name {
            GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
            GeneralName::DNSName(dns) => names.dns.push((*dns).to_owned()),
            GeneralName::IPAddress(bytes) => names.ips.extend(address(bytes)),
            GeneralName::OtherName(..)
            | GeneralName::RFC822Name(_)
            | GeneralName::X400Address(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EDIPartyName(_)
            | GeneralName::RegisteredID(_)
            | GeneralName::Invalid(..) => {}
        }
    }
    names
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}
