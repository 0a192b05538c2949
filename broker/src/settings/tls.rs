//! The settings of TLS, which all listeners share.

use super::SettingsError;
use super::table::find;
use super::value::{Checked, refusal};
use felix_net::tls::{TlsPolicy, TlsVersion};
use std::path::PathBuf;

/// Certificates and what TLS may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tls {
    /// The broker's certificate and key; `None`: it makes its own.
    pub(crate) own: Option<OwnFiles>,
    /// Where the certificate is written for clients.
    pub(crate) export: Option<PathBuf>,
    /// Who signs the certificates of clients; `None`: they are asked for none.
    pub(crate) client_ca: Option<PathBuf>,
    /// Versions and cipher suites.
    pub(crate) policy: TlsPolicy,
}

/// The broker's certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OwnFiles {
    /// The certificate, and those that vouch for it.
    pub(crate) certificate: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
}

pub(super) fn resolve(values: &Checked<'_>) -> Result<Tls, SettingsError> {
    let path = |variable| values.text(variable).map(PathBuf::from);
    let own = match (path("FELIX_TLS_CERT"), path("FELIX_TLS_KEY")) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(OwnFiles { certificate, key }),
        (Some(_), None) => {
            return Err(SettingsError::Together(
                "FELIX_TLS_CERT is set and FELIX_TLS_KEY is not, and a certificate is of no use \
                 without its key; set both, or neither to have the broker make its own"
                    .into(),
            ));
        }
        (None, Some(_)) => {
            return Err(SettingsError::Together(
                "FELIX_TLS_KEY is set and FELIX_TLS_CERT is not, and a key is of no use without \
                 its certificate; set both, or neither to have the broker make its own"
                    .into(),
            ));
        }
    };
    let client_ca = path("FELIX_TLS_CLIENT_CA");
    let bind_subject = values.switch("FELIX_TLS_CLIENT_CERT_BIND_SUBJECT");
    if bind_subject && client_ca.is_none() {
        return Err(SettingsError::Together(
            "FELIX_TLS_CLIENT_CERT_BIND_SUBJECT is true and clients are asked for no certificate; \
             set FELIX_TLS_CLIENT_CA to the authority that signs them"
                .into(),
        ));
    }
    Ok(Tls {
        own,
        export: path("FELIX_TLS_CERT_EXPORT"),
        client_ca,
        policy: policy(values)?,
    })
}

fn policy(values: &Checked<'_>) -> Result<TlsPolicy, SettingsError> {
    let version_min = values.text("FELIX_TLS_MIN_VERSION");
    let version_min = match version_min.expect("the setting has a default").as_str() {
        "1.2" => TlsVersion::V12,
        "1.3" => TlsVersion::V13,
        other => unreachable!("{other} is no choice of the table"),
    };
    let variable = "FELIX_TLS_CIPHER_SUITES";
    let suites = values.cipher_suites(variable).unwrap_or_default();
    TlsPolicy::new(version_min, &suites).map_err(|fault| {
        let given = values
            .given(variable)
            .expect("all suites are never refused");
        refusal(find(variable), given, fault)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Outcome, read};

    fn given(flags: &[&str]) -> Result<Tls, String> {
        let words = ["felix-broker"].iter().chain(flags);
        let words = words.map(|word| (*word).to_owned());
        match read(words, std::iter::empty()) {
            Ok(Outcome::Run(settings)) => Ok(settings.tls),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn certificate_and_key_come_together_or_not_at_all() {
        assert_eq!(given(&[]).unwrap().own, None);
        let own = given(&["--tls-cert=c.pem", "--tls-key=k.pem"]).unwrap().own;
        assert_eq!(own.unwrap().key, PathBuf::from("k.pem"));
        let fault = given(&["--tls-cert=c.pem"]).unwrap_err();
        assert!(fault.contains("FELIX_TLS_KEY is not"), "{fault}");
        let fault = given(&["--tls-key=k.pem"]).unwrap_err();
        assert!(fault.contains("FELIX_TLS_CERT is not"), "{fault}");
    }

    #[test]
    fn a_subject_is_bound_only_where_there_is_a_certificate_to_bind() {
        let fault = given(&["--tls-client-cert-bind-subject=true"]).unwrap_err();
        assert!(fault.contains("set FELIX_TLS_CLIENT_CA"), "{fault}");
        let bound = [
            "--tls-client-cert-bind-subject=true",
            "--tls-client-ca=ca.pem",
        ];
        assert_eq!(given(&bound).unwrap().client_ca, Some("ca.pem".into()));
    }

    #[test]
    fn cipher_suites_go_by_both_spellings_and_unknown_ones_are_refused_with_the_list() {
        let iana = given(&["--tls-cipher-suites=TLS_AES_128_GCM_SHA256"]).unwrap();
        let rustls = given(&["--tls-cipher-suites=TLS13_AES_128_GCM_SHA256"]).unwrap();
        assert_eq!(iana.policy, rustls.policy);
        assert_ne!(iana.policy, given(&[]).unwrap().policy);
        let fault = given(&["--tls-cipher-suites=TLS_AES_128_GCM_SHA256,RC4"]).unwrap_err();
        for part in [
            "\"RC4\"",
            "TLS_AES_256_GCM_SHA384",
            "ECDHE_RSA_WITH_CHACHA20",
        ] {
            assert!(fault.contains(part), "{fault}");
        }
    }

    #[test]
    fn suites_and_the_least_version_must_leave_something_to_speak() {
        let suites = "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        assert!(given(&[suites]).is_ok());
        let fault = given(&[suites, "--tls-min-version=1.3"]).unwrap_err();
        assert!(fault.contains("no cipher suite of TLS 1.3"), "{fault}");
        let fault = given(&["--tls-min-version=1.1"]).unwrap_err();
        assert!(fault.contains("1.2, 1.3"), "{fault}");
    }
}
