//! The cells of the client matrix with rskafka. `tests/clients/README.md` says what the arguments
//! and the lines mean.

use chrono::{DateTime, Utc};
use rskafka::BackoffConfig;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::{Record, RecordAndOffset};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

const GIVEN: &str = "given.read";
const FORMS: &str = "given.forms";
const TIME_MS: i64 = 1_700_000_055_500;
const TIMEOUT: Duration = Duration::from_secs(20);
const LARGE_MAX: i32 = 6_000_000;
/// The crate does not tell its version; Cargo.toml pins it.
const VERSION: &str = "0.6.0";

type Told = Result<String, Box<dyn Error>>;

/// The arguments NAME=VALUE.
struct Options(HashMap<String, String>);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut options = Options(HashMap::new());
    for arg in std::env::args().skip(1) {
        if let Some((name, value)) = arg.split_once('=') {
            options.0.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let begin = Instant::now();
        let told = match tokio::time::timeout(TIMEOUT, run(&options, &arg)).await {
            Ok(told) => told.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it did not end within {TIMEOUT:?}")),
        };
        let (state, detail) = match told {
            Ok(detail) => ("ok", detail),
            Err(detail) => ("no", detail),
        };
        let detail = detail.split_whitespace().collect::<Vec<_>>().join(" ");
        println!("{arg}\t{state}\t{detail}\t{}", begin.elapsed().as_millis());
    }
}

async fn run(options: &Options, cell: &str) -> Told {
    match cell {
        "version" => Ok(VERSION.to_owned()),
        "list" => list(options).await,
        "acks-all" => send(options, "made", values(cell, 1), Compression::NoCompression).await,
        "acks-0" | "acks-1" => Err("rskafka always asks for acks=all".into()),
        "none" => {
            send(
                options,
                "made",
                values(cell, 20),
                Compression::NoCompression,
            )
            .await
        }
        "gzip" => send(options, "made", values(cell, 20), Compression::Gzip).await,
        "snappy" => send(options, "made", values(cell, 20), Compression::Snappy).await,
        "lz4" => send(options, "made", values(cell, 20), Compression::Lz4).await,
        "zstd" => send(options, "made", values(cell, 20), Compression::Zstd).await,
        "idempotent" | "lost-idempotent" | "timed-out" | "forgotten" => Err("rskafka has no idempotent producer".into()),
        "earliest" => given(options, OffsetAt::Earliest).await,
        "timestamp" => {
            let time = DateTime::from_timestamp_millis(TIME_MS).ok_or("a time")?;
            given(options, OffsetAt::Timestamp(time)).await
        }
        "offset" => Ok(seen(&read_from(options, GIVEN, 40, 3).await?)),
        "seek" => {
            let mut found = read_from(options, GIVEN, 10, 3).await?;
            found.extend(read_from(options, GIVEN, 90, 3).await?);
            Ok(seen(&found))
        }
        "latest" => follow(options, cell, 1).await,
        "tail" => follow(options, cell, 3).await,
        "headers" => headers(options).await,
        "nulls" => nulls(options).await,
        "large" => sized(options, 900_000).await,
        "huge" => sized(options, 5_000_000).await,
        "ends" => {
            let client = partition(options, GIVEN).await?;
            let start = client.get_offset(OffsetAt::Earliest).await?;
            let end = client.get_offset(OffsetAt::Latest).await?;
            Ok(format!("{start} {end}"))
        }
        "group" | "group-assign" => Err("rskafka has no groups".into()),
        "transaction" => Err("rskafka has no transactions".into()),
        "lost" => {
            let lossy = options.0.get("lossy").ok_or("lossy is missing")?.clone();
            let mut options = Options(options.0.clone());
            options.0.insert("bootstrap".to_owned(), lossy);
            send(
                &options,
                "lost",
                values(cell, 10),
                Compression::NoCompression,
            )
            .await
        }
        _ => Err("its program here knows no such cell".into()),
    }
}

async fn client(options: &Options) -> Result<Client, Box<dyn Error>> {
    let option = |name: &str| options.0.get(name).cloned();
    let bootstrap = option("bootstrap").ok_or("bootstrap is missing")?;
    let mut builder = ClientBuilder::new(vec![bootstrap])
        .client_id(option("name").unwrap_or_default())
        .backoff_config(BackoffConfig {
            // Otherwise it tries to connect without end.
            deadline: Some(TIMEOUT / 4),
            ..BackoffConfig::default()
        })
        .max_message_size(usize::try_from(2 * LARGE_MAX)?);
    if let Some(ca) = option("ca") {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca)?)?;
        let config = rustls::ClientConfig::builder().with_root_certificates(roots);
        builder = builder.tls_config(Arc::new(config.with_no_client_auth()));
    }
    if let (Some(user), Some(password)) = (option("user"), option("password")) {
        builder = builder.sasl_config(SaslConfig::Plain(Credentials::new(user, password)));
    }
    Ok(builder.build().await?)
}

async fn partition(options: &Options, topic: &str) -> Result<PartitionClient, Box<dyn Error>> {
    let client = client(options).await?;
    Ok(client
        .partition_client(topic, 0, UnknownTopicHandling::Error)
        .await?)
}

fn own(options: &Options, suffix: &str) -> String {
    format!(
        "{}.{suffix}",
        options.0.get("name").map_or("", String::as_str)
    )
}

fn record(key: Option<&str>, value: Option<&str>) -> Record {
    Record {
        key: key.map(|key| key.as_bytes().to_vec()),
        value: value.map(|value| value.as_bytes().to_vec()),
        headers: BTreeMap::new(),
        timestamp: Utc::now(),
    }
}

fn values(cell: &str, count: usize) -> Vec<Record> {
    let value = |number| record(None, Some(&format!("{cell}-{number}")));
    (0..count).map(value).collect()
}

async fn send(options: &Options, suffix: &str, records: Vec<Record>, codec: Compression) -> Told {
    let client = partition(options, &own(options, suffix)).await?;
    client.produce(records, codec).await?;
    Ok(String::new())
}

async fn read_from(
    options: &Options,
    topic: &str,
    from: i64,
    count: usize,
) -> Result<Vec<RecordAndOffset>, Box<dyn Error>> {
    let client = partition(options, topic).await?;
    let mut found = Vec::new();
    let mut next = from;
    while found.len() < count {
        let (records, _) = client.fetch_records(next, 1..LARGE_MAX, 500).await?;
        for record in records {
            // Batches come whole, with what lies before the offset.
            if record.offset >= next && found.len() < count {
                next = record.offset + 1;
                found.push(record);
            }
        }
    }
    Ok(found)
}

fn seen(records: &[RecordAndOffset]) -> String {
    let one = |record: &RecordAndOffset| {
        format!("{}:{}", record.offset, text(record.record.value.as_deref()))
    };
    records.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or("null".to_owned(), |bytes| {
        String::from_utf8_lossy(bytes).into_owned()
    })
}

async fn given(options: &Options, at: OffsetAt) -> Told {
    let offset = partition(options, GIVEN).await?.get_offset(at).await?;
    Ok(seen(&read_from(options, GIVEN, offset, 3).await?))
}

async fn list(options: &Options) -> Told {
    let topics = client(options).await?.list_topics().await?;
    let topic = topics.iter().find(|topic| topic.name == GIVEN);
    let topic = topic.ok_or("it is not listed")?;
    Ok(format!("{GIVEN}:{}", topic.partitions.len()))
}

async fn follow(options: &Options, cell: &str, count: usize) -> Told {
    let topic = own(options, "tail");
    let client = partition(options, &topic).await?;
    let mut next = client.get_offset(OffsetAt::Latest).await?;
    let mut told = Vec::new();
    for value in values(cell, count) {
        client
            .produce(vec![value], Compression::NoCompression)
            .await?;
        let found = read_from(options, &topic, next, 1).await?;
        next += 1;
        told.push(text(found[0].record.value.as_deref()));
    }
    Ok(told.join(" "))
}

async fn headers(options: &Options) -> Told {
    match read_from(options, FORMS, 0, 1).await {
        Ok(_) => Err("rskafka read a header that is null".into()),
        Err(error) => Err(format!("rskafka cannot read a header that is null: {error}").into()),
    }
}

async fn nulls(options: &Options) -> Told {
    let records = vec![
        record(Some("null-value"), None),
        record(Some("empty-value"), Some("")),
        record(None, Some("null-key")),
        record(Some(""), Some("empty-key")),
    ];
    send(options, "made", records, Compression::NoCompression).await?;
    let found = read_from(options, FORMS, 1, 4).await?;
    let shown = |found: &RecordAndOffset| {
        let record = &found.record;
        format!(
            "{}={}",
            text(record.key.as_deref()),
            text(record.value.as_deref())
        )
    };
    Ok(found.iter().map(shown).collect::<Vec<_>>().join(" "))
}

async fn sized(options: &Options, bytes: usize) -> Told {
    let value = "x".repeat(bytes);
    send(
        options,
        "large",
        vec![record(None, Some(&value))],
        Compression::NoCompression,
    )
    .await?;
    let topic = own(options, "large");
    let end = partition(options, &topic)
        .await?
        .get_offset(OffsetAt::Latest)
        .await?;
    let found = read_from(options, &topic, end - 1, 1).await?;
    let value = found[0].record.value.as_ref().ok_or("it has a value")?;
    Ok(value.len().to_string())
}
