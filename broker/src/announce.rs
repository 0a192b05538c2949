//! What a start tells the log of itself.

use crate::given_file;
use crate::listeners::Listeners;
use crate::settings::Settings;
use std::net::SocketAddr;

/// What of the settings is worth a warning.
pub(crate) fn warn(settings: &Settings) {
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
    let Some(kafka) = &settings.kafka else { return };
    if !kafka.tls {
        tracing::warn!(
            listen = %kafka.listen,
            "Kafka connections are not encrypted: tokens and records travel in clear text"
        );
        if settings.tls.client_ca.is_some() {
            tracing::warn!(
                "FELIX_TLS_CLIENT_CA asks clients for certificates, and with FELIX_KAFKA_TLS=false \
                 nobody shows one"
            );
        }
    }
    let token_file = kafka.token_file.as_deref();
    if let Some(path) = token_file.filter(|path| given_file::is_readable_by_others(path)) {
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

/// Where it listens, and what clients are told.
pub(crate) fn tell_listeners(kafka: Option<&Listeners>, http: SocketAddr) {
    tracing::info!(address = %http, "HTTP listener");
    match kafka {
        None => tracing::warn!("no Kafka listener: FELIX_KAFKA_LISTEN is unset"),
        Some(listeners) => {
            tracing::info!(address = %listeners.shared, "Kafka listener");
            for node in listeners.topology.nodes() {
                let address = format!("{}:{}", node.address.host, node.address.port);
                tracing::info!(id = node.id, address, "Kafka node");
            }
        }
    }
}
