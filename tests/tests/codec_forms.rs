//! A batch is stored as its producer compressed it, and codecs have forms that not every consumer
//! reads. Each form that is accepted is read here by kcat, by confluent-kafka and by Kafka's own
//! decoders; each that one of the common consumers would be stuck at is refused.

use bytes::Bytes;
use felix_core::Timestamp;
use felix_core::batch::{BatchBuilder, Codec};
use felix_tests::wire::{Wire, produce_request};
use felix_tests::{Broker, Record, Stream, dump_log, kcat, python};
use kafka_protocol::messages::ProduceRequest;
use lz4_flex::frame::{BlockMode, BlockSize, FrameInfo};
use std::io::Write;

const TOPIC: &str = "codecs.forms";
const INVALID_RECORD: i16 = 87;
const HEADER_BYTES: usize = 61;

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(body).expect("memory");
    out.finish().expect("memory")
}

fn xerial(body: &[u8], version: [u8; 8]) -> Vec<u8> {
    let mut out = [&b"\x82SNAPPY\0"[..], &version].concat();
    for block in body.chunks(32 << 10) {
        let block = snappy_raw(block);
        let length = u32::try_from(block.len()).expect("short");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&block);
    }
    out
}

const BIG_ENDIAN: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
const LITTLE_ENDIAN: [u8; 8] = [1, 0, 0, 0, 1, 0, 0, 0];

fn snappy_raw(body: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(body).expect("short")
}

fn lz4(body: &[u8], info: FrameInfo) -> Vec<u8> {
    let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    out.write_all(body).expect("memory");
    out.finish().expect("memory")
}

fn zstd(body: &[u8], window_log: u32) -> Vec<u8> {
    let mut out = zstd::stream::Encoder::new(Vec::new(), 1).expect("memory");
    out.window_log(window_log).expect("a window that exists");
    out.write_all(body).expect("memory");
    out.finish().expect("memory")
}

/// A form of a codec: its name, and what makes it of records.
type Form = (&'static str, Codec, fn(&[u8]) -> Vec<u8>);

/// Every form that is accepted. The records are longer than a block of any of them but the largest.
const ACCEPTED: &[Form] = &[
    ("none", Codec::None, |body| body.to_vec()),
    ("gzip, one member", Codec::Gzip, gzip),
    ("snappy, raw", Codec::Snappy, snappy_raw),
    ("snappy, xerial", Codec::Snappy, |body| {
        xerial(body, BIG_ENDIAN)
    }),
    (
        "snappy, xerial, version in the other order",
        Codec::Snappy,
        |body| xerial(body, LITTLE_ENDIAN),
    ),
    ("lz4, 64 KiB", Codec::Lz4, |body| {
        lz4(body, FrameInfo::new().block_size(BlockSize::Max64KB))
    }),
    ("lz4, 256 KiB, checksums", Codec::Lz4, |body| {
        let info = FrameInfo::new().block_size(BlockSize::Max256KB);
        lz4(body, info.block_checksums(true).content_checksum(true))
    }),
    ("lz4, 1 MiB, size", Codec::Lz4, |body| {
        let size = u64::try_from(body.len()).expect("short");
        let info = FrameInfo::new().block_size(BlockSize::Max1MB);
        lz4(body, info.content_size(Some(size)))
    }),
    ("lz4, 4 MiB", Codec::Lz4, |body| {
        lz4(body, FrameInfo::new().block_size(BlockSize::Max4MB))
    }),
    ("zstd, size known", Codec::Zstd, |body| {
        zstd::bulk::compress(body, 3).expect("memory")
    }),
    ("zstd, small window", Codec::Zstd, |body| zstd(body, 17)),
    ("zstd, largest window", Codec::Zstd, |body| zstd(body, 27)),
    ("zstd, two frames", Codec::Zstd, |body| {
        let (head, tail) = body.split_at(1000);
        [zstd(head, 17), zstd(tail, 17)].concat()
    }),
];

/// Every form that makes sense and is refused, which the broker's tests of single batches say more
/// of.
const REFUSED: &[Form] = &[
    ("several members", Codec::Gzip, |body| {
        let (head, tail) = body.split_at(1000);
        [gzip(head), gzip(tail)].concat()
    }),
    ("several streams", Codec::Snappy, |body| {
        let (head, tail) = body.split_at(1000);
        [xerial(head, BIG_ENDIAN), xerial(tail, BIG_ENDIAN)].concat()
    }),
    ("block-independent", Codec::Lz4, |body| {
        lz4(body, FrameInfo::new().block_mode(BlockMode::Linked))
    }),
    ("a window beyond", Codec::Zstd, |body| {
        let mut frame = zstd(body, 27);
        // Behind the magic and the descriptor: the logarithm, less 10, above three bits.
        assert_eq!(frame[5], (27 - 10) << 3);
        frame[5] = (28 - 10) << 3;
        frame
    }),
];

/// The values of a form's batch: some repeat, some do not.
fn values(name: &str) -> Vec<Vec<u8>> {
    let mut seed = 1_u32;
    let mut noise = move || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Letters, so that tools that print lines print these.
        b'a' + u8::try_from(seed >> 24).expect("one byte") % 26
    };
    let noisy = (0..20).map(|row| (0..8000 + row).map(|_| noise()).collect());
    let plain = (0..20).map(|row| format!("{name} {row}").repeat(500).into_bytes());
    noisy.chain(plain).collect()
}

/// The batch of a form, with a header that fits.
fn batch(&(name, codec, compress): &Form) -> Bytes {
    let values = values(name);
    let mut builder = BatchBuilder::new();
    for value in &values {
        builder = builder.record(Timestamp(1000), None, Some(value));
    }
    let plain = builder.build();
    let (header, records) = plain.split_at(HEADER_BYTES);
    let mut batch = [header, &compress(records)].concat();
    let length = u32::try_from(batch.len() - 12).expect("short");
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[21..23].copy_from_slice(&codec.id().to_be_bytes());
    let checksum = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
    batch.into()
}

/// Writes a batch: error code and sentence.
fn produce(wire: &mut Wire, records: Bytes) -> (i16, String) {
    const VERSION: i16 = 9;
    let request = produce_request(TOPIC, 0, records);
    wire.send(&request, VERSION).expect("the broker reads");
    let answer = wire.receive::<ProduceRequest>(VERSION);
    let place = &answer.responses[0].partition_responses[0];
    let sentence = place.error_message.as_ref().map(ToString::to_string);
    (place.error_code, sentence.unwrap_or_default())
}

fn assert_values(found: &[Record], reader: &str) {
    let expected = ACCEPTED
        .iter()
        .flat_map(|(name, ..)| values(name).into_iter().map(move |value| (name, value)));
    let mut found = found.iter();
    for (name, value) in expected {
        let record = found.next().unwrap_or_else(|| panic!("{reader}: {name}"));
        assert!(record.value == value, "{reader}: {name}");
    }
    assert_eq!(found.count(), 0);
}

#[test]
fn every_form_that_is_accepted_is_read_by_every_common_consumer() {
    let mut broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let mut wire = Wire::connect(broker.port());
    for form in ACCEPTED {
        assert_eq!(
            produce(&mut wire, batch(form)),
            (0, String::new()),
            "{}",
            form.0
        );
    }
    let bootstrap = broker.bootstrap();
    assert_values(&kcat::read_all(&bootstrap, TOPIC), "kcat");
    let read = python::run("consume.py", &[&bootstrap, TOPIC], None);
    assert_values(&Record::parse_all(&read.stdout), "confluent-kafka");

    // The decoders of Kafka's Java clients.
    drop(wire);
    assert!(broker.terminate().success());
    let files = std::fs::read_dir(broker.shard_dir(TOPIC, 0)).expect("it is there");
    let mut files: Vec<_> = files
        .map(|entry| entry.expect("it is there").path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "log"));
    let dump = dump_log::run(&files, &["--deep-iteration", "--print-data-log"]);
    assert!(dump.complaints.is_empty(), "{:#?}", dump.complaints);
    let dumped = dump.records().into_iter().map(|record| record.value);
    let sent = ACCEPTED.iter().flat_map(|(name, ..)| values(name));
    assert!(dumped.eq(sent), "kafka-dump-log");
}

#[test]
fn every_form_that_some_consumer_is_stuck_at_is_refused_with_what_to_set() {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let mut wire = Wire::connect(broker.port());
    for form in REFUSED {
        let (words, codec, _) = form;
        let (error, sentence) = produce(&mut wire, batch(form));
        assert_eq!(error, INVALID_RECORD, "{words}: {sentence}");
        assert!(sentence.contains(words), "{sentence}");
        assert!(sentence.contains(&codec.to_string()), "{sentence}");
        assert!(sentence.contains(": set the producer to "), "{sentence}");
    }
    let answer = wire.fetch(TOPIC, 0, 0, 0);
    assert_eq!(answer.responses[0].partitions[0].high_watermark, 0);
}

/// Has Kafka's own tool decode a refused form from a log file.
fn decoded_by_java(codec: Codec) {
    let form = REFUSED.iter().find(|form| form.1 == codec);
    let folder = tempfile::tempdir().expect("a place for a log");
    let log = folder.path().join("00000000000000000000.log");
    std::fs::write(&log, batch(form.expect("it has such a form"))).expect("it is small");
    drop(dump_log::run(&[log], &["--deep-iteration"]));
}

#[test]
#[should_panic(expected = "Dependent block stream is unsupported")]
fn lz4_blocks_that_are_linked_stop_javas_decoder() {
    decoded_by_java(Codec::Lz4);
}

#[test]
#[should_panic(expected = "Frame requires too much memory")]
fn a_zstd_window_beyond_the_bound_stops_javas_decoder() {
    decoded_by_java(Codec::Zstd);
}
