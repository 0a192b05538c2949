//! Makes batches as a producer would.

use super::codec::Codec;
use super::compress::compress;
use super::header::Header;
use super::record::NewRecord;
use crate::Timestamp;
use bytes::BytesMut;

/// Makes batches, as a producer would.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    codec: Codec,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    records: Vec<NewRecord>,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchBuilder {
    /// A batch without records yet, uncompressed, of no producer id.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            codec: Codec::None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            records: Vec::new(),
        }
    }

    /// Compresses the records.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Sets the fields of an idempotent producer.
    #[must_use]
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.producer_id = id;
        self.producer_epoch = epoch;
        self.base_sequence = base_sequence;
        self
    }

    /// Adds a record without headers. `None` is null.
    #[must_use]
    pub fn record(
        mut self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Self {
        let (key, value) = (key.map(<[u8]>::to_vec), value.map(<[u8]>::to_vec));
        self.records.push(NewRecord {
            timestamp,
            key,
            value,
            headers: Vec::new(),
        });
        self
    }

    /// Adds a header to the record added last. Panics if there is none.
    #[must_use]
    pub fn header(mut self, key: &[u8], value: Option<&[u8]>) -> Self {
        let record = self
            .records
            .last_mut()
            .expect("a header belongs to a record");
        record
            .headers
            .push((key.to_vec(), value.map(<[u8]>::to_vec)));
        self
    }

    /// The bytes a producer would send: base offset 0, timestamps counted from the first record's.
    /// Panics without records, or where the batch or a part of it has 2^31 bytes or more.
    #[must_use]
    pub fn build(self) -> BytesMut {
        let first = self.records.first().expect("a batch has records");
        let base = first.timestamp;
        let max = self
            .records
            .iter()
            .map(|record| record.timestamp)
            .max()
            .unwrap_or(base);
        let mut records = Vec::new();
        let mut count = 0;
        for record in &self.records {
            record.write(base, count, &mut records);
            count = count
                .checked_add(1)
                .expect("a batch has fewer than 2^31 records");
        }
        let header = Header {
            base_offset: 0,
            length: 0,
            leader_epoch: -1,
            crc: 0,
            attributes: self.codec.id(),
            last_offset_delta: count - 1,
            base_timestamp: base.0,
            max_timestamp: max.0,
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: self.base_sequence,
            count,
        };
        let (_, bytes) = match self.codec {
            Codec::None => header.with_records(&records),
            codec => header.with_records(&compress(codec, &records)),
        };
        bytes
    }
}
