//! A batch as a client sends it, before it has a place in a log.

use super::codec::Codec;
use super::crc;
use super::decompress::{Forms, decompress};
use super::error::BatchError;
use super::header::{self, Header};
use super::placed::PlacedBatch;
use super::record;
use crate::limits::{BATCH_BYTES_ON_CORE_MAX, BATCH_DECOMPRESSED_BYTES_MAX};
use crate::{Generation, Offset, Timestamp};
use bytes::BytesMut;

/// A client's batch that passed every rule and awaits its place.
#[derive(Debug)]
pub struct Batch {
    pub(super) bytes: BytesMut,
    pub(super) header: Header,
    pub(super) codec: Codec,
    /// Computed from the records, never believed from the header.
    pub(super) records_max_timestamp: Timestamp,
}

/// How the parsing of a batch ended.
#[derive(Debug)]
pub struct Parsed {
    /// The batch, or the rule it broke.
    pub result: Result<Batch, BatchError>,
    /// How much work it was: the bytes of its records, decompressed, or more where there is much to
    /// do for few. Where it broke off, the bound that it had, since a fault may come late.
    pub work_bytes: usize,
}

/// How far a core came with a batch by itself.
#[derive(Debug)]
pub enum ParsedOnCore {
    /// To the end.
    Done(Parsed),
    /// Nowhere, since it is too much work for a core: [`Batch::parse_within`] is to be called
    /// elsewhere.
    Heavy {
        /// The batch, untouched.
        bytes: BytesMut,
        /// Bytes that were decompressed before that was known.
        wasted: usize,
    },
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
        Self::parse_within(bytes, BATCH_DECOMPRESSED_BYTES_MAX).result
    }

    /// [`Batch::parse`] with a bound of the caller's own for the decompressed records, and the work
    /// to get them, which is no more than [`BATCH_DECOMPRESSED_BYTES_MAX`].
    #[must_use]
    pub fn parse_within(bytes: BytesMut, work_bytes_max: usize) -> Parsed {
        Checked::of(&bytes, work_bytes_max).into_parsed(bytes)
    }

    /// [`Batch::parse_within`] for a core that has other things to do: it parses only what has
    /// [`BATCH_BYTES_ON_CORE_MAX`] at most, as sent and decompressed.
    #[must_use]
    pub fn parse_on_core(bytes: BytesMut, work_bytes_max: usize) -> ParsedOnCore {
        if bytes.len() > bytes_on_core_max(&bytes) {
            return ParsedOnCore::Heavy { bytes, wasted: 0 };
        }
        let on_core_max = work_bytes_max.min(BATCH_BYTES_ON_CORE_MAX);
        let checked = Checked::of(&bytes, on_core_max);
        let too_large = matches!(checked.result, Err(BatchError::DecompressedTooLarge { .. }));
        if too_large && on_core_max < work_bytes_max {
            return ParsedOnCore::Heavy {
                bytes,
                wasted: on_core_max,
            };
        }
        ParsedOnCore::Done(checked.into_parsed(bytes))
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

/// What a look at a client's bytes found.
struct Checked {
    result: Result<(Header, Codec, Timestamp), BatchError>,
    work_bytes: usize,
}

impl Checked {
    fn of(bytes: &[u8], work_bytes_max: usize) -> Self {
        let (header, codec) = match check_frame(bytes) {
            Ok(checked) => checked,
            Err(error) => {
                return Self {
                    result: Err(error),
                    work_bytes: 0,
                };
            }
        };
        let records = header::records_of(bytes);
        match decompress(codec, Forms::Common, records, work_bytes_max) {
            Ok(decompressed) => Self {
                result: record::check_client(&header, &decompressed.records)
                    .map(|records_max_timestamp| (header, codec, records_max_timestamp)),
                work_bytes: decompressed.work_bytes,
            },
            Err(error) => Self {
                result: Err(error),
                work_bytes: work_bytes_max,
            },
        }
    }

    fn into_parsed(self, bytes: BytesMut) -> Parsed {
        let batch = |(header, codec, records_max_timestamp)| Batch {
            bytes,
            header,
            codec,
            records_max_timestamp,
        };
        Parsed {
            result: self.result.map(batch),
            work_bytes: self.work_bytes,
        }
    }
}

/// Bytes, as sent, of which a core may parse this batch.
fn bytes_on_core_max(bytes: &[u8]) -> usize {
    Header::read(bytes).map_or(BATCH_BYTES_ON_CORE_MAX, |header| header.bytes_on_core_max())
}

/// Everything that can be checked before the records are decompressed.
fn check_frame(bytes: &[u8]) -> Result<(Header, Codec), BatchError> {
    let header = Header::read(bytes)?;
    let (needed, present) = (header.size(), bytes.len());
    if present < needed {
        return Err(BatchError::Truncated { needed, present });
    }
    if present > needed {
        return Err(BatchError::Trailing {
            bytes: present - needed,
        });
    }
    header::check_checksum(&header, bytes)?;
    header.check_client()?;
    Ok((header, header.codec()?))
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
