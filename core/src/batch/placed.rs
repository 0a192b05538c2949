//! A batch in its place in a log.

use super::decompress::decompress_shared;
use super::error::BatchError;
use super::header::{self, HEADER_BYTES, Header};
use super::record::{self, NewRecord, Record};
use crate::limits::BATCH_DECOMPRESSED_BYTES_MAX;
use crate::{Generation, Offset, Timestamp};
use bytes::Bytes;

/// A batch in its place: what is stored, replicated and fetched. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PlacedBatch {
    bytes: Bytes,
    header: Header,
}

impl PlacedBatch {
    pub(super) fn new(bytes: Bytes, header: Header) -> Self {
        assert_eq!(bytes.len(), header.size());
        assert_eq!(header.check_placed(), Ok(()));
        Self { bytes, header }
    }

    /// The batch at the start of `bytes`, lengths, place and checksum verified; the rest stays
    /// behind. On an error `bytes` is as before. The records are not looked into.
    ///
    /// # Errors
    /// The bytes do not begin with a valid batch. `Empty` and `Zeros` are the clean end of a log,
    /// `Truncated` is a batch that is not all there; anything else is damage.
    pub fn split_from(bytes: &mut Bytes) -> Result<Self, BatchError> {
        let header = Header::read(bytes)?;
        let needed = header.size();
        if bytes.len() < needed {
            return Err(BatchError::Truncated {
                needed,
                present: bytes.len(),
            });
        }
        header::check_checksum(&header, &bytes.slice(..needed))?;
        header.check_placed()?;
        Ok(Self {
            bytes: bytes.split_to(needed),
            header,
        })
    }

    /// The control batch that begins a generation on a log that is not empty, taking one offset:
    /// LEADER_CHANGE as Kafka's own log writes it (KIP-595), naming no leader and no voters.
    #[must_use]
    pub fn generation_start(base: Offset, generation: Generation, now: Timestamp) -> Self {
        // Key: version 0, type 2. Value: version 0, leader -1, voters, granting voters (compact
        // arrays, empty), no tagged fields.
        const KEY: [u8; 4] = [0, 0, 0, 2];
        const VALUE: [u8; 9] = [0, 0, 0xff, 0xff, 0xff, 0xff, 1, 1, 0];
        let record = NewRecord {
            timestamp: now,
            key: Some(KEY.to_vec()),
            value: Some(VALUE.to_vec()),
            headers: Vec::new(),
        };
        let mut records = Vec::new();
        record.write(now, 0, &mut records);
        let header = Header {
            base_offset: base.to_wire(),
            length: 0,
            leader_epoch: generation.to_wire(),
            crc: 0,
            attributes: header::CONTROL,
            last_offset_delta: 0,
            base_timestamp: now.0,
            max_timestamp: now.0,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            count: 1,
        };
        let (header, bytes) = header.with_records(&records);
        Self::new(bytes.freeze(), header)
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Offset of the first record.
    #[must_use]
    pub fn base_offset(&self) -> Offset {
        self.offset_range().0
    }

    /// Offset of the last record.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.offset_range().1
    }

    fn offset_range(&self) -> (Offset, Offset) {
        self.header
            .offset_range()
            .expect("checked when the batch was placed")
    }

    /// Offset after the last record.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.last_offset().after(1)
    }

    /// The generation that placed it.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation::from_wire(self.header.leader_epoch).expect("checked when the batch was placed")
    }

    /// The greatest timestamp.
    #[must_use]
    pub fn max_timestamp(&self) -> Timestamp {
        Timestamp(self.header.max_timestamp)
    }

    /// Whether it holds a marker instead of data.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.header.is_control()
    }

    /// Its records, decompressed. Of an uncompressed batch they share its bytes. A marker is a
    /// record too.
    ///
    /// # Errors
    /// The records are not what the header says.
    pub fn records(&self) -> Result<Vec<Record>, BatchError> {
        let codec = self.header.codec()?;
        let records = self.bytes.slice(HEADER_BYTES..);
        let records = decompress_shared(codec, &records, BATCH_DECOMPRESSED_BYTES_MAX)?;
        record::read_placed(&self.header, self.base_offset(), &records)
    }

    /// Offset and timestamp of the first record at this timestamp or later, keeping no record.
    ///
    /// # Errors
    /// The records are not what the header says; `DecompressedTooLarge` where to get them is more
    /// work than that of `work_bytes_max` ([`BATCH_DECOMPRESSED_BYTES_MAX`] at most).
    pub fn first_at_or_after(
        &self,
        wanted: Timestamp,
        work_bytes_max: usize,
    ) -> Result<Option<(Offset, Timestamp)>, BatchError> {
        let mut found = None;
        self.visit(work_bytes_max, |offset, timestamp| {
            if found.is_none() && timestamp >= wanted {
                found = Some((offset, timestamp));
            }
        })?;
        Ok(found)
    }

    /// Offset and timestamp of the first record that has the greatest timestamp, keeping no record.
    ///
    /// # Errors
    /// As [`PlacedBatch::first_at_or_after`].
    pub fn first_of_greatest(
        &self,
        work_bytes_max: usize,
    ) -> Result<Option<(Offset, Timestamp)>, BatchError> {
        let mut found: Option<(Offset, Timestamp)> = None;
        self.visit(work_bytes_max, |offset, timestamp| {
            if found.is_none_or(|(_, greatest)| timestamp > greatest) {
                found = Some((offset, timestamp));
            }
        })?;
        Ok(found)
    }

    fn visit(
        &self,
        work_bytes_max: usize,
        visit: impl FnMut(Offset, Timestamp),
    ) -> Result<(), BatchError> {
        let codec = self.header.codec()?;
        let records = self.bytes.slice(HEADER_BYTES..);
        let records = decompress_shared(codec, &records, work_bytes_max)?;
        record::visit_placed(&self.header, self.base_offset(), &records, visit)
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test knows what it has built")]
mod tests {
    use super::*;
    use bytes::Buf;
    use kafka_protocol::messages::LeaderChangeMessage;
    use kafka_protocol::protocol::Decodable;
    use kafka_protocol::records::RecordBatchDecoder;

    #[test]
    fn a_generation_starts_with_a_leader_change_that_kafka_reads() {
        let start =
            PlacedBatch::generation_start(Offset::new(90), Generation::new(4), Timestamp(1234));
        assert!(start.is_control());
        assert_eq!(start.generation(), Generation::new(4));
        assert_eq!(
            (start.base_offset(), start.next_offset()),
            (Offset::new(90), Offset::new(91))
        );
        assert!(!start.header().has_producer_id());
        let stored = PlacedBatch::split_from(&mut start.bytes().clone()).unwrap();
        assert_eq!(stored.header(), start.header());
        assert_eq!(stored.records().unwrap()[0].timestamp, Timestamp(1234));

        let set = RecordBatchDecoder::decode(&mut start.bytes().clone()).unwrap();
        let [record] = &set.records[..] else {
            panic!("one record")
        };
        assert!(record.control);
        assert_eq!((record.offset, record.partition_leader_epoch), (90, 4));
        assert_eq!(record.key.as_deref(), Some(&[0, 0, 0, 2][..]));
        let mut value = record.value.clone().unwrap();
        let message = LeaderChangeMessage::decode(&mut value, 0).unwrap();
        assert!(!value.has_remaining());
        assert_eq!(message.leader_id.0, -1);
        assert!(message.voters.is_empty());
        assert!(message.granting_voters.is_empty());
    }
}
