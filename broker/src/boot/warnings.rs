//! What is worth a warning in settings that are understood.

use crate::settings::Settings;
use crate::token_file;

/// Puts it into the log.
pub(crate) fn tell(settings: &Settings) {
    for (variable, nearest) in &settings.unknown_variables {
        tracing::warn!(
            variable,
            nearest,
            "a variable that means nothing to the broker"
        );
    }
    if let Some(fault) = &settings.logging.rust_log_fault {
        tracing::warn!(
            fault,
            "RUST_LOG is passed over; FELIX_LOG says what is logged"
        );
    }
    if let Some(kafka) = &settings.kafka {
        tracing::warn!(
            listen = %kafka.listen,
            "Kafka connections are not encrypted: tokens and records travel in clear text"
        );
        let token_file = kafka.token_file.as_deref();
        if let Some(path) = token_file.filter(|path| token_file::is_readable_by_others(path)) {
            tracing::warn!(
                path = %path.display(),
                "the token file can be read by every user of this machine; chmod o-r it"
            );
        }
        if let Some(tenant) = &kafka.anonymous_tenant {
            tracing::warn!(
                tenant,
                "anybody who connects may read and write this tenant's streams"
            );
        }
    }
}
