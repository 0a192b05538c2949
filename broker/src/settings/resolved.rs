//! The settings as the broker uses them, once they are known to go together.

use super::SettingsError;
use super::publish;
use super::source::GivenValues;
use super::table::{DEV, LOG, find};
use super::tls::{self, Tls};
use super::value::{Checked, refusal};
use crate::catalog_file::StreamDefaults;
use crate::cpus::CpuList;
use crate::ports;
use felix_core::quota::Budgets;
use felix_core::topology::Address;
use felix_core::{BrokerId, Durability, Retention};
use felix_shard::DirtyBounds;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// All settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// The processors asked for.
    pub(crate) cores: Option<CpuList>,
    /// What bounds the work on each core.
    pub(crate) core: Core,
    /// The broker's number.
    pub(crate) broker: BrokerId,
    /// Its rack.
    pub(crate) rack: Option<String>,
    /// The Kafka listener, if there is one.
    pub(crate) kafka: Option<Kafka>,
    /// What tenants may publish, if that has a bound.
    pub(crate) publish: Option<Budgets>,
    /// Certificates and what TLS may be, for all listeners that use it.
    pub(crate) tls: Tls,
    /// Where and how logs are kept.
    pub(crate) storage: Storage,
    /// The file that lists streams.
    pub(crate) catalog_file: Option<PathBuf>,
    /// Where health and metrics are served.
    pub(crate) metrics_bind: SocketAddr,
    /// How long the prober rests between two messages to a core; `None`: it sends none.
    pub(crate) probe_interval: Option<Duration>,
    /// How long a shutdown waits for connections.
    pub(crate) drain_timeout: Duration,
    /// What is logged, and how.
    pub(crate) logging: Logging,
    /// Development defaults are on.
    pub(crate) dev: bool,
    /// `FELIX_*` variables that mean nothing here, each with the nearest one that does.
    pub(crate) unknown_variables: Vec<(String, &'static str)>,
}

/// What bounds the work on each core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Core {
    /// How long it looks for work before it sleeps; zero: not at all.
    pub(crate) spin: Duration,
    /// Bytes of requests that come in and answers that wait to go out.
    pub(crate) memory_bytes_max: usize,
    /// A task that runs longer is counted as a stall.
    pub(crate) stall_counted: Duration,
    /// A task that runs longer is also logged; at least `stall_counted`.
    pub(crate) stall_logged: Duration,
}

/// The Kafka listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kafka {
    /// Where the shared port listens.
    pub(crate) listen: SocketAddr,
    /// What clients are told; `None`: the listen address.
    pub(crate) advertise: Option<Address>,
    /// The port of core 0, where core ports are on; 0 for any.
    pub(crate) core_port_base: Option<u16>,
    /// Connections use TLS.
    pub(crate) tls: bool,
    /// Whom a connection without credentials speaks for.
    pub(crate) anonymous_tenant: Option<String>,
    /// The file of tokens.
    pub(crate) token_file: Option<PathBuf>,
    /// How long a connection may take to authenticate.
    pub(crate) auth_timeout: Duration,
    /// A token counts only with a certificate that names its subject.
    pub(crate) bind_subject: bool,
    /// The namespace of a topic name without a dot.
    pub(crate) default_namespace: Option<String>,
    /// Connections of one Kafka node.
    pub(crate) connections_max: u32,
    /// Connections of one Kafka node from one address; `None`: no limit.
    pub(crate) connections_per_ip_max: Option<u32>,
    /// How long a connection may neither ask nor be answered; `None`: for ever.
    pub(crate) idle_timeout: Option<Duration>,
}

/// The logs of shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Storage {
    /// The directory; `None`: no durable stream.
    pub(crate) directory: Option<PathBuf>,
    /// The durability of a stream that names none.
    pub(crate) durability: Durability,
    /// The interval of periodic flushes.
    pub(crate) flush_interval: Duration,
    /// Bytes of a device that may be written and not flushed.
    pub(crate) dirty: DirtyBounds,
    /// The size at which a segment is closed.
    pub(crate) segment_bytes: u32,
    /// After how long a segment is closed, of a stream that says nothing else.
    pub(crate) segment_age: Duration,
    /// Bytes kept free on the file system.
    pub(crate) disk_free_bytes_min: u64,
    /// Bytes between index entries.
    pub(crate) index_spacing_bytes: u32,
    /// How much is kept of a stream that says nothing else.
    pub(crate) retention: Retention,
    /// Between two looks for what is too old.
    pub(crate) retention_interval: Duration,
    /// Logs are read whole when they are opened.
    pub(crate) verify_on_open: bool,
    /// Bytes of recent batches each core keeps.
    pub(crate) tail_cache_bytes: usize,
}

impl Storage {
    /// Bytes of the largest file; none where nothing is stored.
    pub(crate) fn file_bytes(&self) -> u64 {
        let stored = self.directory.as_ref();
        stored.map_or(0, |_| u64::from(self.segment_bytes))
    }

    /// What a stream has whose catalog entry does not say.
    pub(crate) fn stream_defaults(&self) -> StreamDefaults {
        StreamDefaults {
            durability: self.durability,
            retention: self.retention,
            segment_age: self.segment_age,
        }
    }
}

/// Logging.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Logging {
    /// Levels by module, as `tracing-subscriber` reads them.
    pub(crate) filter: String,
    /// How a line looks.
    pub(crate) format: LogFormat,
    /// Why `RUST_LOG` was passed over, where it would have counted: a sentence.
    pub(crate) rust_log_fault: Option<String>,
}

/// How a log line looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For machines: one object a line.
    Json,
}

impl Settings {
    pub(super) fn resolve(given: &GivenValues) -> Result<Self, SettingsError> {
        let values = Checked(given);
        let settings = Self {
            cores: values.cpus("FELIX_CORES"),
            core: core(&values)?,
            broker: BrokerId(fits(values.number("FELIX_BROKER_ID"))),
            rack: values.text("FELIX_RACK"),
            kafka: kafka(&values)?,
            publish: publish::resolve(&values)?,
            tls: tls::resolve(&values)?,
            storage: storage(&values)?,
            catalog_file: values.text("FELIX_CATALOG_FILE").map(PathBuf::from),
            metrics_bind: values
                .listen("FELIX_BROKER_METRICS_BIND")
                .expect("the setting has a default"),
            probe_interval: Some(milliseconds(&values, "FELIX_PROBE_MS"))
                .filter(|interval| !interval.is_zero()),
            drain_timeout: milliseconds(&values, "FELIX_SHUTDOWN_DRAIN_TIMEOUT_MS"),
            logging: logging(&values),
            dev: values.switch(DEV),
            unknown_variables: Vec::new(),
        };
        // How many cores a machine has is no setting.
        let cores = settings.cores.as_ref().map_or(1, CpuList::count);
        ports::judge(&settings, cores).map_err(SettingsError::Together)?;
        Ok(settings)
    }
}

fn core(values: &Checked<'_>) -> Result<Core, SettingsError> {
    let microseconds = |variable| Duration::from_micros(values.number(variable));
    let core = Core {
        spin: microseconds("FELIX_SPIN_US"),
        memory_bytes_max: fits(values.number("FELIX_MEMORY_PER_CORE_BYTES")),
        stall_counted: microseconds("FELIX_STALL_US"),
        stall_logged: microseconds("FELIX_STALL_LOG_US"),
    };
    if core.stall_logged < core.stall_counted {
        return Err(SettingsError::Together(format!(
            "FELIX_STALL_LOG_US={} is below FELIX_STALL_US={}, and a stall that is not counted \
             cannot be logged; raise the one or lower the other",
            core.stall_logged.as_micros(),
            core.stall_counted.as_micros()
        )));
    }
    Ok(core)
}

fn dirty_bounds(values: &Checked<'_>) -> Result<DirtyBounds, SettingsError> {
    let bounds = DirtyBounds {
        soft_bytes: values.number("FELIX_DIRTY_BYTES_SOFT"),
        hard_bytes: values.number("FELIX_DIRTY_BYTES_HARD"),
    };
    if bounds.hard_bytes < bounds.soft_bytes {
        return Err(SettingsError::Together(format!(
            "FELIX_DIRTY_BYTES_HARD={} is below FELIX_DIRTY_BYTES_SOFT={}, and appends would wait \
             for flushes that nothing begins; raise the one or lower the other",
            bounds.hard_bytes, bounds.soft_bytes
        )));
    }
    Ok(bounds)
}

fn storage(values: &Checked<'_>) -> Result<Storage, SettingsError> {
    let mode = values
        .text("FELIX_DURABLE_FSYNC_MODE")
        .expect("the setting has a default");
    Ok(Storage {
        dirty: dirty_bounds(values)?,
        directory: values.text("FELIX_DURABLE_STORAGE_DIR").map(PathBuf::from),
        durability: match mode.as_str() {
            "none" => Durability::None,
            "periodic" => Durability::Periodic,
            "on_commit" => Durability::OnCommit,
            other => unreachable!("{other} is no choice of the table"),
        },
        flush_interval: milliseconds(values, "FELIX_DURABLE_FSYNC_INTERVAL_MS"),
        segment_bytes: fits(values.number("FELIX_DURABLE_SEGMENT_BYTES")),
        segment_age: Duration::from_secs(values.number("FELIX_DURABLE_SEGMENT_SECONDS")),
        disk_free_bytes_min: values.number("FELIX_DISK_FREE_BYTES_MIN"),
        index_spacing_bytes: fits(values.number("FELIX_DURABLE_INDEX_SPACING_BYTES")),
        retention: Retention {
            bytes: values
                .optional_number("FELIX_DURABLE_RETENTION_BYTES")
                .and_then(NonZeroU64::new),
            age: values
                .optional_number("FELIX_DURABLE_RETENTION_SECONDS")
                .map(Duration::from_secs),
        },
        retention_interval: Duration::from_secs(
            values.number("FELIX_DURABLE_RETENTION_INTERVAL_SECONDS"),
        ),
        verify_on_open: values.switch("FELIX_DURABLE_VERIFY_ALL_ON_OPEN"),
        tail_cache_bytes: fits(values.number("FELIX_TAIL_CACHE_BYTES")),
    })
}

fn logging(values: &Checked<'_>) -> Logging {
    let format = values
        .text("FELIX_LOG_FORMAT")
        .expect("the setting has a default");
    Logging {
        filter: values.filter(LOG).expect("the setting has a default"),
        format: if format == "json" {
            LogFormat::Json
        } else {
            LogFormat::Text
        },
        rust_log_fault: None,
    }
}

fn kafka(values: &Checked<'_>) -> Result<Option<Kafka>, SettingsError> {
    let Some(listen) = values.listen("FELIX_KAFKA_LISTEN") else {
        return Ok(None);
    };
    let kafka = Kafka {
        listen,
        advertise: values.host_port("FELIX_KAFKA_ADVERTISE_ADDR"),
        core_port_base: core_port_base(values, listen)?,
        tls: values.switch("FELIX_KAFKA_TLS"),
        anonymous_tenant: values.text("FELIX_KAFKA_ANONYMOUS_TENANT"),
        token_file: values.text("FELIX_KAFKA_TOKEN_FILE").map(PathBuf::from),
        auth_timeout: milliseconds(values, "FELIX_KAFKA_AUTH_TIMEOUT_MS"),
        bind_subject: values.switch("FELIX_TLS_CLIENT_CERT_BIND_SUBJECT"),
        default_namespace: values.text("FELIX_KAFKA_DEFAULT_NAMESPACE"),
        connections_max: fits(values.number("FELIX_KAFKA_MAX_CONNECTIONS")),
        connections_per_ip_max: Some(fits(values.number("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP")))
            .filter(|max| *max > 0),
        idle_timeout: Some(milliseconds(values, "FELIX_KAFKA_IDLE_TIMEOUT_MS"))
            .filter(|timeout| !timeout.is_zero()),
    };
    secure_enough(&kafka, values)?;
    reachable(&kafka, values)?;
    Ok(Some(kafka))
}

fn core_port_base(values: &Checked<'_>, listen: SocketAddr) -> Result<Option<u16>, SettingsError> {
    let base = values
        .optional_number("FELIX_KAFKA_CORE_PORT_BASE")
        .map(fits);
    if !values.switch("FELIX_KAFKA_CORE_PORTS") {
        return Ok(None);
    }
    match base.or_else(|| {
        if listen.port() == 0 {
            Some(0)
        } else {
            listen.port().checked_add(1)
        }
    }) {
        Some(base) => Ok(Some(base)),
        None => Err(SettingsError::Together(
            "FELIX_KAFKA_CORE_PORTS is on and the Kafka port is 65535, so no port follows it for \
             core 0; give FELIX_KAFKA_CORE_PORT_BASE"
                .into(),
        )),
    }
}

/// Whether the listener lets in whom it should and nobody else.
fn secure_enough(kafka: &Kafka, values: &Checked<'_>) -> Result<(), SettingsError> {
    let listen = kafka.listen;
    let is_loopback = listen.ip().to_canonical().is_loopback();
    if kafka.bind_subject && !kafka.tls {
        return Err(SettingsError::Together(
            "FELIX_TLS_CLIENT_CERT_BIND_SUBJECT is true and FELIX_KAFKA_TLS false, and without TLS no \
             client shows a certificate, so every token would be refused; set one of them otherwise"
                .into(),
        ));
    }
    let insecure = values.switch("FELIX_KAFKA_ANONYMOUS_INSECURE");
    match (&kafka.anonymous_tenant, &kafka.token_file) {
        (Some(tenant), _) if !is_loopback && !insecure => Err(SettingsError::Together(format!(
            "FELIX_KAFKA_ANONYMOUS_TENANT={tenant} would let anybody who reaches {listen} read \
                 and write all its streams; listen on a loopback address, or set \
                 FELIX_KAFKA_ANONYMOUS_INSECURE=true if that is what you want"
        ))),
        (None, None) => Err(SettingsError::Together(format!(
            "the Kafka listener on {listen} would serve nobody; set FELIX_KAFKA_TOKEN_FILE to a \
             file of tokens, which felix-broker --new-token makes, or, for development, \
             FELIX_KAFKA_ANONYMOUS_TENANT"
        ))),
        (Some(_), _) | (None, Some(_)) => Ok(()),
    }
}

/// Clients connect to what they are told, and a wildcard is an address nobody can connect to.
fn reachable(kafka: &Kafka, values: &Checked<'_>) -> Result<(), SettingsError> {
    let wildcard = |host: &str| host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified());
    match &kafka.advertise {
        Some(address) if wildcard(&address.host) => {
            let variable = "FELIX_KAFKA_ADVERTISE_ADDR";
            let given = values.given(variable).expect("it was read above");
            let fault = "is a wildcard, which no client can connect to; give a host name or an \
                         address of this machine";
            Err(refusal(find(variable), given, fault.into()))
        }
        None if kafka.listen.ip().is_unspecified() => Err(SettingsError::Together(format!(
            "FELIX_KAFKA_LISTEN={} is a wildcard, which no client can connect to; set \
             FELIX_KAFKA_ADVERTISE_ADDR to what clients should use",
            kafka.listen
        ))),
        Some(_) | None => Ok(()),
    }
}

fn milliseconds(values: &Checked<'_>, variable: &str) -> Duration {
    Duration::from_millis(values.number(variable))
}

fn fits<T: TryFrom<u64>>(value: u64) -> T {
    T::try_from(value)
        .ok()
        .expect("the table's bounds fit the type")
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, read};
    use super::*;

    fn refused(flags: &[&str]) -> String {
        let arguments = ["felix-broker"]
            .iter()
            .chain(flags)
            .map(|text| (*text).to_owned());
        read(arguments, []).unwrap_err().to_string()
    }

    fn accepted(flags: &[&str]) -> Settings {
        let arguments = ["felix-broker"]
            .iter()
            .chain(flags)
            .map(|text| (*text).to_owned());
        match read(arguments, []).unwrap() {
            Outcome::Run(settings) => *settings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_a_listen_address_there_is_no_kafka_listener() {
        assert_eq!(accepted(&[]).kafka, None);
    }

    #[test]
    fn a_listener_needs_somebody_whom_it_serves() {
        let kafka = accepted(&["--dev"]).kafka.unwrap();
        assert!(!kafka.tls);
        let mapped = "--kafka-listen=[::ffff:127.0.0.1]:9092";
        let anonymous = "--kafka-anonymous-tenant=t1";
        assert!(accepted(&[mapped, anonymous]).kafka.is_some());
        for listen in ["[::1]:9092", "192.0.2.1:9092"] {
            let flags = ["--kafka-listen", listen];
            let sentence = refused(&flags);
            assert!(sentence.contains("FELIX_KAFKA_TOKEN_FILE"), "{sentence}");
            assert!(
                sentence.contains("FELIX_KAFKA_ANONYMOUS_TENANT"),
                "{sentence}"
            );
            let with_tokens = [&flags[..], &["--kafka-token-file=tokens.toml"]].concat();
            let kafka = accepted(&with_tokens).kafka.unwrap();
            assert!(kafka.tls);
            assert_eq!(kafka.auth_timeout, Duration::from_secs(10));
            assert_eq!(kafka.anonymous_tenant, None);
            let bound = [
                &with_tokens[..],
                &["--tls-client-cert-bind-subject=true"],
                &["--tls-client-ca=ca.pem", "--kafka-tls=false"],
            ]
            .concat();
            assert!(refused(&bound).contains("no client shows a certificate"));
        }
    }

    #[test]
    fn an_anonymous_tenant_beyond_loopback_must_be_asked_for_twice() {
        let flags = ["--kafka-listen=192.0.2.1:9092", "--kafka-tls=false"];
        let once = [&flags[..], &["--kafka-anonymous-tenant=t1"]].concat();
        assert!(refused(&once).contains("FELIX_KAFKA_ANONYMOUS_INSECURE=true"));
        let with_tokens = [&once[..], &["--kafka-token-file=tokens.toml"]].concat();
        assert!(refused(&with_tokens).contains("FELIX_KAFKA_ANONYMOUS_INSECURE=true"));
        let twice = [&once[..], &["--kafka-anonymous-insecure=true"]].concat();
        let tenant = accepted(&twice).kafka.unwrap().anonymous_tenant;
        assert_eq!(tenant.as_deref(), Some("t1"));
    }

    #[test]
    fn a_wildcard_is_never_told_to_clients() {
        for host in ["0.0.0.0", "[::]"] {
            let advertise = format!("--kafka-advertise-addr={host}:9092");
            let sentence = refused(&["--dev", &advertise]);
            assert!(sentence.contains("wildcard"), "{sentence}");
        }
    }

    #[test]
    fn core_ports_follow_the_kafka_port_unless_a_base_is_given() {
        let flags = [
            "--kafka-listen=127.0.0.1:9200",
            "--kafka-tls=false",
            "--kafka-anonymous-tenant=t1",
        ];
        assert_eq!(accepted(&flags).kafka.unwrap().core_port_base, None);
        let on = [&flags[..], &["--kafka-core-ports=true"]].concat();
        assert_eq!(accepted(&on).kafka.unwrap().core_port_base, Some(9201));
        let based = [&on[..], &["--kafka-core-port-base=9300"]].concat();
        assert_eq!(accepted(&based).kafka.unwrap().core_port_base, Some(9300));
        let last = refused(&["--dev", "--kafka-listen=127.0.0.1:65535"]);
        assert!(last.contains("FELIX_KAFKA_CORE_PORT_BASE"), "{last}");
    }

    #[test]
    fn zero_connections_per_address_is_no_limit() {
        assert_eq!(
            accepted(&["--dev"]).kafka.unwrap().connections_per_ip_max,
            Some(128)
        );
        let unlimited = accepted(&["--dev", "--kafka-max-connections-per-ip=0"]);
        assert_eq!(unlimited.kafka.unwrap().connections_per_ip_max, None);
    }

    #[test]
    fn a_stall_is_counted_before_it_is_logged() {
        let core = accepted(&[]).core;
        assert_eq!(core.stall_counted, Duration::from_micros(250));
        assert_eq!(core.stall_logged, Duration::from_millis(1));
        assert!(accepted(&["--stall-us=1000"]).core.stall_counted == core.stall_logged);
        let sentence = refused(&["--stall-us=1001"]);
        assert!(
            sentence.contains("FELIX_STALL_LOG_US=1000 is below"),
            "{sentence}"
        );
    }

    #[test]
    fn zero_idle_time_is_for_ever_and_zero_spinning_is_none() {
        let settings = accepted(&["--dev"]);
        let minutes = settings.kafka.unwrap().idle_timeout.unwrap();
        assert_eq!(minutes, Duration::from_secs(600));
        assert_eq!(settings.core.spin, Duration::ZERO);
        assert_eq!(settings.core.memory_bytes_max, 256 << 20);
        let forever = accepted(&["--dev", "--kafka-idle-timeout-ms=0"]);
        assert_eq!(forever.kafka.unwrap().idle_timeout, None);
    }
}
