//! The broker's certificate from its files to the cores, at the start and when it changes.
//! Connections that are there keep what they began with.

use crate::core_task::Message;
use crate::data_dir::DataDir;
use crate::mailbox::Outside;
use crate::reload::{Reloadable, Reloaded, Stamps, Subject};
use crate::settings::Settings;
use crate::tls_source::{Loaded, SelfSigned, TlsSource};
use felix_core::Timestamp;
use felix_core::metrics::{Kind, Sample};
use felix_net::tls::TlsConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The certificate as a start has read it.
#[derive(Debug)]
pub(crate) struct OpenTls {
    source: TlsSource,
    loaded: Loaded,
    read: Stamps,
    expiry: Expiry,
}

/// When the certificate in force expires. Shared by the thread that reads it and the one that
/// tells.
#[derive(Clone, Debug)]
pub(crate) struct Expiry(Arc<AtomicI64>);

impl OpenTls {
    /// Reads it, writes it for clients where that is asked for, and says what it is; `None`:
    /// nothing uses it.
    ///
    /// # Errors
    /// A sentence that names the file, its setting and the cure.
    pub(crate) fn open(
        settings: &Settings,
        data: Option<&DataDir>,
    ) -> Result<Option<Self>, String> {
        if !settings.kafka.as_ref().is_some_and(|kafka| kafka.tls) {
            return Ok(None);
        }
        let source = TlsSource::new(&settings.tls, data)?;
        let read = Stamps::of(&source.paths());
        let loaded = source.load()?;
        source.export(&loaded)?;
        tracing::info!(
            subject = loaded.config.subject(),
            self_signed = source.self_signed().is_some(),
            "TLS certificate"
        );
        if source.self_signed() == Some(SelfSigned::Passing) {
            tracing::warn!(
                "without FELIX_TLS_CERT and FELIX_DURABLE_STORAGE_DIR the certificate is another \
                 one after each start"
            );
        }
        loaded.warn();
        Ok(Some(Self {
            source,
            read,
            expiry: Expiry::new(loaded.config.not_after()),
            loaded,
        }))
    }

    /// What connections are made from.
    pub(crate) fn config(&self) -> &TlsConfig {
        &self.loaded.config
    }

    /// When it expires, whichever is in force.
    pub(crate) fn expiry(&self) -> Expiry {
        self.expiry.clone()
    }

    /// Has it read anew while the broker runs, and told to these cores.
    pub(crate) fn reloadable(self, cores: Vec<Outside<Message>>) -> Reloadable {
        let Self { source, expiry, .. } = self;
        Reloadable {
            subject: Subject::Certificate,
            paths: source.paths(),
            read: self.read,
            reload: Box::new(move || {
                let loaded = source.load()?;
                for core in &cores {
                    // A core that has ended needs none.
                    core.send(Message::Tls(loaded.config.clone()));
                }
                expiry.set(loaded.config.not_after());
                loaded.warn();
                let news = format!(
                    "{}; connections from now on see it",
                    loaded.config.subject()
                );
                let source = source.clone();
                Ok(Reloaded {
                    news,
                    rest: Some(Box::new(move || source.export(&loaded))),
                })
            }),
        }
    }
}

impl Expiry {
    fn new(not_after: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(not_after.0)))
    }

    fn set(&self, not_after: Timestamp) {
        self.0.store(not_after.0, Ordering::Relaxed);
    }

    /// As a number to be shown.
    pub(crate) fn sample(&self) -> Sample {
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds since 1970 have no 2^53 for a while"
        )]
        let value = self.0.load(Ordering::Relaxed).div_euclid(1000) as f64;
        Sample {
            name: "felix_tls_certificate_not_after_seconds",
            help: "When the first certificate of the broker's chain expires, in seconds since 1970.",
            kind: Kind::Gauge,
            labels: Vec::new(),
            value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Outcome, read as read_settings};
    use rcgen::{CertificateParams, KeyPair};
    use std::fs;
    use std::path::Path;
    use tempfile::tempdir;

    fn put_certificate(path: &Path) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(path, certificate.pem() + &key.serialize_pem()).unwrap();
    }

    #[test]
    fn a_renewed_certificate_is_written_for_clients_when_there_is_a_directory_for_it() {
        let temp = tempdir().unwrap();
        let own = temp.path().join("own.pem");
        let directory = temp.path().join("shared");
        let exported = directory.join("felix.pem");
        put_certificate(&own);
        let flags = [
            "felix-broker".to_owned(),
            format!("--tls-cert={}", own.display()),
            format!("--tls-key={}", own.display()),
            format!("--tls-cert-export={}", exported.display()),
        ];
        let Ok(Outcome::Run(settings)) = read_settings(flags, std::iter::empty()) else {
            panic!("the settings are good");
        };
        let source = TlsSource::given(&settings.tls).unwrap();
        let loaded = source.load().unwrap();
        fs::create_dir(&directory).unwrap();
        source.export(&loaded).unwrap();
        let before = fs::read(&exported).unwrap();
        let open = OpenTls {
            read: Stamps::of(&source.paths()),
            expiry: Expiry::new(loaded.config.not_after()),
            source,
            loaded,
        };
        let mut reloadable = open.reloadable(Vec::new());
        let away = temp.path().join("away");
        fs::rename(&directory, &away).unwrap();
        fs::write(&directory, "a file in its place").unwrap();
        put_certificate(&own);
        let mut rest = (reloadable.reload)().unwrap().rest.unwrap();
        for _ in 0..2 {
            let fault = rest().unwrap_err();
            assert!(fault.starts_with("FELIX_TLS_CERT_EXPORT: "), "{fault}");
        }
        fs::remove_file(&directory).unwrap();
        fs::rename(&away, &directory).unwrap();
        rest().unwrap();
        let after = fs::read_to_string(&exported).unwrap();
        assert_ne!(after.as_bytes(), before);
        assert!(fs::read_to_string(&own).unwrap().starts_with(&after));
    }
}
