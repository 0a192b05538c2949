//! Log lines, written by a thread of their own so that no core waits for a terminal or a pipe.

use crate::giving_way::giving_way;
use crate::settings::{LogFormat, Logging};
use std::io;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Lines that may wait to be written. More are dropped and never waited for.
const LINES_MAX: usize = 16_384;

/// Starts logging to standard output. What is still waiting is written when the guard is dropped. A
/// panic, which would not get that far, goes to standard error from now on.
///
/// # Errors
/// A sentence: the filter is not understood.
pub(crate) fn start(logging: &Logging) -> Result<WorkerGuard, String> {
    let filter = EnvFilter::try_new(&logging.filter).map_err(|error| {
        format!(
            "FELIX_LOG: {:?} is no filter such as info or info,felix_kafka=debug: {error}",
            logging.filter
        )
    })?;
    let lines = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("felix-log");
    let (writer, guard) = giving_way(|| lines.finish(io::stdout()));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_span_events(FmtSpan::NONE)
        .with_thread_names(true);
    let started = match logging.format {
        LogFormat::Text => subscriber.with_ansi(false).try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| format!("logging cannot start: {error}"))?;
    crate::crash::abort_on_panic();
    Ok(guard)
}
