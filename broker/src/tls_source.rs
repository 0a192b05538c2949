//! Where certificate, key and client authority come from: files that the operator gives, or a
//! certificate that the broker makes for itself.

use crate::clock::SystemClock;
use crate::data_dir::{self, DataDir};
use crate::given_file::{GivenFault, Wanted};
use crate::settings::{OwnFiles, Tls};
use felix_core::Clock;
use felix_net::tls::{TlsConfig, TlsFile, TlsPem, TlsPolicy};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};
use std::fs;
use std::path::{Path, PathBuf};

/// The broker's own certificate and its key, in one file so that no crash leaves one without the
/// other.
const SELF_SIGNED: &str = "tls-self-signed.pem";

/// Names of the broker's own certificate.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Bytes of a file at most. A chain has some kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// See the module. Plain, to cross threads.
#[derive(Clone, Debug)]
pub(crate) struct TlsSource {
    own: Own,
    client_ca: Option<PathBuf>,
    export: Option<PathBuf>,
    policy: TlsPolicy,
}

/// The broker's certificate.
#[derive(Clone, Debug)]
enum Own {
    /// As the operator gives it.
    Given(OwnFiles),
    /// As the broker made it, in the data directory.
    Kept(PathBuf),
    /// As the broker made it, with nowhere to keep it.
    Passing(String),
}

impl TlsSource {
    /// The files that the settings name. The broker's own certificate is made where there is none.
    ///
    /// # Errors
    /// A sentence: the certificate cannot be made or kept.
    pub(crate) fn new(tls: &Tls, data: Option<&DataDir>) -> Result<Self, String> {
        let own = match (&tls.own, data) {
            (Some(files), _) => Own::Given(files.clone()),
            (None, Some(data)) => Own::Kept(kept(data)?),
            (None, None) => Own::Passing(make_self_signed()?),
        };
        Ok(Self::with(own, tls))
    }

    /// The files that the settings name, where they name a certificate.
    pub(crate) fn given(tls: &Tls) -> Option<Self> {
        let files = tls.own.clone()?;
        Some(Self::with(Own::Given(files), tls))
    }

    fn with(own: Own, tls: &Tls) -> Self {
        Self {
            own,
            client_ca: tls.client_ca.clone(),
            export: tls.export.clone(),
            policy: tls.policy.clone(),
        }
    }

    /// Reads and judges everything; the configuration, and the certificate as text.
    ///
    /// # Errors
    /// A sentence that names the file, its setting and the cure.
    pub(crate) fn load(&self) -> Result<Loaded, GivenFault> {
        let (certificate, key) = match &self.own {
            Own::Given(OwnFiles { certificate, key }) => (
                read(certificate, "FELIX_TLS_CERT")?,
                read(key, "FELIX_TLS_KEY")?,
            ),
            Own::Kept(path) => {
                let both = read(path, "FELIX_DURABLE_STORAGE_DIR")?;
                (both.clone(), both)
            }
            Own::Passing(both) => (both.clone().into_bytes(), both.clone().into_bytes()),
        };
        let client_ca = self.client_ca.as_ref();
        let client_ca = client_ca.map(|path| read(path, "FELIX_TLS_CLIENT_CA"));
        let client_ca = client_ca.transpose()?;
        let pem = TlsPem {
            certificate: &certificate,
            key: &key,
            client_ca: client_ca.as_deref(),
        };
        let config = TlsConfig::new(pem, &self.policy)
            .map_err(|fault| format!("{} {fault}", self.describe(fault.file())))
            .map_err(GivenFault::Refused)?;
        Ok(Loaded {
            config,
            certificate: certificates(&String::from_utf8_lossy(&certificate)),
        })
    }

    /// What a file is to the operator: its setting and its path.
    fn describe(&self, file: TlsFile) -> String {
        let given = |variable, path: &Path| format!("{variable}: {}", path.display());
        match (file, &self.own) {
            (TlsFile::ClientCa, _) => {
                let path = self.client_ca.as_deref().unwrap_or(Path::new(""));
                given("FELIX_TLS_CLIENT_CA", path)
            }
            (TlsFile::Certificate, Own::Given(files)) => {
                given("FELIX_TLS_CERT", &files.certificate)
            }
            (TlsFile::Key, Own::Given(files)) => given("FELIX_TLS_KEY", &files.key),
            (_, Own::Kept(path)) => format!(
                "{}, in which the broker keeps its own certificate (without it the next start \
                 makes another),",
                path.display()
            ),
            (_, Own::Passing(_)) => "the broker's own certificate".to_owned(),
        }
    }

    /// Whether the broker made the certificate itself, and whether a restart has it again.
    pub(crate) fn self_signed(&self) -> Option<SelfSigned> {
        match self.own {
            Own::Given(_) => None,
            Own::Kept(_) => Some(SelfSigned::Kept),
            Own::Passing(_) => Some(SelfSigned::Passing),
        }
    }

    /// Its files.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let own = match &self.own {
            Own::Given(OwnFiles { certificate, key }) => vec![certificate, key],
            Own::Kept(path) => vec![path],
            Own::Passing(_) => Vec::new(),
        };
        own.into_iter().chain(&self.client_ca).cloned().collect()
    }

    /// Writes the certificate where clients find it, if that is asked for.
    ///
    /// # Errors
    /// A sentence: it cannot be written.
    pub(crate) fn export(&self, loaded: &Loaded) -> Result<(), String> {
        let Some(path) = &self.export else {
            return Ok(());
        };
        if fs::read(path).is_ok_and(|old| old == loaded.certificate.as_bytes()) {
            return Ok(());
        }
        data_dir::put(path, ".new", loaded.certificate.as_bytes())
            .map_err(|fault| format!("FELIX_TLS_CERT_EXPORT: {fault}"))
    }
}

/// Whether a certificate that the broker made outlives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SelfSigned {
    /// It is in the data directory.
    Kept,
    /// It is nowhere.
    Passing,
}

/// Files that have been read and found good.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// What connections are made from.
    pub(crate) config: TlsConfig,
    /// The certificate as text, without any key.
    certificate: String,
}

impl Loaded {
    /// Logs what is worth a warning about certificates now.
    pub(crate) fn warn(&self) {
        for warning in self.config.warnings(SystemClock.wall()) {
            tracing::warn!("{warning}");
        }
    }
}

fn read(path: &Path, variable: &'static str) -> Result<Vec<u8>, GivenFault> {
    let wanted = Wanted {
        variable,
        what: "a PEM file",
        bytes_max: FILE_BYTES_MAX,
    };
    wanted.read(path)
}

/// The certificates of a PEM file, and nothing else that is in it.
fn certificates(pem: &str) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in pem.lines().map(str::trim_end) {
        inside |= line == "-----BEGIN CERTIFICATE-----";
        if inside {
            text.push_str(line);
            text.push('\n');
        }
        inside &= line != "-----END CERTIFICATE-----";
    }
    text
}

/// The file of the certificate that the broker makes for itself, which is made if it is not there.
fn kept(data: &DataDir) -> Result<PathBuf, String> {
    let there = data
        .read(SELF_SIGNED)
        .map_err(|fault| format!("the broker's own certificate: {fault}"))?;
    if there.is_none() {
        data.put_secret(SELF_SIGNED, &make_self_signed()?)
            .map_err(|fault| format!("the broker's own certificate cannot be kept: {fault}"))?;
    }
    Ok(data.path().join(SELF_SIGNED))
}

/// A new certificate, and behind it its key.
///
/// It holds from 2020 to 2120 whatever this machine's clock says now: it is trusted by who has a
/// copy of it, and a date would only make it fail some day.
fn make_self_signed() -> Result<String, String> {
    let made = || {
        let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "localhost");
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2120, 1, 1);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(certificate.pem() + &key.serialize_pem())
    };
    made().map_err(|error: rcgen::Error| format!("no certificate can be made: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Outcome, Settings, read as read_settings};
    use std::os::unix::fs::PermissionsExt;
    use tempfile::tempdir;

    fn settings(flags: &[String]) -> Settings {
        let words = std::iter::once("felix-broker".to_owned()).chain(flags.iter().cloned());
        match read_settings(words, std::iter::empty()) {
            Ok(Outcome::Run(settings)) => *settings,
            other => panic!("{other:?}"),
        }
    }

    fn source(flags: &[String]) -> TlsSource {
        TlsSource::given(&settings(flags).tls).unwrap()
    }

    #[test]
    fn the_own_certificate_is_made_once_and_only_its_owner_may_read_it() {
        let temp = tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let tls = settings(&[]).tls;
        let first = TlsSource::new(&tls, Some(&data)).unwrap().load().unwrap();
        let file = temp.path().join(SELF_SIGNED);
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let again = TlsSource::new(&tls, Some(&data)).unwrap().load().unwrap();
        assert_eq!(first.certificate, again.certificate);
        assert!(first.certificate.contains("BEGIN CERTIFICATE"));
        assert!(!first.certificate.contains("KEY"), "no key is exported");
        assert_eq!(
            first.config.warnings(SystemClock.wall()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_fault_names_the_setting_the_file_and_the_cure() {
        let temp = tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = temp.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let one = make_self_signed().unwrap();
        let other = make_self_signed().unwrap();
        let good = file("good.pem", &one);
        let empty = file("empty.pem", "nothing\n");
        let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE \
                      KEY-----\n";
        let [in_certificate, in_key] = ["FELIX_TLS_CERT", "FELIX_TLS_KEY"];
        let cut = file("cut.pem", one.split_at(200).0);
        let misplaced = file("order.pem", &(certificates(&other) + &one));
        let chain = file("chain.pem", &(one + &certificates(&issuer())));
        let none = temp.path().join("none").display().to_string();
        for (certificate, key, setting, expected) in [
            (&empty, &good, in_certificate, "has no certificate"),
            (&good, &empty, in_key, "has no private key"),
            (
                &good,
                &file("other.pem", &other),
                in_key,
                "does not belong to the certificate",
            ),
            (
                &good,
                &file("locked.pem", locked),
                in_key,
                "locked by a password",
            ),
            (&cut, &good, in_certificate, "broken PEM file"),
            (
                &misplaced,
                &good,
                in_certificate,
                "as number 2; the broker's own certificate comes first",
            ),
            (&chain, &good, in_certificate, "not issued by number 2"),
            (&none, &good, in_certificate, "cannot be read"),
        ] {
            let flags = [
                format!("--tls-cert={certificate}"),
                format!("--tls-key={key}"),
            ];
            let fault = String::from(source(&flags).load().unwrap_err());
            let faulty = if setting == in_key { key } else { certificate };
            let named = format!("{setting}: {faulty} ");
            assert!(
                fault.starts_with(&named) && fault.contains(expected),
                "{fault}"
            );
        }
    }

    fn issuer() -> String {
        let mut params = CertificateParams::new(vec!["elsewhere".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "elsewhere");
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn a_certificate_that_does_not_hold_now_is_a_warning_and_no_fault() {
        let temp = tempdir().unwrap();
        for (from, to, expected) in [
            (2020, 2021, Some("has expired")),
            (2020, 2119, None),
            (2118, 2119, Some("does not hold yet")),
        ] {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            let path = temp.path().join("own.pem");
            fs::write(&path, certificate.pem() + &key.serialize_pem()).unwrap();
            let name = path.display();
            let flags = [format!("--tls-cert={name}"), format!("--tls-key={name}")];
            let warnings = source(&flags)
                .load()
                .unwrap()
                .config
                .warnings(SystemClock.wall());
            assert_eq!(
                warnings.len(),
                usize::from(expected.is_some()),
                "{warnings:?}"
            );
            assert!(
                warnings
                    .iter()
                    .all(|warning| warning.contains(expected.unwrap()))
            );
        }
    }

    #[test]
    fn what_is_looked_at_are_the_files_that_it_reads() {
        let temp = tempdir().unwrap();
        let path = temp.path().join("own.pem");
        fs::write(&path, make_self_signed().unwrap()).unwrap();
        let name = path.display();
        let ca = format!("--tls-client-ca={name}");
        let source = source(&[
            format!("--tls-cert={name}"),
            format!("--tls-key={name}"),
            ca,
        ]);
        assert_eq!(source.paths(), [path.clone(), path.clone(), path]);
    }
}
