//! What is beside the cores and hears from outside: HTTP, signals, files that change.

use super::Event;
use crate::collect::Collector;
use crate::control::Control;
use crate::core_task::Message;
use crate::credentials;
use crate::http::Pages;
use crate::mailbox::Outside;
use crate::prober::Prober;
use crate::readiness::Phase;
use crate::reload;
use crate::settings::Settings;
use crossbeam_channel::Sender;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::sync::watch;

/// Starts it.
///
/// # Errors
/// A sentence: a thread is not to be had.
pub(super) fn start(
    settings: &Settings,
    http: TcpListener,
    cores: &[Outside<Message>],
    phase: watch::Receiver<Phase>,
    tell: Sender<Event>,
) -> Result<Control, String> {
    let reloads = Arc::default();
    let reloadables = credentials::reloadables(settings, cores);
    let reload = reload::start(reloadables, Arc::clone(&reloads))
        .map_err(|error| format!("the thread that reads files anew cannot start: {error}"))?;
    let prober = Prober::new(cores.to_vec(), settings.probe_interval);
    let pages = Pages {
        phase,
        collector: Collector::new(cores.to_vec(), prober, reloads),
    };
    Control::start(http, pages, tell, reload)
        .map_err(|error| format!("the control thread cannot start: {error}"))
}
