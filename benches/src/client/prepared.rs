//! Batches that are made once and sent many times.

use super::Problem;
use felix_core::Timestamp;
use felix_core::batch::crc::{ONE, multiply};
use felix_core::batch::{BatchBuilder, Codec, HEADER_BYTES};
use std::ops::Range;

// Where the fields that are stamped lie.
const CRC: Range<usize> = 17..21;
const CHECKSUMMED_HEADER: Range<usize> = 21..HEADER_BYTES;
const PRODUCER: Range<usize> = 43..57;

/// More than this no broker takes by default, and no figure needs.
const RECORDS_BYTES_MAX: usize = 256 << 20;

/// Puts records together.
#[derive(Debug)]
pub struct BatchMaker {
    builder: BatchBuilder,
    timestamp: Timestamp,
    records: i32,
    bytes: usize,
}

impl BatchMaker {
    /// A batch without records yet. All get this timestamp, in milliseconds since 1970.
    #[must_use]
    pub fn new(codec: Codec, timestamp_ms: i64) -> Self {
        Self {
            builder: BatchBuilder::new().codec(codec),
            timestamp: Timestamp(timestamp_ms),
            records: 0,
            bytes: 0,
        }
    }

    /// Adds a record. A key of `None` is null.
    #[must_use]
    pub fn record(mut self, key: Option<&[u8]>, value: &[u8]) -> Self {
        self.bytes += key.map_or(0, <[u8]>::len) + value.len();
        self.records = self.records.saturating_add(1);
        self.builder = self.builder.record(self.timestamp, key, Some(value));
        self
    }

    /// The batch, compressed.
    ///
    /// # Errors
    /// It has no records, or more bytes than any broker takes.
    pub fn prepare(self) -> Result<PreparedBatch, Problem> {
        if self.records == 0 {
            return Err(Problem::new("a batch needs at least one record"));
        }
        if self.bytes > RECORDS_BYTES_MAX {
            return Err(Problem::new(format!(
                "a batch of {} bytes is more than the {RECORDS_BYTES_MAX} that felix-bench sends; \
                 make its records fewer or smaller",
                self.bytes
            )));
        }
        Ok(PreparedBatch::new(
            self.builder.build().to_vec(),
            self.records,
        ))
    }
}

/// A whole batch as a producer sends it. Its producer fields can be set again and again, without
/// reading its records.
#[derive(Clone, Debug)]
pub struct PreparedBatch {
    bytes: Vec<u8>,
    records: i32,
    /// The checksum of what follows the header.
    records_crc: u32,
    /// What that many bytes do to a checksum in front of them.
    shift: u32,
}

impl PreparedBatch {
    fn new(bytes: Vec<u8>, records: i32) -> Self {
        let body = bytes.get(HEADER_BYTES..).expect("a batch has a header");
        let records_crc = crc32c::crc32c(body);
        // Found once: the library that combines checksums finds it anew each time, in microseconds.
        let shift = crc32c::crc32c_combine(ONE, 0, body.len());
        Self {
            bytes,
            records,
            records_crc,
            shift,
        }
    }

    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Records in it: by so much the sequence moves on.
    #[must_use]
    pub const fn records(&self) -> i32 {
        self.records
    }

    /// Sets the fields of an idempotent producer and the checksum that follows from them.
    pub fn stamp_producer(&mut self, producer_id: i64, epoch: i16, base_sequence: i32) {
        let mut producer = [0; PRODUCER.end - PRODUCER.start];
        let (id, rest) = producer.split_at_mut(8);
        let (of_epoch, sequence) = rest.split_at_mut(2);
        id.copy_from_slice(&producer_id.to_be_bytes());
        of_epoch.copy_from_slice(&epoch.to_be_bytes());
        sequence.copy_from_slice(&base_sequence.to_be_bytes());
        self.field(PRODUCER).copy_from_slice(&producer);

        let header_crc = crc32c::crc32c(self.field(CHECKSUMMED_HEADER));
        let crc = multiply(self.shift, header_crc) ^ self.records_crc;
        self.field(CRC).copy_from_slice(&crc.to_be_bytes());
    }

    fn field(&mut self, field: Range<usize>) -> &mut [u8] {
        self.bytes.get_mut(field).expect("a batch has a header")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{Bytes, BytesMut};
    use felix_core::batch::Batch;
    use kafka_protocol::records::RecordBatchDecoder;

    const CODECS: [Codec; 5] = [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ];
    const NOW: i64 = 1_700_000_000_000;

    /// Compressible, and longer than a block of any codec.
    fn large() -> Vec<u8> {
        (0..200_000_u32).map(|n| (n / 7 % 251) as u8).collect()
    }

    fn prepared(codec: Codec) -> PreparedBatch {
        BatchMaker::new(codec, NOW)
            .record(None, b"first")
            .record(Some(b"key"), &large())
            .record(Some(b""), b"")
            .prepare()
            .unwrap()
    }

    #[test]
    fn records_of_every_codec_are_read_by_kafka_and_by_felix() {
        for codec in CODECS {
            let batch = prepared(codec);
            assert_eq!(batch.records(), 3);
            let parsed = Batch::parse(BytesMut::from(batch.bytes())).unwrap();
            assert_eq!((parsed.codec(), parsed.offsets()), (codec, 3));
            assert_eq!(parsed.records_max_timestamp(), Timestamp(NOW));

            let mut bytes = Bytes::copy_from_slice(batch.bytes());
            let set = RecordBatchDecoder::decode(&mut bytes).unwrap();
            let read = set.records.iter();
            let read = read.map(|record| (record.key.as_deref(), record.value.as_deref()));
            let large = large();
            assert_eq!(
                read.collect::<Vec<_>>(),
                [
                    (None, Some(&b"first"[..])),
                    (Some(&b"key"[..]), Some(&large[..])),
                    (Some(&b""[..]), Some(&b""[..])),
                ],
                "{codec}"
            );
            assert!(set.records.iter().all(|record| record.timestamp == NOW));
            if codec != Codec::None {
                assert!(batch.bytes().len() < large.len(), "{codec} compresses");
            }
        }
    }

    #[test]
    fn a_stamp_makes_the_batch_that_would_have_been_built_with_it() {
        for codec in CODECS {
            let mut batch = prepared(codec);
            for (id, epoch, sequence) in [
                (0, 0, 0),
                (i64::MAX, i16::MAX, i32::MAX),
                (4711, 3, 1 << 20),
                (-1, -1, -1),
            ] {
                batch.stamp_producer(id, epoch, sequence);
                let built = BatchBuilder::new()
                    .codec(codec)
                    .producer(id, epoch, sequence)
                    .record(Timestamp(NOW), None, Some(b"first"))
                    .record(Timestamp(NOW), Some(b"key"), Some(&large()))
                    .record(Timestamp(NOW), Some(b""), Some(b""))
                    .build();
                assert!(batch.bytes() == built, "{codec} {id} {epoch} {sequence}");
            }
        }
    }

    #[test]
    fn a_stamp_does_not_bless_damage_in_the_records() {
        let mut batch = prepared(Codec::None);
        *batch.bytes.last_mut().unwrap() ^= 1;
        batch.stamp_producer(1, 2, 3);
        assert!(Batch::parse(BytesMut::from(batch.bytes())).is_err());
    }

    #[test]
    fn a_batch_without_records_is_refused() {
        let problem = BatchMaker::new(Codec::None, NOW).prepare().unwrap_err();
        assert!(problem.to_string().contains("at least one record"));
    }
}
