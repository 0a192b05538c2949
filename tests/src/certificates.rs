//! Certificates made for one test, of authorities that nobody else knows.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Who signs certificates, and the directory in which they are.
#[derive(Debug)]
pub struct Authority {
    home: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// PEM files of one certificate.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Authority {
    /// One of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory can be made");
        let (certificate, issuer) = authority(name);
        write(&home.path().join("authority.pem"), &certificate);
        Self { home, issuer }
    }

    /// Its own certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.home.path().join("authority.pem")
    }

    /// Signs a certificate for these names, of which those with a colon are URIs; in files
    /// that begin with `name`, where another one may have been before.
    #[must_use]
    pub fn issue(&self, name: &str, names: &[&str]) -> Identity {
        let (certificate, key) = signed(name, names, &self.issuer);
        let identity = Identity {
            certificate: self.home.path().join(format!("{name}.pem")),
            key: self.home.path().join(format!("{name}-key.pem")),
        };
        write(&identity.certificate, &certificate);
        write(&identity.key, &key);
        identity
    }
}

/// The certificate of an authority, and what it signs with.
pub(crate) fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().expect("keys can be made");
    let certificate = params.self_signed(&key).expect("an authority signs itself");
    (certificate.pem(), Issuer::new(params, key))
}

/// A certificate for these names, of which those with a colon are URIs, and its key.
pub(crate) fn signed(name: &str, names: &[&str], issuer: &Issuer<'_, KeyPair>) -> (String, String) {
    let (uris, others): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains(':'));
    let others: Vec<String> = others.into_iter().map(str::to_owned).collect();
    let mut params = CertificateParams::new(others).expect("they are names");
    for uri in uris {
        let uri = SanType::URI(uri.try_into().expect("it is ASCII"));
        params.subject_alt_names.push(uri);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().expect("keys can be made");
    let certificate = params.signed_by(&key, issuer);
    let certificate = certificate.expect("an authority signs others");
    (certificate.pem(), key.serialize_pem())
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("it is ours");
}
