//! Why a TLS connection did not come about.

use rustls::{AlertDescription, Error, PeerIncompatible};
use std::fmt;
use std::io;

/// Kinds of failed handshakes, as they are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsFailure {
    /// Not finished in time.
    Timeout,
    /// The peer does not speak TLS.
    NotTls,
    /// The peer went away.
    PeerClosed,
    /// The connection broke.
    Broken,
    /// No version of TLS in common.
    Version,
    /// No cipher suite in common.
    CipherSuite,
    /// Nothing else in common that is needed.
    Incompatible,
    /// A client certificate is needed, and none came.
    NoClientCertificate,
    /// The client's certificate does not hold.
    ClientCertificate,
    /// The peer does not trust our certificate.
    Distrusted,
    /// The peer ended the handshake for another reason.
    Alert,
    /// The peer broke the protocol.
    Malformed,
    /// We could not go on, which is no fault of the peer.
    Internal,
}

impl TlsFailure {
    /// Every kind, in the order of the counters.
    pub(super) const ALL: [Self; 13] = [
        Self::Timeout,
        Self::NotTls,
        Self::PeerClosed,
        Self::Broken,
        Self::Version,
        Self::CipherSuite,
        Self::Incompatible,
        Self::NoClientCertificate,
        Self::ClientCertificate,
        Self::Distrusted,
        Self::Alert,
        Self::Malformed,
        Self::Internal,
    ];

    /// The label value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::NotTls => "not_tls",
            Self::PeerClosed => "peer_closed",
            Self::Broken => "broken",
            Self::Version => "version",
            Self::CipherSuite => "cipher_suite",
            Self::Incompatible => "incompatible",
            Self::NoClientCertificate => "no_client_certificate",
            Self::ClientCertificate => "client_certificate",
            Self::Distrusted => "distrusted",
            Self::Alert => "alert",
            Self::Malformed => "malformed",
            Self::Internal => "internal",
        }
    }
}

/// A handshake that failed.
#[derive(Debug)]
pub enum TlsError {
    /// The first bytes are none of TLS.
    NotTls(NotTls),
    /// The peer sent no more before the handshake was done.
    PeerClosed,
    /// The connection broke.
    Broken(io::Error),
    /// The peer cut its handshake into more pieces than any client does.
    TooManySteps,
    /// What rustls says.
    Rustls(Error),
}

/// What comes instead of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotTls {
    /// A Kafka request, by its length and API key.
    Kafka,
    /// An HTTP request.
    Http,
    /// Something else.
    Unknown,
}

impl TlsError {
    /// How it is counted.
    #[must_use]
    pub fn failure(&self) -> TlsFailure {
        match self {
            Self::NotTls(_) => TlsFailure::NotTls,
            Self::PeerClosed => TlsFailure::PeerClosed,
            Self::Broken(_) => TlsFailure::Broken,
            Self::TooManySteps => TlsFailure::Malformed,
            Self::Rustls(error) => failure(error),
        }
    }
}

fn failure(error: &Error) -> TlsFailure {
    match error {
        Error::PeerIncompatible(reason) => match reason {
            PeerIncompatible::NoCipherSuitesInCommon => TlsFailure::CipherSuite,
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled => TlsFailure::Version,
            _ => TlsFailure::Incompatible,
        },
        Error::NoCertificatesPresented => TlsFailure::NoClientCertificate,
        Error::InvalidCertificate(_) => TlsFailure::ClientCertificate,
        Error::AlertReceived(alert) => match alert {
            AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::UnknownCA
            // A certificate of the same name and another key: the one that the broker made before.
            | AlertDescription::DecryptError => TlsFailure::Distrusted,
            AlertDescription::ProtocolVersion => TlsFailure::Version,
            _ => TlsFailure::Alert,
        },
        Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::InvalidMessage(_)
        | Error::PeerMisbehaved(_)
        | Error::PeerSentOversizedRecord
        | Error::DecryptError => TlsFailure::Malformed,
        // The library may come to know more; none of them is the peer's.
        _ => TlsFailure::Internal,
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTls(NotTls::Kafka) => f.write_str(
                "the client speaks Kafka without TLS, and this listener speaks TLS; set \
                 security.protocol to SSL or SASL_SSL in the client",
            ),
            Self::NotTls(NotTls::Http) => {
                f.write_str("the client speaks HTTP, and this listener speaks Kafka over TLS")
            }
            Self::NotTls(NotTls::Unknown) => {
                f.write_str("what the client sends does not begin a TLS handshake")
            }
            Self::PeerClosed => f.write_str("the client left in the midst of the handshake"),
            Self::Broken(error) => write!(f, "the connection broke in the handshake: {error}"),
            Self::TooManySteps => {
                f.write_str("the client sends its handshake in more pieces than any client needs")
            }
            Self::Rustls(error) => match failure(error) {
                TlsFailure::Version => write!(
                    f,
                    "the client and this listener have no TLS version in common ({error}); \
                     FELIX_TLS_MIN_VERSION says which is the least"
                ),
                TlsFailure::CipherSuite => write!(
                    f,
                    "the client and this listener have no cipher suite in common; \
                     FELIX_TLS_CIPHER_SUITES says which are allowed"
                ),
                TlsFailure::NoClientCertificate => f.write_str(
                    "the client shows no certificate, and FELIX_TLS_CLIENT_CA wants one",
                ),
                TlsFailure::ClientCertificate => write!(
                    f,
                    "the client's certificate does not hold against FELIX_TLS_CLIENT_CA: {error}"
                ),
                TlsFailure::Distrusted => write!(
                    f,
                    "the client does not trust this broker's certificate ({error}); have it trust \
                     the file that FELIX_TLS_CERT_EXPORT writes, or the authority that signed it"
                ),
                _ => write!(f, "the handshake failed: {error}"),
            },
        }
    }
}

impl std::error::Error for TlsError {}
