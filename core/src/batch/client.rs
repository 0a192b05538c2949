//! A batch as a client sends it, before it has a place in a log.

use super::codec::Codec;
use super::crc;
use super::decompress::decompress;
use super::error::BatchError;
use super::header::{self, Header};
use super::placed::PlacedBatch;
use super::record;
use crate::{Generation, Offset, Timestamp};
use bytes::BytesMut;

/// A client's batch that passed every rule and awaits its place.
#[derive(Debug)]
pub struct Batch {
    bytes: BytesMut,
    header: Header,
    codec: Codec,
    /// Computed from the records, never believed from the header.
    records_max_timestamp: Timestamp,
}

/// The place a log gives a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// The generation of the leader that places it.
    pub generation: Generation,
    /// Set for append-time streams: becomes every record's timestamp.
    pub append_time: Option<Timestamp>,
}

impl Batch {
    /// Parses what a client sent for one partition: exactly one batch, every rule checked, its
    /// records decompressed for the purpose and dropped again.
    ///
    /// # Errors
    /// The rule it broke.
    pub fn parse(bytes: BytesMut) -> Result<Self, BatchError> {
        let header = Header::read(&bytes)?;
        let (needed, present) = (header.size(), bytes.len());
        if present < needed {
            return Err(BatchError::Truncated { needed, present });
        }
        if present > needed {
            return Err(BatchError::Trailing {
                bytes: present - needed,
            });
        }
        header::check_checksum(&header, &bytes)?;
        header.check_client()?;
        let codec = header.codec()?;
        let records = decompress(codec, header::records_of(&bytes))?;
        let records_max_timestamp = record::check_client(&header, &records)?;
        Ok(Self {
            bytes,
            header,
            codec,
            records_max_timestamp,
        })
    }

    /// The header, as the client sent it.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How its records are compressed.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Bytes of the whole batch.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Offsets the batch takes: its number of records.
    #[must_use]
    pub fn offsets(&self) -> u64 {
        u64::try_from(self.header.count).expect("a parsed batch has records")
    }

    /// The greatest timestamp among its records; -1 where none has one.
    #[must_use]
    pub fn records_max_timestamp(&self) -> Timestamp {
        self.records_max_timestamp
    }

    /// Gives the batch its place: patches base offset, leader epoch, max timestamp and, for
    /// append-time streams, the timestamp type. The checksum is combined, not computed again: a
    /// bit that has flipped since it was checked is still found afterwards.
    ///
    /// Panics where the offsets would leave the range of the wire.
    #[must_use]
    pub fn place(mut self, place: Place) -> PlacedBatch {
        let old = self.header;
        let mut new = old;
        new.base_offset = place.base_offset.to_wire();
        new.leader_epoch = place.generation.to_wire();
        new.max_timestamp = self.records_max_timestamp.0;
        if let Some(append_time) = place.append_time {
            new.max_timestamp = append_time.0;
            new.attributes |= header::APPEND_TIME;
        }
        self.patch_under_checksum(&old, &mut new);
        self.patch(header::BASE_OFFSET, &new.base_offset.to_be_bytes());
        self.patch(header::LEADER_EPOCH, &new.leader_epoch.to_be_bytes());
        PlacedBatch::new(self.bytes.freeze(), new)
    }

    fn patch(&mut self, field: std::ops::Range<usize>, value: &[u8]) {
        header::field_mut(&mut self.bytes, field).copy_from_slice(value);
    }

    /// Flips the bits in which the two headers differ between attributes and max timestamp, and
    /// those of the checksum that follow from it. Flipped, not written: a field that was damaged
    /// stays damaged and is found.
    fn patch_under_checksum(&mut self, old: &Header, new: &mut Header) {
        let attributes = (old.attributes ^ new.attributes).to_be_bytes();
        let max_timestamp = (old.max_timestamp ^ new.max_timestamp).to_be_bytes();
        if attributes == [0; 2] && max_timestamp == [0; 8] {
            return;
        }
        // From the attributes up to the end of the max timestamp: 22 bytes.
        let mut change = [0; header::MAX_TIMESTAMP.end - header::ATTRIBUTES.start];
        let (head, middle) = change.split_at_mut(attributes.len());
        let (_, tail) = middle.split_at_mut(middle.len() - max_timestamp.len());
        head.copy_from_slice(&attributes);
        tail.copy_from_slice(&max_timestamp);

        let following = u32::try_from(self.bytes.len() - header::MAX_TIMESTAMP.end)
            .expect("the length of a batch fits 31 bits");
        new.crc = crc::checksum_after_change(old.crc, &change, following);
        self.flip(header::ATTRIBUTES.start..header::MAX_TIMESTAMP.end, &change);
        self.flip(header::CRC, &(old.crc ^ new.crc).to_be_bytes());
    }

    fn flip(&mut self, field: std::ops::Range<usize>, change: &[u8]) {
        for (byte, flips) in header::field_mut(&mut self.bytes, field)
            .iter_mut()
            .zip(change)
        {
            *byte ^= flips;
        }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test knows what it has built")]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, HEADER_BYTES};

    fn batch(codec: Codec) -> Batch {
        let bytes = BatchBuilder::new()
            .codec(codec)
            .record(
                Timestamp(1_700_000_000_000),
                Some(b"key"),
                Some(b"value value value"),
            )
            .header(b"header", None)
            .record(
                Timestamp(1_700_000_000_009),
                None,
                Some(b"value value value"),
            )
            .build();
        Batch::parse(bytes).unwrap()
    }

    fn places() -> [Place; 2] {
        [None, Some(Timestamp(1_800_000_000_000))].map(|append_time| Place {
            base_offset: Offset::new(12_345),
            generation: Generation::new(42),
            append_time,
        })
    }

    #[test]
    fn a_bit_that_flips_between_parsing_and_placing_is_found_afterwards() {
        for codec in [
            Codec::None,
            Codec::Gzip,
            Codec::Snappy,
            Codec::Lz4,
            Codec::Zstd,
        ] {
            for place in places() {
                let size = batch(codec).size();
                // Base offset and leader epoch are overwritten, and outside the checksum.
                for at in (8..12).chain(16..size) {
                    for bit in 0..8 {
                        let mut damaged = batch(codec);
                        damaged.bytes[at] ^= 1 << bit;
                        let placed = damaged.place(place);
                        let found = PlacedBatch::split_from(&mut placed.bytes().clone());
                        assert!(found.is_err(), "{codec}, byte {at}, bit {bit}");
                    }
                }
            }
        }
    }

    #[test]
    fn placing_changes_nothing_but_the_place() {
        for place in places() {
            let before = batch(Codec::Zstd);
            let body = before.bytes[HEADER_BYTES..].to_vec();
            let header = before.header;
            let placed = before.place(place);
            assert_eq!(placed.bytes()[HEADER_BYTES..], body);
            let expected = Header {
                base_offset: 12_345,
                leader_epoch: 42,
                attributes: header.attributes | if place.append_time.is_some() { 8 } else { 0 },
                max_timestamp: place
                    .append_time
                    .map_or(header.max_timestamp, |time| time.0),
                crc: header::checksum_of(placed.bytes()),
                ..header
            };
            assert_eq!(Header::read(placed.bytes()), Ok(expected));
            assert_eq!(placed.header(), &expected);
        }
    }
}
