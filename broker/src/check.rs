//! `--check-config`: whether the broker could start with these settings, without starting it.

use crate::announce;
use crate::catalog_file::{self, Described};
use crate::clock::SystemClock;
use crate::settings::Settings;
use crate::tls_source::TlsSource;
use crate::token_file;
use felix_core::{Catalog, Clock, Generation, Stream, StreamId};
use std::io::{self, Write};

/// Why streams and no directory do not go together.
pub(crate) const NOWHERE: &str = "the catalog has durable streams and there is nowhere to keep \
                                  them; set FELIX_DURABLE_STORAGE_DIR";

/// Says `ok`, and on standard error what is worth a warning.
///
/// # Errors
/// A sentence: the broker would not start.
pub(crate) fn check(settings: &Settings) -> Result<(), String> {
    announce::warnings(settings).iter().for_each(warn);
    let file = settings.catalog_file.as_deref();
    let listed = catalog_file::listed(file, settings.dev, &settings.storage.stream_defaults())?;
    if settings.storage.directory.is_none() && !listed.is_empty() {
        return Err(NOWHERE.to_owned());
    }
    Catalog::new(streams(&listed)).map_err(|error| format!("the catalog: {error}"))?;
    check_tls(settings)?;
    if let Some(path) = settings
        .kafka
        .as_ref()
        .and_then(|kafka| kafka.token_file.as_ref())
    {
        token_file::read(path)?;
    }
    writeln!(io::stdout(), "ok").map_err(|error| format!("standard output: {error}"))
}

/// Certificate, key and client authority, where the settings name them and something uses them. One
/// that the broker makes for itself is not made here.
fn check_tls(settings: &Settings) -> Result<(), String> {
    if !settings.kafka.as_ref().is_some_and(|kafka| kafka.tls) {
        return Ok(());
    }
    let source = TlsSource::given(&settings.tls).map_or_else(
        // Made and forgotten: what is judged is the rest.
        || TlsSource::new(&settings.tls, None),
        Ok,
    )?;
    let loaded = source.load()?;
    let warnings = loaded.config.warnings(SystemClock.wall());
    warnings.iter().for_each(warn);
    Ok(())
}

fn warn(warning: &String) {
    // Nobody who listens there is worse off than with it closed.
    drop(writeln!(io::stderr(), "felix-broker: warning: {warning}"));
}

/// Streams with made-up identities, for the catalog to judge their names and counts.
fn streams(listed: &[Described]) -> Vec<Stream> {
    let numbered = (1..).zip(listed);
    let streams =
        numbered.map(|(number, described)| described.stream(StreamId(number), Generation::new(0)));
    streams.collect()
}
