//! What all TLS connections share: certificate, key, whom to trust, and the keys of tickets.

use super::certificate::Described;
use felix_core::Timestamp;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use std::fmt;
use std::sync::Arc;

/// The least version of TLS that is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsVersion {
    /// TLS 1.2, and 1.3 where the peer has it.
    V12,
    /// TLS 1.3 only.
    V13,
}

/// What is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsPolicy {
    version_min: TlsVersion,
    /// Positions in the provider's list, in the order of preference; empty: all.
    suites: Vec<usize>,
}

impl TlsPolicy {
    /// From this version on, with these cipher suites by name, the preferred first; none: all
    /// there are.
    ///
    /// # Errors
    /// A sentence: a name is unknown, or nothing is left to speak with.
    pub fn new(version_min: TlsVersion, suites: &[&str]) -> Result<Self, String> {
        let mut chosen = Vec::new();
        for name in suites {
            let known = Self::suite_names().position(|known| is_named(&known, name));
            let known = known.ok_or_else(|| {
                let all: Vec<String> = Self::suite_names().collect();
                format!(
                    "has {name:?}, which is no cipher suite of this broker; it has {}",
                    all.join(", ")
                )
            })?;
            if !chosen.contains(&known) {
                chosen.push(known);
            }
        }
        let policy = Self {
            version_min,
            suites: chosen,
        };
        let provider = policy.provider();
        let is_v13 = |suite: &SupportedCipherSuite| suite.tls13().is_some();
        if version_min == TlsVersion::V13 && !provider.cipher_suites.iter().any(is_v13) {
            return Err(
                "has no cipher suite of TLS 1.3, and FELIX_TLS_MIN_VERSION=1.3 allows no \
                        other; add one whose name begins with TLS_AES or TLS_CHACHA20"
                    .to_owned(),
            );
        }
        Ok(policy)
    }

    /// The names of all cipher suites, as IANA registers them.
    pub fn suite_names() -> impl Iterator<Item = String> {
        ring::ALL_CIPHER_SUITES.iter().map(|suite| {
            let name = format!("{:?}", suite.suite());
            name.replace("TLS13_", "TLS_")
        })
    }

    fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        if !self.suites.is_empty() {
            let known = ring::ALL_CIPHER_SUITES;
            let chosen = self.suites.iter().filter_map(|at| known.get(*at).copied());
            provider.cipher_suites = chosen.collect();
        }
        provider
    }

    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        match self.version_min {
            TlsVersion::V12 => V12_AND_V13,
            TlsVersion::V13 => V13,
        }
    }
}

static V12_AND_V13: &[&SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];
static V13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// IANA's names of TLS 1.3's suites begin with `TLS_`, those of rustls with `TLS13_`.
fn is_named(iana: &str, name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace("TLS13_", "TLS_");
    iana == name
}

/// A file that a configuration is made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsFile {
    /// The certificate, and those that vouch for it.
    Certificate,
    /// Its key.
    Key,
    /// Who signs the certificates of clients.
    ClientCa,
}

/// The contents of those files.
#[derive(Clone, Copy, Debug)]
pub struct TlsPem<'a> {
    /// See [`TlsFile::Certificate`].
    pub certificate: &'a [u8],
    /// See [`TlsFile::Key`].
    pub key: &'a [u8],
    /// See [`TlsFile::ClientCa`]; `None`: clients are asked for none.
    pub client_ca: Option<&'a [u8]>,
}

/// What is wrong with one of the files. Each is the end of a sentence that names the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TlsFault {
    /// No certificate in it.
    NoCertificate(TlsFile),
    /// No key in it.
    NoKey,
    /// A key, and it is locked by a password.
    EncryptedKey,
    /// It is broken.
    Pem(TlsFile, String),
    /// The certificate in this place, from 1, is broken or of no use.
    Unusable(TlsFile, usize, String),
    /// The key is of a kind that is not used.
    UnusableKey(String),
    /// The key belongs to another certificate: one of the same file, by its place, or none.
    OtherKey(Option<usize>),
    /// The certificate in this place, from 1, is not issued by the one behind it.
    Order(usize),
    /// The library refuses it all.
    Refused(String),
}

impl TlsFault {
    /// Which file it is in.
    #[must_use]
    pub fn file(&self) -> TlsFile {
        match self {
            Self::NoCertificate(file) | Self::Pem(file, _) | Self::Unusable(file, ..) => *file,
            Self::NoKey | Self::EncryptedKey | Self::UnusableKey(_) | Self::OtherKey(None) => {
                TlsFile::Key
            }
            Self::OtherKey(Some(_)) | Self::Order(_) | Self::Refused(_) => TlsFile::Certificate,
        }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate(_) => f.write_str(
                "has no certificate; a PEM file has a part that begins with \
                 -----BEGIN CERTIFICATE-----",
            ),
            Self::NoKey => f.write_str(
                "has no private key; a PEM file has a part that begins with \
                 -----BEGIN PRIVATE KEY-----",
            ),
            Self::EncryptedKey => f.write_str(
                "has a private key that is locked by a password, which nobody is here to type; \
                 unlock it with openssl pkey -in <file> -out <other file>",
            ),
            Self::Pem(_, fault) => write!(f, "is a broken PEM file: {fault}"),
            Self::Unusable(_, place, fault) => {
                write!(
                    f,
                    "has as number {place} a certificate that is of no use: {fault}"
                )
            }
            Self::UnusableKey(fault) => write!(
                f,
                "has a private key that cannot be used ({fault}); RSA from 2048 bits up, ECDSA \
                 P-256 and P-384, and Ed25519 can"
            ),
            Self::OtherKey(None) => f.write_str(
                "has a private key that does not belong to the certificate; give the two that \
                 were made together",
            ),
            Self::OtherKey(Some(place)) => write!(
                f,
                "has the certificate that the private key belongs to as number {place}; the \
                 broker's own certificate comes first"
            ),
            Self::Order(place) => write!(
                f,
                "has certificate number {place}, which is not issued by number {}; each \
                 certificate is followed by the one that issued it",
                place + 1
            ),
            Self::Refused(fault) => write!(f, "cannot be used: {fault}"),
        }
    }
}

/// What all TLS connections of all cores share. Plain, to cross threads; clones are the same.
///
/// Tickets are sealed by keys that are made here: connections of one core are resumed on any
/// other, and none of one configuration under the next. The library renews the keys every six
/// hours, and takes tickets of the keys before.
#[derive(Clone)]
pub struct TlsConfig {
    pub(super) server: Arc<ServerConfig>,
    chain: Vec<Described>,
    client_cas: Vec<Described>,
}

impl TlsConfig {
    /// Makes it from files that have been read.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn new(pem: TlsPem<'_>, policy: &TlsPolicy) -> Result<Self, TlsFault> {
        let provider = Arc::new(policy.provider());
        let (certificates, chain) = certificates(TlsFile::Certificate, pem.certificate)?;
        let certified = certified(certificates, pem.key, &provider)?;
        for (place, pair) in (1..).zip(chain.windows(2)) {
            if let [issued, issuer] = pair
                && !issued.is_issued_by(issuer)
            {
                return Err(TlsFault::Order(place));
            }
        }
        let refused = |error: rustls::Error| TlsFault::Refused(error.to_string());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(policy.versions())
            .map_err(refused)?;
        let mut client_cas = Vec::new();
        let builder = match pem.client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let (roots, described) = roots(pem)?;
                client_cas = described;
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| TlsFault::Pem(TlsFile::ClientCa, error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let resolver = rustls::sign::SingleCertAndKey::from(certified);
        let mut server = builder.with_cert_resolver(Arc::new(resolver));
        // Tickets alone: sessions in a table would be a core's own, and a lock between cores.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.ticketer = ring::Ticketer::new().map_err(refused)?;
        Ok(Self {
            server: Arc::new(server),
            chain,
            client_cas,
        })
    }

    /// Sentences about certificates that do not hold at `now`: worth a warning and no more, since
    /// clients judge them by their own clocks.
    #[must_use]
    pub fn warnings(&self, now: Timestamp) -> Vec<String> {
        let mut warnings = Vec::new();
        for (whose, certificates) in [
            ("the broker's certificate", &self.chain),
            ("the client authority's certificate", &self.client_cas),
        ] {
            for Described {
                subject,
                not_before,
                not_after,
                ..
            } in certificates
            {
                if *not_after < now {
                    warnings.push(format!("{whose} {subject:?} has expired; renew it"));
                } else if *not_before > now {
                    warnings.push(format!(
                        "{whose} {subject:?} does not hold yet; clients refuse it until then"
                    ));
                }
            }
        }
        warnings
    }

    /// When the first of the broker's certificates expires.
    #[must_use]
    pub fn not_after(&self) -> Timestamp {
        let ends = self.chain.iter().map(|certificate| certificate.not_after);
        ends.min().expect("a chain has a certificate")
    }

    /// Whom the broker's certificate is issued to.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self
            .chain
            .first()
            .expect("a chain has a certificate")
            .subject
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig")
            .field("chain", &self.chain)
            .field("client_cas", &self.client_cas)
            .finish_non_exhaustive()
    }
}

type Certificates = (Vec<CertificateDer<'static>>, Vec<Described>);

fn certificates(file: TlsFile, pem: &[u8]) -> Result<Certificates, TlsFault> {
    let read: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| TlsFault::Pem(file, error.to_string()))?;
    if read.is_empty() {
        return Err(TlsFault::NoCertificate(file));
    }
    let described = (1..).zip(&read).map(|(place, certificate)| {
        Described::read(certificate).map_err(|fault| TlsFault::Unusable(file, place, fault))
    });
    let described = described.collect::<Result<_, _>>()?;
    Ok((read, described))
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsFault> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        PemError::NoItemsFound if is_encrypted(key) => TlsFault::EncryptedKey,
        PemError::NoItemsFound => TlsFault::NoKey,
        error => TlsFault::Pem(TlsFile::Key, error.to_string()),
    })?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| TlsFault::UnusableKey(error.to_string()))?;
    let belongs = |certificate: &CertificateDer<'static>| {
        CertifiedKey::new(vec![certificate.clone()], Arc::clone(&key)).keys_match()
    };
    match chain
        .iter()
        .position(|certificate| belongs(certificate).is_ok())
    {
        Some(0) => Ok(CertifiedKey::new(chain, key)),
        Some(place) => Err(TlsFault::OtherKey(Some(place + 1))),
        None => match chain.first().map(belongs) {
            Some(Err(rustls::Error::InconsistentKeys(_))) | Some(Ok(())) | None => {
                Err(TlsFault::OtherKey(None))
            }
            Some(Err(error)) => Err(TlsFault::Unusable(
                TlsFile::Certificate,
                1,
                error.to_string(),
            )),
        },
    }
}

fn is_encrypted(pem: &[u8]) -> bool {
    let mark = b"ENCRYPTED PRIVATE KEY";
    pem.windows(mark.len()).any(|window| window == mark)
}

fn roots(pem: &[u8]) -> Result<(RootCertStore, Vec<Described>), TlsFault> {
    let (certificates, described) = certificates(TlsFile::ClientCa, pem)?;
    let mut roots = RootCertStore::empty();
    for (place, certificate) in (1..).zip(certificates) {
        roots
            .add(certificate)
            .map_err(|error| TlsFault::Unusable(TlsFile::ClientCa, place, error.to_string()))?;
    }
    Ok((roots, described))
}
