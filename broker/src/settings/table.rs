//! The table of settings.

pub(crate) use super::setting::{Kind, Setting};

use super::setting::{number, setting};
use felix_core::limits::{AGE_SECONDS_MAX, RETENTION_BYTES_MAX};

/// The setting that names the settings file.
pub(super) const CONFIG: &str = "FELIX_CONFIG";
/// The setting that replaces defaults.
pub(super) const DEV: &str = "FELIX_DEV";
/// The setting that `RUST_LOG` stands in for.
pub(super) const LOG: &str = "FELIX_LOG";

/// The greatest segment: both index files count in signed 32-bit integers.
const SEGMENT_BYTES_MAX: u64 = felix_core::limits::SEGMENT_SPAN_MAX;
/// The least segment: one batch of the greatest request fits.
const SEGMENT_BYTES_MIN: u64 = felix_core::limits::REQUEST_BYTES_MAX as u64;

/// The least that is kept free: the reserve, which is to be put back below it.
const DISK_FREE_BYTES_MIN: u64 = 32 << 20;

/// The least that may be dirty: a flush for every few batches is what `on_commit` is for.
const DIRTY_BYTES_MIN: u64 = 1 << 20;

/// The least memory of a core: requests and answers of the greatest size are under way at once.
const MEMORY_PER_CORE_BYTES_MIN: u64 = 32 << 20;
const _: () =
    assert!(MEMORY_PER_CORE_BYTES_MIN >= 4 * felix_core::limits::REQUEST_BYTES_MAX as u64);

/// Every setting of the broker.
pub(crate) static TABLE: &[Setting] = &[
    setting(
        CONFIG,
        Kind::Path,
        "The settings file: TOML, with the flags' names as keys and _ for -.",
    )
    .unset("no file"),
    setting(
        DEV,
        Kind::Switch,
        "Development: loopback only, tenant dev without credentials, stream default.clicks with 3 \
         shards, a Kafka port for each core, data in ./felix-data; settings given explicitly win.",
    )
    .or("false"),
    setting(
        "FELIX_CORES",
        Kind::Cpus,
        "The processors that each run one pinned thread, by the kernel's numbers and in the order \
         in which the broker counts its cores.",
    )
    .unset(
        "from four physical cores up one processor of each but the first core, else all allowed",
    ),
    setting(
        "FELIX_SPIN_US",
        number(0, 1_000_000),
        "How long a core without work looks for more before it sleeps; for processors that belong \
         to the broker alone, which it keeps busy. 0 sleeps at once.",
    )
    .or("0")
    .unit("us"),
    setting(
        "FELIX_MEMORY_PER_CORE_BYTES",
        number(MEMORY_PER_CORE_BYTES_MIN, 1 << 40),
        "Memory of each core for requests that come in and answers that wait to go out. Where it \
         is used up, connections are not read until some is free.",
    )
    .or("268435456")
    .unit("bytes"),
    setting(
        "FELIX_STALL_US",
        number(50, 10_000_000),
        "A task that holds its core longer is counted as a stall.",
    )
    .or("250")
    .unit("us"),
    setting(
        "FELIX_STALL_LOG_US",
        number(50, 10_000_000),
        "A task that holds its core longer is also named in the log; at least FELIX_STALL_US.",
    )
    .or("1000")
    .unit("us"),
    setting(
        "FELIX_PROBE_MS",
        number(0, 3_600_000),
        "How often each core is sent a message from outside, to see how long it takes until the \
         core looks at it; wakes an idle core as often. 0 sends none.",
    )
    .or("1000")
    .unit("ms"),
    setting(
        "FELIX_BROKER_ID",
        number(1, i32::MAX as u64),
        "The broker's number; the node ids of its cores are made from it.",
    )
    .or("1"),
    setting(
        "FELIX_RACK",
        Kind::Name,
        "The rack (or zone) told to Kafka clients.",
    )
    .unset("no rack"),
    setting(
        "FELIX_KAFKA_LISTEN",
        Kind::Listen,
        "The address of the Kafka listener.",
    )
    .unset("no Kafka listener")
    .dev("127.0.0.1:9092"),
    setting(
        "FELIX_KAFKA_ADVERTISE_ADDR",
        Kind::HostPort,
        "The address Kafka clients are told to connect to; with core ports only its host is used.",
    )
    .unset("the listen address"),
    setting(
        "FELIX_KAFKA_CORE_PORTS",
        Kind::Switch,
        "Gives each core a Kafka port of its own and shows each core as a Kafka node, so that \
         clients connect straight to the core that owns a partition.",
    )
    .or("false")
    .dev("true"),
    setting(
        "FELIX_KAFKA_CORE_PORT_BASE",
        number(0, 65_535),
        "The port of core 0; core i listens on this plus i. 0 takes any free ports, which change \
         with each start.",
    )
    .unit("port")
    .unset("the Kafka port plus 1"),
    setting(
        "FELIX_KAFKA_TLS",
        Kind::Switch,
        "Kafka connections use TLS 1.2 or 1.3. Without it tokens and records travel in clear text.",
    )
    .or("true")
    .dev("false"),
    setting(
        "FELIX_TLS_CERT",
        Kind::Path,
        "The broker's certificate, for all its listeners: PEM, the broker's own first, each followed \
         by the one that issued it. Read anew when it changes, and on SIGHUP.",
    )
    .unset("a self-signed one for localhost, made once and kept in the data directory"),
    setting(
        "FELIX_TLS_KEY",
        Kind::Path,
        "The private key of that certificate: PEM, without a password.",
    )
    .unset("the key of the self-signed certificate"),
    setting(
        "FELIX_TLS_CERT_EXPORT",
        Kind::Path,
        "Where the broker writes its certificate (PEM, no key), for clients to trust.",
    )
    .unset("nowhere"),
    setting(
        "FELIX_TLS_CLIENT_CA",
        Kind::Path,
        "Whoever connects by TLS has to show a certificate that one of these authorities (PEM) has \
         signed.",
    )
    .unset("clients are asked for no certificate"),
    setting(
        "FELIX_TLS_CLIENT_CERT_BIND_SUBJECT",
        Kind::Switch,
        "A token counts only on a connection whose client certificate names the token's subject: by \
         the URI felix:principal:<subject>, or a DNS name or IP address that is the subject.",
    )
    .or("false"),
    setting(
        "FELIX_TLS_MIN_VERSION",
        Kind::Choice(&["1.2", "1.3"]),
        "The least version of TLS that is spoken.",
    )
    .or("1.2"),
    setting(
        "FELIX_TLS_CIPHER_SUITES",
        Kind::CipherSuites,
        "The cipher suites that are spoken.",
    )
    .unset("all"),
    setting(
        "FELIX_KAFKA_ANONYMOUS_TENANT",
        Kind::Tenant,
        "Development only: connections that do not authenticate read and write every stream of \
         this tenant.",
    )
    .unset("they may do nothing")
    .dev("dev"),
    setting(
        "FELIX_KAFKA_ANONYMOUS_INSECURE",
        Kind::Switch,
        "Allows an anonymous tenant on an address that is not loopback.",
    )
    .or("false"),
    setting(
        "FELIX_KAFKA_TOKEN_FILE",
        Kind::Path,
        "A TOML file of tokens, by which Kafka clients authenticate (SASL/PLAIN). Read anew when it \
         changes and on SIGHUP.",
    )
    .unset("nobody can authenticate"),
    setting(
        "FELIX_KAFKA_AUTH_TIMEOUT_MS",
        number(100, 3_600_000),
        "A Kafka connection that speaks for no tenant and has not authenticated after this long is \
         closed; its TLS handshake is part of that time.",
    )
    .or("10000")
    .unit("ms"),
    setting(
        "FELIX_KAFKA_DEFAULT_NAMESPACE",
        Kind::Namespace,
        "The namespace meant by a topic name without a dot.",
    )
    .unset("such a name is unknown"),
    setting(
        "FELIX_KAFKA_MAX_CONNECTIONS",
        number(1, 1_000_000),
        "Kafka connections at once, for each Kafka node: the shared port, and each core port. \
         Further ones are closed on arrival.",
    )
    .or("1024")
    .unit("connections"),
    setting(
        "FELIX_KAFKA_MAX_CONNECTIONS_PER_IP",
        number(0, 1_000_000),
        "As above, from one address; tested first; 0 is no limit.",
    )
    .or("128")
    .unit("connections"),
    setting(
        "FELIX_KAFKA_IDLE_TIMEOUT_MS",
        number(0, 604_800_000),
        "A Kafka connection that neither asks nor is answered for this long is closed; 0 is never. \
         A request that is still arriving counts for every 64 KiB of it.",
    )
    .or("600000")
    .unit("ms"),
    setting(
        "FELIX_TENANT_PUBLISH_BYTES_PER_SEC",
        number(1, 1 << 40),
        "What each tenant may publish, in bytes of batches as they are stored. What is more is \
         written, and the connection that brought it is told to wait, and not read meanwhile.",
    )
    .unset("as much as it likes")
    .unit("bytes/s"),
    setting(
        "FELIX_TENANT_PUBLISH_BURST_BYTES",
        number(1, 1 << 50),
        "What a tenant that has rested may publish at once; less than a tenth of a second's worth \
         wastes budget.",
    )
    .unset("one second's worth")
    .unit("bytes"),
    setting(
        "FELIX_TENANT_PUBLISH_MAX_THROTTLE_MS",
        number(1, 3_600_000),
        "How long a connection is held back at most for one produce; what its tenant owes then stays \
         owed. Below the request timeout of its clients, which requests that were sent before wait for.",
    )
    .or("20000")
    .unit("ms"),
    setting(
        "FELIX_DURABLE_STORAGE_DIR",
        Kind::Path,
        "The directory of the logs. One broker at a time.",
    )
    .unset("no stream can be served")
    .dev("./felix-data"),
    setting(
        "FELIX_DURABLE_FSYNC_MODE",
        Kind::Choice(&["none", "periodic", "on_commit"]),
        "When appends of a stream whose catalog entry names no durability are flushed to the \
         device: when the kernel pleases, every interval, or before they are acknowledged.",
    )
    .or("periodic"),
    setting(
        "FELIX_DURABLE_FSYNC_INTERVAL_MS",
        number(1, 60_000),
        "The interval of periodic flushes. A power loss may take what was written in it and in the time of two rounds.",
    )
    .or("50")
    .unit("ms"),
    setting(
        "FELIX_DIRTY_BYTES_SOFT",
        number(DIRTY_BYTES_MIN, 1 << 40),
        "Bytes of periodic and none streams that are written to a device and not flushed, from which \
         on a round of flushes begins at once; of all cores, which have an equal share each.",
    )
    .or("67108864")
    .unit("bytes"),
    setting(
        "FELIX_DIRTY_BYTES_HARD",
        number(DIRTY_BYTES_MIN, 1 << 40),
        "The same, from which on appends to such streams wait for a flush; at least \
         FELIX_DIRTY_BYTES_SOFT. Half of it is the most of one shard.",
    )
    .or("268435456")
    .unit("bytes"),
    setting(
        "FELIX_DURABLE_SEGMENT_BYTES",
        number(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
        "The size at which a log file is closed and the next one begun.",
    )
    .or("268435456")
    .unit("bytes"),
    setting(
        "FELIX_DURABLE_SEGMENT_SECONDS",
        number(1, AGE_SECONDS_MAX),
        "How long after its first record a log file is closed at the latest, so that retention by \
         age reaches streams that are hardly written to; of a stream whose catalog entry says \
         nothing else. Where records are kept for less, after as long.",
    )
    .or("604800")
    .unit("s"),
    setting(
        "FELIX_DISK_FREE_BYTES_MIN",
        number(DISK_FREE_BYTES_MIN, 1 << 50),
        "Bytes kept free on the file system of the logs, at most a twentieth of it: below that \
         appends are refused, and reads go on.",
    )
    .or("536870912")
    .unit("bytes"),
    setting(
        "FELIX_DURABLE_INDEX_SPACING_BYTES",
        number(512, 1 << 30),
        "Bytes of log between two index entries.",
    )
    .or("4096")
    .unit("bytes"),
    setting(
        "FELIX_DURABLE_RETENTION_BYTES",
        number(1, RETENTION_BYTES_MAX),
        "What each shard of a stream whose catalog entry says nothing else keeps at least: full log \
         files go, the oldest first, while this much is left without them.",
    )
    .unset("no bound")
    .unit("bytes"),
    setting(
        "FELIX_DURABLE_RETENTION_SECONDS",
        number(1, AGE_SECONDS_MAX),
        "How long a record of such a stream is kept at least: a full log file goes once its newest \
         record is older.",
    )
    .unset("for ever")
    .unit("s"),
    setting(
        "FELIX_DURABLE_RETENTION_INTERVAL_SECONDS",
        number(1, 86_400),
        "How often a core looks for records that are too old.",
    )
    .or("60")
    .unit("s"),
    setting(
        "FELIX_DURABLE_VERIFY_ALL_ON_OPEN",
        Kind::Switch,
        "At the start every log is read whole and each batch verified, instead of only \
         the segments that grew since its last checkpoint.",
    )
    .or("false"),
    setting(
        "FELIX_TAIL_CACHE_BYTES",
        number(1 << 20, 1 << 40),
        "Memory of each core for the most recent batches of its shards.",
    )
    .or("67108864")
    .unit("bytes"),
    setting(
        "FELIX_CATALOG_FILE",
        Kind::Path,
        "A TOML file that lists the streams.",
    )
    .unset("no streams but those of --dev"),
    setting(
        "FELIX_BROKER_METRICS_BIND",
        Kind::Listen,
        "The address of /live, /ready and /metrics over HTTP.",
    )
    .or("127.0.0.1:8080"),
    setting(
        "FELIX_SHUTDOWN_DRAIN_TIMEOUT_MS",
        number(0, 3_600_000),
        "How long a shutdown waits for connections to finish what they asked.",
    )
    .or("25000")
    .unit("ms"),
    setting(
        LOG,
        Kind::Filter,
        "What is logged, for all and for single modules; RUST_LOG is used where this is set \
         nowhere, if it is understood.",
    )
    .or("info"),
    setting(
        "FELIX_LOG_FORMAT",
        Kind::Choice(&["text", "json"]),
        "How log lines are written to standard output.",
    )
    .or("text"),
];

/// A setting by its variable. Panics for a name that is not in the table.
#[must_use]
pub(crate) fn find(variable: &str) -> &'static Setting {
    TABLE
        .iter()
        .find(|setting| setting.variable == variable)
        .expect("settings are asked for by the names in the table")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn variables_and_flags_are_unique_and_each_setting_says_what_unset_means() {
        let mut seen = HashSet::new();
        for setting in TABLE {
            assert!(seen.insert(setting.flag()), "{}", setting.variable);
            assert!(setting.sentence.ends_with('.'), "{}", setting.variable);
            let explained = setting.default.is_some() == setting.unset.is_empty();
            assert!(
                explained,
                "{} has a default or says what unset means",
                setting.variable
            );
        }
    }
}
