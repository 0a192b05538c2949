//! The encryption of the connection to the database.
//!
//! What libpq calls `require` is here what it calls `verify-full`: a certificate that nobody looks
//! at keeps nobody out.

use crate::store::StoreError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::net::IpAddr;
use std::sync::Arc;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The connection string with the words for verification that only libpq knows.
pub(super) fn known_modes(url: &str) -> String {
    url.replace("sslmode=verify-full", "sslmode=require")
        .replace("sslmode=verify-ca", "sslmode=require")
}

/// Sets whether connections are encrypted, where the string leaves it open: always, except to this
/// machine.
pub(super) fn settle_mode(config: &mut Config) {
    if config.get_ssl_mode() == SslMode::Prefer {
        let is_here = !config.get_hosts().is_empty() && config.get_hosts().iter().all(is_local);
        // `prefer` itself is no choice: whoever is in between chooses then.
        let mode = if is_here {
            SslMode::Disable
        } else {
            SslMode::Require
        };
        config.ssl_mode(mode);
    } else if config.get_ssl_mode() == SslMode::Disable && !config.get_hosts().iter().all(is_local)
    {
        tracing::warn!(
            "the connection to the database is not encrypted (sslmode=disable); whoever is in between \
             reads and changes the catalog"
        );
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let ip: Option<IpAddr> = name.parse().ok();
            name == "localhost" || ip.is_some_and(|ip| ip.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

/// What makes connections encrypted, trusting these authorities.
pub(super) fn connector(ca_pem: Option<&[u8]>) -> Result<MakeRustlsConnect, StoreError> {
    let wrong = |what: String| StoreError::Unusable(format!("the database's authorities: {what}"));
    let mut roots = RootCertStore::empty();
    match ca_pem {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| wrong(format!("no PEM: {error}")))?;
                roots
                    .add(certificate)
                    .map_err(|error| wrong(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(wrong("there is no certificate in the PEM".into()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> SslMode {
        let mut config: Config = known_modes(url).parse().unwrap();
        settle_mode(&mut config);
        config.get_ssl_mode()
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_somebody_says_otherwise() {
        for url in [
            "postgres://u@localhost/d",
            "postgres://u@127.0.0.1/d",
            "host=/run/pg user=u",
        ] {
            assert_eq!(mode(url), SslMode::Disable, "{url}");
        }
        for url in [
            "postgres://u@db.example.com/d",
            "postgres://u@db.example.com/d?sslmode=prefer",
            "postgres://u@localhost,db.example.com/d",
            "postgres://u@localhost/d?sslmode=require",
            "postgres://u@localhost/d?sslmode=verify-full",
            "host=db.example.com sslmode=verify-ca user=u",
        ] {
            assert_eq!(mode(url), SslMode::Require, "{url}");
        }
        assert_eq!(
            mode("postgres://u@db.example.com/d?sslmode=disable"),
            SslMode::Disable
        );
    }

    #[test]
    fn authorities_that_are_none_are_refused() {
        for pem in [
            "",
            "nonsense",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let Err(error) = connector(Some(pem.as_bytes())) else {
                panic!("{pem:?} was taken")
            };
            assert!(error.to_string().contains("authorities"), "{error}");
        }
    }
}
