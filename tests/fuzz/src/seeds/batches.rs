//! Batches: of librdkafka, of our own builder, and lies with a good checksum.

use super::Seed;
use super::bombs::{bomb, compress};
use crate::targets::codec::CODECS;
use bytes::{BufMut, Bytes, BytesMut};
use felix_core::batch::{BatchBuilder, Codec, HEADER_BYTES, Place};
use felix_core::limits::BATCH_DECOMPRESSED_BYTES_MAX;
use felix_core::{Batch, Generation, Offset, PlacedBatch, Timestamp};
use std::fs;
use std::path::Path;

const BOMB_BYTES: usize = BATCH_DECOMPRESSED_BYTES_MAX + 1;

/// A bomb larger than this is made by tests as they run, and not kept.
const KEPT_BYTES_MAX: usize = 20 << 10;

/// Corrects length and checksum, so that only the lie under test is found.
pub fn seal(batch: &mut BytesMut) {
    let length = u32::try_from(batch.len() - 12).expect("a batch is small");
    put(batch, 8, &length.to_be_bytes());
    let sum = crc32c::crc32c(&batch[21..]);
    put(batch, 17, &sum.to_be_bytes());
}

/// Overwrites a part.
pub fn put(batch: &mut [u8], at: usize, bytes: &[u8]) {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A batch that says it has `count` records, around this body, whatever it is.
#[must_use]
pub fn around(count: i32, codec: Codec, body: &[u8]) -> BytesMut {
    let mut batch = plain(1, Codec::None);
    batch.truncate(HEADER_BYTES);
    batch.put_slice(body);
    put(&mut batch, 21, &codec.id().to_be_bytes());
    put(&mut batch, 23, &(count - 1).to_be_bytes());
    put(&mut batch, 57, &count.to_be_bytes());
    seal(&mut batch);
    batch
}

/// A batch of records of every shape.
#[must_use]
pub fn plain(records: i64, codec: Codec) -> BytesMut {
    let mut builder = BatchBuilder::new().codec(codec);
    for number in 0..records {
        let time = Timestamp(1_700_000_000_000 + number);
        builder = match number % 3 {
            0 => builder.record(time, Some(b"key"), Some(&[b'v'; 40])),
            1 => builder.record(time, None, Some(b"")).header(b"h", None),
            _ => builder
                .record(time, Some(b""), None)
                .header(b"", Some(b"value")),
        };
    }
    builder.build()
}

/// Every batch that was captured from a real client.
fn captured() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/tests/fixtures");
    let files = fs::read_dir(folder).expect("the fixtures are there");
    let paths = files.map(|file| file.expect("the folder can be read").path());
    paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "batch"))
        .map(|path| {
            let name = path.file_stem().expect("it has a name").to_string_lossy();
            (name.into_owned(), fs::read(&path).expect("it can be read"))
        })
        .collect()
}

fn changed(at: usize, bytes: &[u8]) -> BytesMut {
    let mut batch = plain(2, Codec::None);
    put(&mut batch, at, bytes);
    let sum = crc32c::crc32c(&batch[21..]);
    put(&mut batch, 17, &sum.to_be_bytes());
    batch
}

/// Single lies in a header, each under a good checksum; all are refused.
#[must_use]
pub fn lies() -> Vec<(&'static str, BytesMut)> {
    let huge = i32::MAX.to_be_bytes();
    let mut wrong_sum = plain(2, Codec::None);
    wrong_sum[17] ^= 1;
    let mut cut = plain(2, Codec::None);
    cut.truncate(cut.len() - 1);
    let mut twice = plain(2, Codec::None);
    twice.extend_from_slice(&plain(2, Codec::None));
    vec![
        ("base-offset", changed(0, &7_i64.to_be_bytes())),
        ("length-huge", changed(8, &huge)),
        ("length-negative", changed(8, &(-1_i32).to_be_bytes())),
        ("length-short", changed(8, &48_i32.to_be_bytes())),
        ("magic-0", changed(16, &[0])),
        ("magic-1", changed(16, &[1])),
        ("magic-3", changed(16, &[3])),
        ("checksum", wrong_sum),
        ("codec-unknown", changed(21, &[0, 5])),
        ("append-time", changed(21, &[0, 8])),
        ("transactional", changed(21, &[0, 16])),
        ("control", changed(21, &[0, 32])),
        ("delete-horizon", changed(21, &[0, 64])),
        ("attributes-unknown", changed(21, &[0x80, 0])),
        ("last-delta-huge", changed(23, &huge)),
        (
            "producer-without-sequence",
            changed(43, &5_i64.to_be_bytes()),
        ),
        ("count-huge", changed(57, &huge)),
        ("count-negative", changed(57, &(-1_i32).to_be_bytes())),
        ("count-and-delta-huge", around(i32::MAX, Codec::None, b"\0")),
        ("cut", cut),
        ("twice", twice),
        ("zeros", BytesMut::zeroed(100)),
        ("empty", BytesMut::new()),
    ]
}

/// As clients send them.
#[must_use]
pub fn clients() -> Vec<Seed> {
    let captured = captured()
        .into_iter()
        .map(|(name, bytes)| Seed::ok(name, bytes));
    let ours = CODECS.map(|codec| Seed::ok(format!("plain-{codec}"), plain(5, codec)));
    let lies = lies()
        .into_iter()
        .map(|(name, bytes)| Seed::bad(name, bytes));
    captured.chain(ours).chain(lies).collect()
}

/// A codec, a number of records, and what the codec is given.
#[must_use]
pub fn compressed() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (id, codec) in (0_u8..).zip(CODECS) {
        let body = |bytes: &[u8]| [&[id, 2], bytes].concat();
        let records = plain(2, Codec::None).split_off(HEADER_BYTES);
        let whole = compress(codec, &records).unwrap_or_else(|| records.to_vec());
        seeds.push(Seed::ok(format!("{codec}"), body(&whole)));
        if codec == Codec::None {
            continue;
        }
        seeds.push(Seed::bad(
            format!("{codec}-cut"),
            body(&whole[..whole.len() - 1]),
        ));
        seeds.push(Seed::bad(format!("{codec}-empty"), body(b"")));
        let bomb = bomb(codec, BOMB_BYTES).expect("the codec compresses");
        if bomb.len() <= KEPT_BYTES_MAX {
            seeds.push(Seed::bad(format!("{codec}-bomb"), body(&bomb)));
        }
        let captured = captured();
        let ends = format!("2.16.0-{codec}");
        if let Some((_, batch)) = captured.iter().find(|(name, _)| name.ends_with(&ends)) {
            seeds.push(Seed::ok(
                format!("{codec}-client"),
                body(&batch[HEADER_BYTES..]),
            ));
        }
    }
    // Snappy as Java clients frame it, and a block that says it holds four thousand million bytes.
    let block = compress(Codec::Snappy, b"block of snappy").expect("the codec compresses");
    let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    framed.put_u32(block.len().try_into().expect("it is small"));
    framed.extend_from_slice(&block);
    seeds.push(Seed::ok("snappy-java", [&[2, 1], &framed[..]].concat()));
    seeds.push(Seed::bad(
        "snappy-declares",
        [2, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0],
    ));
    seeds
}

/// One batch in its place.
#[must_use]
pub fn place(bytes: BytesMut, base: u64) -> Bytes {
    let place = Place {
        base_offset: Offset::new(base),
        generation: Generation::new(3),
        append_time: Some(Timestamp(1_700_000_000_500)),
    };
    let batch = Batch::parse(bytes).expect("the seed is valid");
    batch.place(place).bytes().clone()
}

/// As they lie in a log.
#[must_use]
pub fn placed() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = CODECS
        .map(|codec| Seed::ok(format!("{codec}"), &place(plain(4, codec), 100)[..]))
        .into();
    let start = PlacedBatch::generation_start(Offset::new(9), Generation::new(4), Timestamp(5));
    seeds.push(Seed::ok("generation-start", &start.bytes()[..]));
    let both = [&start.bytes()[..], &place(plain(2, Codec::None), 10)].concat();
    seeds.push(Seed::ok("two", both.clone()));
    seeds.push(Seed::bad("torn", &both[..both.len() - 1]));
    seeds.push(Seed::bad("prepared", [&both[..], &[0; 64]].concat()));
    for (name, bytes) in lies()
        .into_iter()
        .filter(|(name, _)| *name != "base-offset")
    {
        // A header may lie about its number of records here, as compacted batches do.
        seeds.push(Seed {
            name: format!("lie-{name}"),
            bytes: bytes.to_vec(),
        });
    }
    seeds
}
