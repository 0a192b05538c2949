//! What a client's certificate says of it, once its chain has been checked.

use std::net::IpAddr;

/// The subject alternative names of a certificate (RFC 5280, section 4.2.1.6), as far as they are
/// looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CertificateNames {
    /// URIs, such as `felix:principal:<subject>`.
    pub uris: Vec<String>,
    /// DNS names.
    pub dns: Vec<String>,
    /// IP addresses.
    pub ips: Vec<IpAddr>,
}
