//! Our log directories are Kafka's. Apache Kafka's own `kafka-dump-log` reads every segment that a
//! broker closed, and both indexes of each, and finds no fault: not in the batches, not in the
//! offsets, not in an index entry. What it sees is what the clients wrote.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use felix_tests::dump_log::{self, Dump, Dumped};
use felix_tests::{Broker, Policy, Random, Stream, codec_bytes, files, kcat, python};
use std::path::{Path, PathBuf};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// The least there may be.
const SEGMENT_BYTES: u64 = 8 << 20;

/// What a client was given to send.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sent {
    timestamp: Option<i64>,
    key: Option<Vec<u8>>,
    value: Vec<u8>,
}

/// So many bytes that every codec makes somewhat smaller and every tool prints as they are: a
/// quarter is said twice.
fn noise(random: &mut Random, bytes: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut noise = Vec::with_capacity(bytes + 10);
    while noise.len() < bytes - bytes / 4 {
        let mut number = random.within(0..1 << 60);
        for _ in 0..10 {
            noise.push(ALPHABET[usize::try_from(number & 63).unwrap()]);
            number >>= 6;
        }
    }
    noise.truncate(bytes - bytes / 4);
    noise.extend_from_within(..bytes / 4);
    noise
}

/// Records of many sizes, `bytes` in all: small ones, some without a key, and a large one.
fn records(random: &mut Random, bytes: usize) -> Vec<Sent> {
    let mut records = Vec::new();
    let mut left = bytes;
    while left > 0 {
        let size = match records.len() {
            50 => 900_000,
            number if number % 10 == 0 => random.within(1..50),
            _ => random.within(200..4000),
        };
        let size = usize::try_from(size).unwrap();
        let key = (random.within(0..5) > 0).then(|| noise(random, 12));
        records.push(Sent {
            timestamp: None,
            key,
            value: noise(random, size),
        });
        left = left.saturating_sub(size);
    }
    records
}

fn lines(records: &[Sent]) -> Vec<u8> {
    let mut lines = Vec::new();
    for record in records {
        if let Some(timestamp) = record.timestamp {
            lines.extend(format!("{timestamp}\t").as_bytes());
        }
        lines.extend(record.key.as_deref().unwrap_or_default());
        lines.push(b'\t');
        lines.extend(&record.value);
        lines.push(b'\n');
    }
    lines
}

/// Everything through kcat, each codec in batches of another length.
fn fill(broker: &Broker, topic: &str, random: &mut Random) -> Vec<Sent> {
    let mut all = Vec::new();
    for (codec, batch) in CODECS.into_iter().zip([1, 3, 20, 100, 1000]) {
        let sent = records(random, codec_bytes());
        let batch = format!("batch.num.messages={batch}");
        let args = [
            "-P", "-t", topic, "-p", "0", "-z", codec, "-K", "\t", "-Z", "-X", &batch,
        ];
        drop(kcat::run(&broker.bootstrap(), &args, Some(lines(&sent))).ok());
        all.extend(sent);
    }
    all
}

/// Timestamps in no order, some more than once, through confluent-kafka.
fn fill_out_of_order(broker: &Broker, topic: &str, random: &mut Random) -> Vec<Sent> {
    let mut all = Vec::new();
    for codec in CODECS {
        let mut sent = records(random, codec_bytes() / 2);
        for (number, record) in (0_u64..).zip(&mut sent) {
            let timestamp = 1_000_000 + number / 3 * 10 + random.within(0..1000);
            record.timestamp = Some(i64::try_from(timestamp).unwrap());
            // An empty key of this script is a key.
            record.key = record.key.take().or(Some(Vec::new()));
        }
        let codec = format!("compression.type={codec}");
        let args = [&*broker.bootstrap(), topic, &codec, "batch.num.messages=25"];
        drop(python::run("stamped.py", &args, Some(lines(&sent))));
        all.extend(sent);
    }
    all
}

fn bytes(files: &[PathBuf]) -> usize {
    let sizes = files.iter().map(|file| file.metadata().unwrap().len());
    usize::try_from(sizes.sum::<u64>()).unwrap()
}

fn assert_clean(dump: &Dump) {
    assert!(dump.complaints.is_empty(), "{:#?}", dump.complaints);
}

/// Reads a closed log with the tool and compares.
fn assert_reads_as_sent(dir: &Path, sent: &[Sent], clock: &str) {
    let [logs, indexes, times] = ["log", "index", "timeindex"].map(|ending| files(dir, ending));
    // At least one that was full and the one that was closed with the broker.
    assert!(logs.len() >= 2, "{logs:?}");
    assert_eq!((indexes.len(), times.len()), (logs.len(), logs.len()));

    let entries = (bytes(&indexes) / 8, bytes(&times) / 12);
    let both = [indexes, times].concat();
    let all = [logs, both.clone()].concat();
    let dump = dump_log::run(&all, &["--deep-iteration", "--print-data-log"]);
    assert_clean(&dump);
    let batches = dump.count_beginning("baseOffset: ");
    assert!(batches > 100);
    assert_eq!(dump.count(" isvalid: true"), batches);
    for codec in CODECS {
        let found = dump.count(&format!(" compresscodec: {codec} "));
        assert!(found > 0, "no batch with {codec}");
    }
    assert_same(&dump.records(), sent, clock);
    assert!(entries.0 > 100 && entries.1 > 2, "{entries:?}");
    assert_eq!(dump.count_beginning("offset: "), entries.0);
    assert_eq!(dump.count_beginning("timestamp: "), entries.1);

    let dump = dump_log::run(&both, &["--index-sanity-check"]);
    assert_clean(&dump);
    assert_eq!(dump.count(" passed sanity check."), both.len());
    assert_clean(&dump_log::run(&both, &["--verify-index-only"]));
}

fn assert_same(found: &[Dumped], sent: &[Sent], clock: &str) {
    assert_eq!(found.len(), sent.len(), "records found and records sent");
    let mut last = 0;
    for ((offset, found), sent) in (0..).zip(found).zip(sent) {
        assert_eq!(found.offset, offset);
        assert_eq!(found.clock, clock, "offset {offset}");
        assert!(found.key == sent.key, "key at offset {offset}: {found:?}");
        assert!(found.value == sent.value, "value at offset {offset}");
        match sent.timestamp {
            Some(timestamp) => assert_eq!(found.timestamp, timestamp, "offset {offset}"),
            None => assert!(found.timestamp >= last, "time runs backwards at {offset}"),
        }
        last = found.timestamp;
    }
}

fn start(stream: Stream) -> Broker {
    Broker::start_with(&[stream], &[("FELIX_DURABLE_SEGMENT_BYTES", "8388608")])
}

#[test]
fn kafka_reads_what_was_written_with_append_times() {
    const TOPIC: &str = "dump.append";
    let mut broker = start(Stream::new(TOPIC, 1));
    let sent = fill(&broker, TOPIC, &mut Random::from_environment());
    assert!(broker.terminate().success());
    let dir = broker.shard_dir(TOPIC, 0);
    assert_reads_as_sent(&dir, &sent, "LogAppendTime");
    complains_of_damage(&dir);
}

#[test]
fn kafka_reads_what_was_written_with_create_times() {
    const TOPIC: &str = "dump.create";
    let stream = Stream::new(TOPIC, 1).stamped_by_producers();
    let mut broker = start(stream.flushed(Policy::OnCommit));
    let sent = fill(&broker, TOPIC, &mut Random::from_environment());
    assert!(broker.terminate().success());
    assert_reads_as_sent(&broker.shard_dir(TOPIC, 0), &sent, "CreateTime");
}

#[test]
fn kafka_reads_what_was_written_with_create_times_in_no_order_over_a_restart() {
    const TOPIC: &str = "dump.disorder";
    let stream = Stream::new(TOPIC, 1).stamped_by_producers();
    let mut broker = start(stream.flushed(Policy::None));
    let random = &mut Random::from_environment();
    let mut sent = fill_out_of_order(&broker, TOPIC, random);
    // An opening takes the last segment on, indexes and all, after a clean end and after a kill.
    assert!(broker.terminate().success());
    broker.start_again();
    sent.extend(fill_out_of_order(&broker, TOPIC, random));
    broker.kill();
    broker.start_again();
    assert!(broker.terminate().success());
    assert_reads_as_sent(&broker.shard_dir(TOPIC, 0), &sent, "CreateTime");
}

/// That the tool is silent means something: here it is not.
fn complains_of_damage(dir: &Path) {
    let copy = tempfile::tempdir().unwrap();
    let first = files(dir, "log").remove(0);
    assert!(first.metadata().unwrap().len() <= SEGMENT_BYTES);
    let stem = copy.path().join(first.file_stem().unwrap());
    let damaged = |ending: &str, place: fn(usize) -> usize| {
        let from = first.with_extension(ending);
        let mut bytes = std::fs::read(from).unwrap();
        let place = place(bytes.len());
        bytes[place] ^= 1;
        let path = stem.with_extension(ending);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    // The base timestamp of the first batch, and of the entry in the middle of each index the
    // offset and the timestamp.
    let files = [
        damaged("log", |_| 34),
        damaged("index", |bytes| bytes / 8 / 2 * 8 + 3),
        damaged("timeindex", |bytes| bytes / 12 / 2 * 12 + 7),
    ];
    let dump = dump_log::run(&files, &[]);
    assert_eq!(dump.count(" isvalid: false"), 1);
    let complaints = dump.complaints.concat();
    assert!(complaints.contains("Mismatches in :"), "{complaints}");
    assert!(complaints.contains("timestamp mismatch"), "{complaints}");
}
