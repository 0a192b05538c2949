//! What is beside the cores and hears from outside: HTTP, signals, files that change.

use super::Event;
use crate::collect::Collector;
use crate::control::Control;
use crate::core_task::Message;
use crate::credentials::OpenTokens;
use crate::http::Pages;
use crate::mailbox::Outside;
use crate::prober::Prober;
use crate::readiness::Phase;
use crate::reload;
use crate::settings::Settings;
use crate::tls_files::OpenTls;
use crossbeam_channel::Sender;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::sync::watch;

/// What it tells, and whom.
#[derive(Debug)]
pub(super) struct Beside {
    /// How far the broker is.
    pub(super) phase: watch::Receiver<Phase>,
    /// Who is told of a signal.
    pub(super) tell: Sender<Event>,
    /// Read anew when they change.
    pub(super) tokens: Option<OpenTokens>,
    /// Read anew when it changes.
    pub(super) tls: Option<OpenTls>,
}

/// Starts it.
///
/// # Errors
/// A sentence: a thread is not to be had.
pub(super) fn start(
    settings: &Settings,
    http: TcpListener,
    cores: &[Outside<Message>],
    beside: Beside,
) -> Result<Control, String> {
    let Beside {
        phase,
        tell,
        tokens,
        tls,
    } = beside;
    let expiry = tls.as_ref().map(OpenTls::expiry);
    let tokens = tokens.map(|tokens| tokens.reloadable(cores.to_vec()));
    let certificate = tls.map(|tls| tls.reloadable(cores.to_vec()));
    let reloads = Arc::default();
    let reloadables = tokens.into_iter().chain(certificate).collect();
    let reload = reload::start(reloadables, Arc::clone(&reloads))
        .map_err(|error| format!("the thread that reads files anew cannot start: {error}"))?;
    let prober = Prober::new(cores.to_vec(), settings.probe_interval);
    let pages = Pages {
        phase,
        collector: Collector::new(cores.to_vec(), prober, reloads, expiry),
    };
    Control::start(http, pages, tell, reload)
        .map_err(|error| format!("the control thread cannot start: {error}"))
}
