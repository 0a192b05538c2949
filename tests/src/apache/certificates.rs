//! Certificates made for one test, of authorities that nobody else knows.

use crate::certificates::{authority, signed};
use std::path::{Path, PathBuf};

/// PEM files.
#[derive(Debug)]
pub(super) struct Certificates {
    /// Who vouches for the broker and for clients.
    pub(super) authority: PathBuf,
    /// Who vouches for nobody.
    pub(super) other_authority: PathBuf,
    /// Key and certificate of the broker, for 127.0.0.1 by its number only.
    pub(super) broker: PathBuf,
    pub(super) client_certificate: PathBuf,
    pub(super) client_key: PathBuf,
}

impl Certificates {
    /// Makes all of them, in this directory.
    pub(super) fn make(home: &Path) -> Self {
        let write = |name: &str, pem: String| {
            let path = home.join(name);
            std::fs::write(&path, pem).expect("it is ours");
            path
        };
        let (authority, issuer) = authority("authority of the test");
        let (other_authority, _) = self::authority("authority of somebody else");
        let (broker_certificate, broker_key) = signed("broker", &["127.0.0.1"], &issuer);
        let (client_certificate, client_key) = signed("client", &["127.0.0.1"], &issuer);
        Self {
            authority: write("authority.pem", authority),
            other_authority: write("other-authority.pem", other_authority),
            broker: write("broker.pem", broker_key + &broker_certificate),
            client_certificate: write("client.pem", client_certificate),
            client_key: write("client-key.pem", client_key),
        }
    }
}
