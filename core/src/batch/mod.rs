//! The Kafka record batch v2: the unit of append, storage, replication and fetch. The layout is
//! drawn in `docs/log-format.md`.
//!
//! Bytes from a client become a [`Batch`] by passing every rule once ([`Batch::parse`]); a `Batch`
//! that has been given its place in a log is a [`PlacedBatch`], byte for byte what is stored and
//! what a consumer receives.

use crate::{Generation, Offset, Timestamp};
use bytes::{Bytes, BytesMut};
use std::fmt;

/// Bytes before the first record.
pub const HEADER_BYTES: usize = 61;

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

/// A client's batch that passed every rule and awaits its place.
#[derive(Debug)]
pub struct Batch {
    bytes: BytesMut,
    header: Header,
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

/// A batch in its place: what is stored, replicated and fetched. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PlacedBatch {
    bytes: Bytes,
    header: Header,
}

/// One record of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp: its own, or the append time of an append-time batch.
    pub timestamp: Timestamp,
    /// `None` is null, which is not empty.
    pub key: Option<Bytes>,
    /// `None` is null, which is not empty.
    pub value: Option<Bytes>,
    /// Order and duplicates are kept.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// Which rule a batch broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchError {
    /// TODO(batch)
    Placeholder,
}

impl fmt::Display for BatchError {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl std::error::Error for BatchError {}

impl Batch {
    /// Parses what a client sent for one partition: exactly one batch, every rule checked.
    ///
    /// # Errors
    /// The rule it broke.
    pub fn parse(_bytes: BytesMut) -> Result<Self, BatchError> {
        todo!()
    }
    /// The header, as the client sent it.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }
    /// Bytes of the whole batch.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
    /// Offsets the batch takes: its number of records.
    #[must_use]
    pub fn offsets(&self) -> u64 {
        todo!()
    }
    /// The greatest timestamp among its records.
    #[must_use]
    pub fn records_max_timestamp(&self) -> Timestamp {
        self.records_max_timestamp
    }
    /// Gives the batch its place: patches base offset, leader epoch and, for append-time streams,
    /// timestamp type and max timestamp, combining the CRC.
    #[must_use]
    pub fn place(self, _place: Place) -> PlacedBatch {
        todo!()
    }
}

impl PlacedBatch {
    /// The batch at the start of `bytes`, checksum and lengths verified; the rest stays behind.
    ///
    /// # Errors
    /// The bytes do not begin with a valid batch.
    pub fn split_from(_bytes: &mut Bytes) -> Result<Self, BatchError> {
        todo!()
    }
    /// The control batch that begins a generation (LEADER_CHANGE), taking one offset.
    #[must_use]
    pub fn generation_start(_base: Offset, _generation: Generation, _now: Timestamp) -> Self {
        todo!()
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
        todo!()
    }
    /// Offset of the last record.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        todo!()
    }
    /// Offset after the last record.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.last_offset().after(1)
    }
    /// The generation that placed it.
    #[must_use]
    pub fn generation(&self) -> Generation {
        todo!()
    }
    /// The greatest timestamp.
    #[must_use]
    pub fn max_timestamp(&self) -> Timestamp {
        Timestamp(self.header.max_timestamp)
    }
    /// Whether it holds a marker instead of data.
    #[must_use]
    pub fn is_control(&self) -> bool {
        todo!()
    }
    /// Its records, decompressed.
    ///
    /// # Errors
    /// The records are not what the header says.
    pub fn records(&self) -> Result<Vec<Record>, BatchError> {
        todo!()
    }
}

/// Makes batches, as a producer would.
#[derive(Debug, Default)]
pub struct BatchBuilder {}
