//! Batches that are sent, and how they are read by somebody else.

use bytes::Bytes;
use felix_bench::client::{BatchMaker, PreparedBatch};
use felix_core::batch::Codec;
use felix_tests::wall_ms;
use kafka_protocol::records::RecordBatchDecoder;

pub(crate) const CODECS: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

/// Records in a [`batch`].
pub(crate) const RECORDS: u32 = 3;

/// Key and value of each record of a [`batch`].
pub(crate) fn records() -> Vec<(Option<Vec<u8>>, Vec<u8>)> {
    let repeated = b"value ".repeat(10_000);
    vec![
        (None, b"first".to_vec()),
        (Some(b"key".to_vec()), repeated),
        (Some(Vec::new()), Vec::new()),
    ]
}

/// A batch of [`records`].
pub(crate) fn batch(codec: Codec) -> PreparedBatch {
    let records = records();
    let maker = records
        .iter()
        .fold(BatchMaker::new(codec, wall_ms()), |maker, (key, value)| {
            maker.record(key.as_deref(), value)
        });
    let batch = maker.prepare().unwrap();
    assert_eq!(u32::try_from(batch.records()), Ok(RECORDS));
    batch
}

/// One record, nearly as large as brokers take by default.
pub(crate) fn large_batch() -> PreparedBatch {
    let value = vec![0x5a; 1_000_000];
    let maker = BatchMaker::new(Codec::None, wall_ms());
    maker.record(None, &value).prepare().unwrap()
}

/// Key and value of each record in the batches of a fetch, as an independent implementation reads
/// them.
pub(crate) fn values(batches: &[u8]) -> Vec<(Option<Vec<u8>>, Vec<u8>)> {
    let mut bytes = Bytes::copy_from_slice(batches);
    let sets = RecordBatchDecoder::decode_all(&mut bytes).unwrap();
    let records = sets.into_iter().flat_map(|set| set.records);
    let of = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.to_vec());
    records
        .map(|record| (of(record.key), of(record.value).unwrap()))
        .collect()
}
