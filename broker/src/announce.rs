//! What a start tells the log of itself.

use crate::given_file;
use crate::listeners::Listeners;
use crate::settings::{Kafka, Settings, Tls};
use std::net::SocketAddr;

/// Tells the log what of the settings is worth a warning.
pub(crate) fn warn(settings: &Settings) {
    for warning in warnings(settings) {
        tracing::warn!("{warning}");
    }
}

/// What of the settings is worth a warning, a sentence each: at a start, and where they are only
/// checked.
#[must_use]
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let unknown = settings.unknown_variables.iter();
    let mut warnings: Vec<String> = unknown
        .map(|(variable, nearest)| {
            format!("{variable} means nothing to the broker; the nearest variable is {nearest}")
        })
        .collect();
    let log = settings.logging.rust_log_fault.as_ref();
    warnings.extend(log.map(|fault| {
        format!("RUST_LOG is passed over, and FELIX_LOG says what is logged: {fault}")
    }));
    if let Some(kafka) = &settings.kafka {
        warnings.extend(of_kafka(kafka, &settings.tls));
    }
    warnings
}

fn of_kafka(kafka: &Kafka, tls: &Tls) -> Vec<String> {
    let mut warnings = Vec::new();
    if !kafka.tls {
        warnings.push(format!(
            "Kafka connections to {} are not encrypted: tokens and records travel in clear text",
            kafka.listen
        ));
        if tls.client_ca.is_some() {
            let nobody = "FELIX_TLS_CLIENT_CA asks clients for certificates, and with \
                          FELIX_KAFKA_TLS=false nobody shows one";
            warnings.push(nobody.to_owned());
        }
    }
    let key = tls.own.as_ref().filter(|_| kafka.tls);
    let key = key.map(|own| ("FELIX_TLS_KEY", &own.key));
    // There are only hashes in it, and who may use what is nobody's business either.
    let tokens = kafka.token_file.as_ref();
    let tokens = tokens.map(|path| ("FELIX_KAFKA_TOKEN_FILE", path));
    for (variable, path) in key.into_iter().chain(tokens) {
        if given_file::is_readable_by_others(path) {
            warnings.push(format!(
                "{variable}: {} can be read by every user of this machine; chmod o-r it",
                path.display()
            ));
        }
    }
    warnings.extend(kafka.anonymous_tenant.as_ref().map(|tenant| {
        format!("anybody who connects may read and write the streams of tenant {tenant}")
    }));
    warnings
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Outcome, read};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn warned_of(flags: &[&str]) -> Vec<String> {
        let served = [
            "felix-broker",
            "--kafka-listen=127.0.0.1:9092",
            "--kafka-token-file=/nowhere/tokens.toml",
        ];
        let words = served.iter().chain(flags).map(|word| (*word).to_owned());
        match read(words, std::iter::empty()) {
            Ok(Outcome::Run(settings)) => warnings(&settings),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clear_text_and_a_tenant_for_all_are_warned_of() {
        let clear = "--kafka-tls=false";
        for (flags, expected) in [
            (&[][..], &[][..]),
            (&[clear], &["in clear text"]),
            (
                &[clear, "--tls-client-ca=ca.pem"],
                &["in clear text", "nobody shows one"],
            ),
            (
                &["--kafka-anonymous-tenant=t1"],
                &["read and write the streams of tenant t1"],
            ),
        ] {
            let warnings = warned_of(flags);
            assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
            for (warning, words) in warnings.iter().zip(expected) {
                assert!(warning.contains(words), "{warning}");
            }
        }
    }

    #[test]
    fn secrets_that_everybody_may_read_are_warned_of() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str, mode| {
            let path = home.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path.display().to_string()
        };
        let warned = |mode| {
            let flags = [
                format!("--tls-cert={}", file("own.pem", 0o644)),
                format!("--tls-key={}", file("key.pem", mode)),
                format!("--kafka-token-file={}", file("tokens.toml", mode)),
            ];
            warned_of(&flags.each_ref().map(String::as_str))
        };
        assert_eq!(warned(0o640), [""; 0]);
        let warnings = warned(0o644);
        let named = ["FELIX_TLS_KEY: ", "FELIX_KAFKA_TOKEN_FILE: "];
        assert_eq!(warnings.len(), named.len(), "{warnings:?}");
        for (warning, name) in warnings.iter().zip(named) {
            assert!(warning.starts_with(name), "{warning}");
            assert!(warning.ends_with("chmod o-r it"), "{warning}");
        }
    }
}
