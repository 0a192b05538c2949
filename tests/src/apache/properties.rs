//! The settings of an Apache Kafka broker.

use super::certificates::Certificates;
use super::{Listener, USERS};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

impl Listener {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Tls => "TLS",
            Self::MutualTls => "MUTUAL",
            Self::Sasl => "SASL",
            Self::SaslTls => "SASLTLS",
            Self::Controller => "CONTROLLER",
        }
    }

    const fn protocol(self) -> &'static str {
        match self {
            Self::Plain | Self::Controller => "PLAINTEXT",
            Self::Tls | Self::MutualTls => "SSL",
            Self::Sasl => "SASL_PLAINTEXT",
            Self::SaslTls => "SASL_SSL",
        }
    }
}

/// Where a broker of this home has its logs.
pub(super) fn data(home: &Path) -> PathBuf {
    home.join("data")
}

/// `server.properties` of a broker whose listeners begin at `port`.
pub(super) fn text(home: &Path, certificates: &Certificates, port: u16) -> String {
    let listeners = Listener::ALL.map(|listener| {
        let port = port + listener.place();
        format!("{}://127.0.0.1:{port}", listener.name())
    });
    let protocols =
        Listener::ALL.map(|listener| format!("{}:{}", listener.name(), listener.protocol()));
    let mut text = String::new();
    let mut set = |name: &str, value: &str| {
        writeln!(text, "{name}={value}").expect("a string takes everything");
    };
    set("process.roles", "broker,controller");
    set("node.id", "1");
    let controller = port + Listener::Controller.place();
    let voters = format!("1@127.0.0.1:{controller}");
    set("controller.quorum.voters", &voters);
    set("controller.listener.names", Listener::Controller.name());
    set("inter.broker.listener.name", Listener::Plain.name());
    set("listeners", &listeners.join(","));
    set("listener.security.protocol.map", &protocols.join(","));
    set("log.dirs", &data(home).display().to_string());
    set("auto.create.topics.enable", "false");
    set("offsets.topic.replication.factor", "1");
    set("transaction.state.log.replication.factor", "1");
    set("transaction.state.log.min.isr", "1");
    set("num.network.threads", "1");
    set("num.io.threads", "2");
    set("ssl.keystore.type", "PEM");
    let identity = certificates.broker.display().to_string();
    set("ssl.keystore.location", &identity);
    set("ssl.truststore.type", "PEM");
    let authority = certificates.authority.display().to_string();
    set("ssl.truststore.location", &authority);
    set("listener.name.mutual.ssl.client.auth", "required");
    set("sasl.enabled.mechanisms", "PLAIN");
    let users: String = USERS
        .iter()
        .map(|(user, password)| format!(" user_{user}=\"{password}\""))
        .collect();
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule";
    for listener in ["sasl", "sasltls"] {
        let name = format!("listener.name.{listener}.plain.sasl.jaas.config");
        set(&name, &format!("{module} required{users};"));
    }
    text
}
