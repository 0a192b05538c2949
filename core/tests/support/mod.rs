//! What the tests of the batch share: records to try, and batches that lie with a good checksum.

#![allow(dead_code, reason = "each test uses its part")]

use bytes::{BufMut, BytesMut};
use felix_core::batch::{BatchBuilder, Codec, HEADER_BYTES, Record};
use felix_core::{Offset, Timestamp};
use proptest::prelude::*;

pub(crate) const CODECS: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

/// A record as a test gives it to a producer.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Given {
    /// What a reader has to get.
    pub(crate) fn expected(&self, offset: u64, append_time: Option<Timestamp>) -> Record {
        Record {
            offset: Offset::new(offset),
            timestamp: append_time.unwrap_or(Timestamp(self.timestamp)),
            key: self.key.clone().map(Into::into),
            value: self.value.clone().map(Into::into),
            headers: self
                .headers
                .iter()
                .map(|(key, value)| (key.clone().into(), value.clone().map(Into::into)))
                .collect(),
        }
    }
}

pub(crate) fn expected(given: &[Given], base: u64, append_time: Option<Timestamp>) -> Vec<Record> {
    (base..)
        .zip(given)
        .map(|(offset, one)| one.expected(offset, append_time))
        .collect()
}

pub(crate) fn build(given: &[Given], codec: Codec) -> BytesMut {
    let mut builder = BatchBuilder::new().codec(codec);
    for one in given {
        let timestamp = Timestamp(one.timestamp);
        builder = builder.record(timestamp, one.key.as_deref(), one.value.as_deref());
        for (key, value) in &one.headers {
            builder = builder.header(key.as_bytes(), value.as_deref());
        }
    }
    builder.build()
}

/// One small record.
pub(crate) fn one() -> Vec<Given> {
    vec![Given {
        timestamp: 1000,
        key: None,
        value: Some(b"value".to_vec()),
        headers: vec![],
    }]
}

/// Compressible and incompressible, null and empty, short and long.
fn bytes() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(Vec::new())),
        4 => proptest::collection::vec(any::<u8>(), 1..40).prop_map(Some),
        1 => (any::<u8>(), 1..100_000_usize).prop_map(|(byte, count)| Some(vec![byte; count])),
    ]
}

fn headers() -> impl Strategy<Value = Vec<(String, Option<Vec<u8>>)>> {
    proptest::collection::vec(("[a-z]{0,3}", bytes()), 0..4)
}

pub(crate) fn given() -> impl Strategy<Value = Vec<Given>> {
    let record = (-1..1_i64 << 42, bytes(), bytes(), headers()).prop_map(
        |(timestamp, key, value, headers)| Given {
            timestamp,
            key,
            value,
            headers,
        },
    );
    proptest::collection::vec(record, 1..20)
}

pub(crate) fn codec() -> impl Strategy<Value = Codec> {
    proptest::sample::select(CODECS.to_vec())
}

/// Corrects length and checksum, so that only the lie under test is found.
pub(crate) fn seal(batch: &mut BytesMut) {
    let length = u32::try_from(batch.len() - 12).expect("a test's batch is small");
    put(batch, 8, &length.to_be_bytes());
    let crc = crc32c::crc32c(batch.get(21..).expect("a batch has a header"));
    put(batch, 17, &crc.to_be_bytes());
}

/// Overwrites a part.
pub(crate) fn put(batch: &mut BytesMut, at: usize, bytes: &[u8]) {
    batch
        .get_mut(at..at + bytes.len())
        .expect("a batch has a header")
        .copy_from_slice(bytes);
}

/// A batch that says it has `count` records, with this body, whatever it is.
pub(crate) fn with_body(count: i32, codec: Codec, body: &[u8]) -> BytesMut {
    let mut batch = build(&one(), Codec::None);
    batch.truncate(HEADER_BYTES);
    batch.put_slice(body);
    put(&mut batch, 21, &codec.id().to_be_bytes());
    put(&mut batch, 23, &(count - 1).to_be_bytes());
    put(&mut batch, 57, &count.to_be_bytes());
    seal(&mut batch);
    batch
}

/// The uncompressed bytes of the records, without a header.
pub(crate) fn plain_records(given: &[Given]) -> Vec<u8> {
    build(given, Codec::None).split_off(HEADER_BYTES).to_vec()
}
