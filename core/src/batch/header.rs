//! The fixed part of a batch.

use super::codec::Codec;
use super::crc;
use super::cursor::Cursor;
use super::error::BatchError;
use crate::Offset;
use crate::limits::{BATCH_BYTES_ON_CORE_MAX, GZIP_BYTES_ON_CORE_MAX};
use bytes::{BufMut, BytesMut};
use std::ops::Range;

/// Bytes before the first record.
pub const HEADER_BYTES: usize = 61;

/// Bytes that the length field does not count: base offset and itself.
pub(super) const UNCOUNTED_BYTES: usize = 12;

/// The least length: a header without records.
const LENGTH_MIN: i32 = 49;

const MAGIC: i8 = 2;

// Where the fields that a log patches lie.
pub(super) const BASE_OFFSET: Range<usize> = 0..8;
pub(super) const LEADER_EPOCH: Range<usize> = 12..16;
pub(super) const CRC: Range<usize> = 17..21;
pub(super) const ATTRIBUTES: Range<usize> = 21..23;
pub(super) const MAX_TIMESTAMP: Range<usize> = 35..43;

// Attribute bits.
const CODEC_BITS: i16 = 0x07;
pub(super) const APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
pub(super) const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;
const KNOWN_BITS: i16 = CODEC_BITS | APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON;

/// The fixed part of a batch, as its 61 bytes say. Copied out once, so that nobody reads it twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Offset of the first record; 0 as a client sends it.
    pub base_offset: i64,
    /// Bytes after the length field (offset 12).
    pub length: u32,
    /// The generation that placed it.
    pub leader_epoch: i32,
    /// Checksum (CRC-32C) over everything from the attributes on.
    pub crc: u32,
    /// Codec, timestamp type, transactional, control, delete horizon.
    pub attributes: i16,
    /// Offset of the last record, less the base offset.
    pub last_offset_delta: i32,
    /// Timestamp that the records' deltas count from.
    pub base_timestamp: i64,
    /// The greatest timestamp, or the append time.
    pub max_timestamp: i64,
    /// -1: not an idempotent producer.
    pub producer_id: i64,
    /// Epoch of the producer id.
    pub producer_epoch: i16,
    /// Sequence of the first record.
    pub base_sequence: i32,
    /// Records in the batch.
    pub count: i32,
}

impl Header {
    /// The header at the start of `bytes`: format and length checked, the checksum not. Enough to
    /// step over a batch, not to believe it.
    ///
    /// # Errors
    /// `Empty`, `Zeros` (prepared space), `Truncated` (less than a header), `BadLength`, or a
    /// format that is not v2.
    pub fn read(bytes: &[u8]) -> Result<Self, BatchError> {
        if bytes.is_empty() {
            return Err(BatchError::Empty);
        }
        if bytes.iter().take(HEADER_BYTES).all(|byte| *byte == 0) {
            return Err(BatchError::Zeros);
        }
        // A message of the old formats may be shorter than a header of this one.
        match bytes.get(16).map(|magic| magic.cast_signed()) {
            None | Some(MAGIC) => {}
            Some(magic @ (0 | 1)) => return Err(BatchError::OldFormat { magic }),
            Some(magic) => return Err(BatchError::UnknownMagic { magic }),
        }
        let header = Self::read_fields(bytes).ok_or(BatchError::Truncated {
            needed: HEADER_BYTES,
            present: bytes.len(),
        })?;
        let length = header.length.cast_signed();
        if length < LENGTH_MIN {
            return Err(BatchError::BadLength { length });
        }
        Ok(header)
    }

    fn read_fields(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let base_offset = cursor.i64()?;
        let length = cursor.u32()?;
        let leader_epoch = cursor.i32()?;
        cursor.i8()?;
        Some(Self {
            base_offset,
            length,
            leader_epoch,
            crc: cursor.u32()?,
            attributes: cursor.i16()?,
            last_offset_delta: cursor.i32()?,
            base_timestamp: cursor.i64()?,
            max_timestamp: cursor.i64()?,
            producer_id: cursor.i64()?,
            producer_epoch: cursor.i16()?,
            base_sequence: cursor.i32()?,
            count: cursor.i32()?,
        })
    }

    /// Bytes of the whole batch.
    #[must_use]
    pub fn size(&self) -> usize {
        let length = usize::try_from(self.length).expect("pointers have at least 32 bits");
        UNCOUNTED_BYTES + length
    }

    /// First and last offset of a stored batch; `None` where they are negative or overflow.
    #[must_use]
    pub fn offset_range(&self) -> Option<(Offset, Offset)> {
        if self.last_offset_delta < 0 {
            return None;
        }
        let last = self
            .base_offset
            .checked_add(i64::from(self.last_offset_delta))?;
        // The offset that follows has to exist as well.
        last.checked_add(1)?;
        Some((
            Offset::from_wire(self.base_offset)?,
            Offset::from_wire(last)?,
        ))
    }

    /// How the records are compressed.
    ///
    /// # Errors
    /// `UnknownCodec`.
    pub fn codec(&self) -> Result<Codec, BatchError> {
        let [_, low] = (self.attributes & CODEC_BITS).to_be_bytes();
        Codec::from_attributes(self.attributes).ok_or(BatchError::UnknownCodec { id: low })
    }

    /// Bytes, compressed as they are, of which a core may look into the records itself; the work of
    /// more would outlast its turn.
    #[must_use]
    pub fn bytes_on_core_max(&self) -> usize {
        match self.codec() {
            Ok(Codec::Gzip) => GZIP_BYTES_ON_CORE_MAX,
            Ok(Codec::None | Codec::Snappy | Codec::Lz4 | Codec::Zstd) | Err(_) => {
                BATCH_BYTES_ON_CORE_MAX
            }
        }
    }

    /// Whether the batch comes from an idempotent producer. If not, epoch and sequence mean
    /// nothing.
    #[must_use]
    pub const fn has_producer_id(&self) -> bool {
        self.producer_id >= 0
    }

    /// Whether every record has the batch's max timestamp, the time of its append, instead of its
    /// own.
    #[must_use]
    pub const fn is_append_time(&self) -> bool {
        self.attributes & APPEND_TIME != 0
    }

    /// Whether the batch holds a marker instead of data.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Whether the batch belongs to a transaction, or ends one.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// The rules for what a client sends, as far as the header goes.
    pub(super) fn check_client(&self) -> Result<(), BatchError> {
        self.codec()?;
        let unknown = self.attributes & !KNOWN_BITS;
        if unknown != 0 {
            return Err(BatchError::UnknownAttributes { bits: unknown });
        }
        if self.is_control() {
            return Err(BatchError::Control);
        }
        if self.is_transactional() {
            return Err(BatchError::Transactional);
        }
        if self.is_append_time() {
            return Err(BatchError::AppendTime);
        }
        if self.attributes & DELETE_HORIZON != 0 {
            return Err(BatchError::DeleteHorizon);
        }
        if self.base_offset != 0 {
            return Err(BatchError::BaseOffset {
                base_offset: self.base_offset,
            });
        }
        let Self {
            count,
            last_offset_delta,
            ..
        } = *self;
        if count <= 0 || last_offset_delta != count - 1 {
            return Err(BatchError::Count {
                count,
                last_offset_delta,
            });
        }
        self.check_producer()
    }

    fn check_producer(&self) -> Result<(), BatchError> {
        let Self {
            producer_id,
            producer_epoch,
            base_sequence,
            ..
        } = *self;
        if producer_id < -1 {
            return Err(BatchError::ProducerId { producer_id });
        }
        // Without an id, sarama sends sequence 0 and kafkajs epoch 0 as well: ignored, as Kafka
        // does.
        if self.has_producer_id() && (producer_epoch < 0 || base_sequence < 0) {
            return Err(BatchError::ProducerWithoutSequence {
                producer_id,
                producer_epoch,
                base_sequence,
            });
        }
        Ok(())
    }

    /// The rules for what a log holds, as far as the header goes. Compaction may leave fewer
    /// records than offsets, or none.
    pub(super) fn check_placed(&self) -> Result<(), BatchError> {
        let Self {
            base_offset,
            leader_epoch,
            count,
            last_offset_delta,
            ..
        } = *self;
        if last_offset_delta < 0 || count < 0 || i64::from(count) > i64::from(last_offset_delta) + 1
        {
            return Err(BatchError::Count {
                count,
                last_offset_delta,
            });
        }
        if leader_epoch < 0 || self.offset_range().is_none() {
            return Err(BatchError::NoPlace {
                base_offset,
                leader_epoch,
            });
        }
        Ok(())
    }

    /// A whole batch of this header and these records (as compressed), length and checksum set.
    /// Panics above 2^31 - 1 bytes.
    pub(super) fn with_records(mut self, records: &[u8]) -> (Self, BytesMut) {
        let size = HEADER_BYTES + records.len();
        self.length = i32::try_from(size - UNCOUNTED_BYTES)
            .expect("a batch is shorter than 2^31 bytes")
            .cast_unsigned();
        let mut out = BytesMut::with_capacity(size);
        out.put_i64(self.base_offset);
        out.put_u32(self.length);
        out.put_i32(self.leader_epoch);
        out.put_i8(MAGIC);
        out.put_u32(0);
        out.put_i16(self.attributes);
        out.put_i32(self.last_offset_delta);
        out.put_i64(self.base_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_i64(self.producer_id);
        out.put_i16(self.producer_epoch);
        out.put_i32(self.base_sequence);
        out.put_i32(self.count);
        assert_eq!(out.len(), HEADER_BYTES);
        out.put_slice(records);
        self.crc = checksum_of(&out);
        field_mut(&mut out, CRC).copy_from_slice(&self.crc.to_be_bytes());
        (self, out)
    }
}

/// The checksum of a whole batch. Panics on less than a header.
pub(super) fn checksum_of(batch: &[u8]) -> u32 {
    crc::checksum(
        batch
            .get(ATTRIBUTES.start..)
            .expect("the caller has read a header"),
    )
}

/// The records of a whole batch, as compressed. Panics on less than a header.
pub(super) fn records_of(batch: &[u8]) -> &[u8] {
    batch
        .get(HEADER_BYTES..)
        .expect("the caller has read a header")
}

/// A field of a whole batch. Panics on less than a header.
pub(super) fn field_mut(batch: &mut [u8], field: Range<usize>) -> &mut [u8] {
    batch.get_mut(field).expect("the caller has read a header")
}

/// Checks the checksum of a whole batch.
pub(super) fn check_checksum(header: &Header, batch: &[u8]) -> Result<(), BatchError> {
    let computed = checksum_of(batch);
    if computed == header.crc {
        Ok(())
    } else {
        Err(BatchError::Checksum {
            stated: header.crc,
            computed,
        })
    }
}
