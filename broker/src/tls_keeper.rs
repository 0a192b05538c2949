//! Certificates that change while the broker runs: on SIGHUP, or when their files do, they are
//! read anew and handed to every core. Connections that are there keep what they began with.

use crate::core_task::Message;
use crate::data_dir::DataDir;
use crate::mailbox::Outside;
use crate::settings::Settings;
use crate::tls_source::{Loaded, SelfSigned, Stamp, TlsSource};
use felix_core::Timestamp;
use felix_core::metrics::{Counter, Kind, Sample};
use felix_net::tls::TlsConfig;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::sync::Notify;

/// Between two looks at the files. A change counts once two looks have seen the same, so that a
/// pair of files that is being replaced is not read in between.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The certificate as a start has read it.
#[derive(Debug)]
pub(crate) struct OpenTls {
    source: TlsSource,
    loaded: Loaded,
    /// Of before they were read, so that no change is missed.
    stamps: Vec<Option<Stamp>>,
}

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
        let stamps = source.stamps();
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
            loaded,
            stamps,
        }))
    }

    /// What connections are made from.
    pub(crate) fn config(&self) -> &TlsConfig {
        &self.loaded.config
    }

    /// Who watches over its files, for these cores.
    pub(crate) fn keeper(&self, cores: Vec<Outside<Message>>) -> TlsKeeper {
        TlsKeeper {
            source: self.source.clone(),
            cores,
            seen: RefCell::new(self.stamps.clone()),
            not_after: Cell::new(self.config().not_after()),
            reloads: Counter::default(),
            failures: Counter::default(),
        }
    }
}

/// Belongs to the control thread.
#[derive(Debug)]
pub(crate) struct TlsKeeper {
    source: TlsSource,
    cores: Vec<Outside<Message>>,
    /// Of the files that are in force, or that were refused last.
    seen: RefCell<Vec<Option<Stamp>>>,
    not_after: Cell<Timestamp>,
    reloads: Counter,
    failures: Counter,
}

impl TlsKeeper {
    /// Reads the files anew whenever they have changed, or `asked` says so. Has no end.
    pub(crate) async fn run(&self, asked: &Notify) {
        let mut last = self.seen.borrow().clone();
        loop {
            let by_signal = tokio::time::timeout(LOOK_EVERY, asked.notified())
                .await
                .is_ok();
            let now = self.source.stamps();
            let settled = now == last;
            let changed = now != *self.seen.borrow();
            if by_signal || (changed && settled) {
                self.reload(
                    now.clone(),
                    if by_signal {
                        "SIGHUP"
                    } else {
                        "the files changed"
                    },
                );
            }
            last = now;
        }
    }

    fn reload(&self, stamps: Vec<Option<Stamp>>, reason: &str) {
        // Refused as well: they are not read again before they change, or somebody asks.
        self.seen.replace(stamps);
        let loaded = match self.source.load() {
            Ok(loaded) => loaded,
            Err(fault) => {
                self.failures.increment();
                tracing::error!(
                    fault,
                    reason,
                    "the certificate could not be read anew; the one before stays in force"
                );
                return;
            }
        };
        for core in &self.cores {
            // A core that has ended needs none.
            core.send(Message::Tls(loaded.config.clone()));
        }
        self.not_after.set(loaded.config.not_after());
        self.reloads.increment();
        tracing::info!(
            reason,
            subject = loaded.config.subject(),
            "the certificate was read anew; connections from now on see it"
        );
        loaded.warn();
        if let Err(fault) = self.source.export(&loaded) {
            tracing::error!(
                fault,
                "the certificate is in force, and not written for clients"
            );
        }
    }

    /// What it has to show.
    pub(crate) fn samples(&self) -> [Sample; 3] {
        let sample = |name, help, kind, value| Sample {
            name,
            help,
            kind,
            labels: Vec::new(),
            value,
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "scrapes carry floating-point numbers, and nobody reloads that often"
        )]
        let counted = |counter: &Counter| counter.value() as f64;
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds since 1970 have no 2^53 for a while"
        )]
        let not_after = self.not_after.get().0.div_euclid(1000) as f64;
        [
            sample(
                "felix_tls_reloads_total",
                "Times that certificate, key and client authority were read anew.",
                Kind::Counter,
                counted(&self.reloads),
            ),
            sample(
                "felix_tls_reload_failures_total",
                "Times that they could not be, and those before stayed in force.",
                Kind::Counter,
                counted(&self.failures),
            ),
            sample(
                "felix_tls_certificate_not_after_seconds",
                "When the first certificate of the broker's chain expires, in seconds since 1970.",
                Kind::Gauge,
                not_after,
            ),
        ]
    }
}
