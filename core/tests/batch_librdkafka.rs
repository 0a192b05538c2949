//! Batches that librdkafka wrote, read from `fixtures/` (see the README there).

use bytes::{Bytes, BytesMut};
use felix_core::batch::{Batch, Codec, Place, Record};
use felix_core::{Generation, Offset, Timestamp};
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// `-`, `''`, hex, or a number of times hex.
fn field(text: &str) -> Option<Bytes> {
    if text == "-" {
        return None;
    }
    let (times, hex) = match text.split_once('x') {
        Some((times, hex)) => (times.parse().expect("a number"), hex),
        None => (1, text.trim_matches('\'')),
    };
    let digits: Vec<u8> = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("hex is ASCII"))
        .map(|pair| u8::from_str_radix(pair, 16).expect("two hex digits"))
        .collect();
    Some(digits.repeat(times).into())
}

/// What the producer was given. Where kcat set the time, it is taken from what was read.
fn given(name: &str, read: &[Record]) -> Vec<Record> {
    let text = std::fs::read_to_string(fixtures().join(name)).expect("a fixture");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    (0..)
        .zip(lines)
        .map(|(offset, line)| {
            let mut fields = line.split(' ');
            let timestamp = match fields.next().expect("a timestamp") {
                "*" => read[usize::try_from(offset).expect("few records")].timestamp,
                number => Timestamp(number.parse().expect("a number")),
            };
            let key = field(fields.next().expect("a key"));
            let value = field(fields.next().expect("a value"));
            let mut headers = Vec::new();
            while let Some(header_key) = fields.next() {
                let header_value = field(fields.next().expect("a header value"));
                headers.push((field(header_key).expect("a header key"), header_value));
            }
            Record {
                offset: Offset::new(offset),
                timestamp,
                key,
                value,
                headers,
            }
        })
        .collect()
}

fn assert_reads(version: &str, kind: &str, codec: Codec) {
    let name = format!("librdkafka-{version}-{kind}");
    let bytes = std::fs::read(fixtures().join(format!("{name}.batch"))).expect("a fixture");
    let batch =
        Batch::parse(BytesMut::from(&bytes[..])).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(batch.codec(), codec, "{name}");
    let header = *batch.header();
    if kind == "idempotent" {
        let producer = (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        );
        assert_eq!(producer, (4242, 3, 0));
    } else {
        assert!(!header.has_producer_id(), "{name}");
    }
    // A librdkafka computes its max timestamp well.
    assert_eq!(
        batch.records_max_timestamp().0,
        header.max_timestamp,
        "{name}"
    );
    let place = Place {
        base_offset: Offset::ZERO,
        generation: Generation::FIRST,
        append_time: None,
    };
    let read = batch.place(place).records().expect("parsed before");
    assert_eq!(read, given(&format!("{name}.records"), &read), "{name}");
}

const KINDS: [(&str, Codec); 5] = [
    ("none", Codec::None),
    ("gzip", Codec::Gzip),
    ("snappy", Codec::Snappy),
    ("lz4", Codec::Lz4),
    ("zstd", Codec::Zstd),
];

#[test]
fn batches_of_librdkafka_2_16_are_read() {
    for (kind, codec) in KINDS {
        assert_reads("2.16.0", kind, codec);
    }
    assert_reads("2.16.0", "idempotent", Codec::Lz4);
}

#[test]
fn batches_of_kcat_with_librdkafka_2_0_are_read() {
    for (kind, codec) in KINDS {
        assert_reads("2.0.2", kind, codec);
    }
}
