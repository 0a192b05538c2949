//! How a connection is secured.

use super::TlsConfig;
use std::fmt;
use std::path::PathBuf;

/// What a connection needs beside its bytes. The default is nothing.
#[derive(Clone, Default, Debug)]
pub struct Security {
    /// Encrypts, and checks who the broker is.
    pub tls: Option<TlsConfig>,
    /// Who we are (SASL/PLAIN).
    pub sasl: Option<Credential>,
}

/// Whose signature under a broker's certificate counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// That of whom this machine trusts.
    System,
    /// That of the certificates in a PEM file.
    File(PathBuf),
    /// Anybody's: nothing is checked, and whoever sits in between can read along.
    Anybody,
}

/// A certificate of our own, for brokers that want one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// A PEM file with the certificate, and those that vouch for it.
    pub certificate: PathBuf,
    /// A PEM file with its key.
    pub key: PathBuf,
}

/// A user and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Name of the user.
    pub user: String,
    /// Never shown.
    pub password: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}
