//! The records of a batch.

use super::cursor::{Cursor, put_varint, put_varlong};
use super::error::{BatchError, RecordFault};
use super::header::Header;
use crate::{Offset, Timestamp};
use bytes::Bytes;

/// The shortest record: seven fields of one byte, its length among them.
const RECORD_BYTES_MIN: usize = 7;

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

/// A record as it stands in the bytes, every field checked, nothing copied.
struct RawRecord<'a> {
    attributes: u8,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    header_count: i32,
    /// The bytes of the headers.
    headers: Cursor<'a>,
}

impl<'a> RawRecord<'a> {
    /// The next record. Its attributes have no meaning yet: anything is accepted, as Kafka does.
    fn read(bytes: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        if bytes.is_empty() {
            return Err(RecordFault::Missing);
        }
        let length = bytes.varint().ok_or(RecordFault::Truncated)?;
        let length = usize::try_from(length).map_err(|_| RecordFault::Length)?;
        let mut body = Cursor::new(bytes.bytes(length).ok_or(RecordFault::Length)?);
        let attributes = body.u8().ok_or(RecordFault::Truncated)?;
        let timestamp_delta = body.varlong().ok_or(RecordFault::Truncated)?;
        let offset_delta = body.varint().ok_or(RecordFault::Truncated)?;
        let key = nullable(&mut body)?;
        let value = nullable(&mut body)?;
        let header_count = body.varint().ok_or(RecordFault::Truncated)?;
        if header_count < 0 {
            return Err(RecordFault::HeaderCount);
        }
        let headers = body.clone();
        // A count without end stops at the end of the record: each header takes two bytes.
        for _ in 0..header_count {
            header(&mut body)?;
        }
        if !body.is_empty() {
            return Err(RecordFault::LeftOver);
        }
        Ok(Self {
            attributes,
            timestamp_delta,
            offset_delta,
            key,
            value,
            header_count,
            headers,
        })
    }

    fn timestamp(&self, batch: &Header) -> Result<Timestamp, RecordFault> {
        let own = batch.base_timestamp.checked_add(self.timestamp_delta);
        own.map(Timestamp).ok_or(RecordFault::Timestamp)
    }

    fn offset(&self, base: Offset) -> Result<Offset, RecordFault> {
        let delta = u64::try_from(self.offset_delta).map_err(|_| RecordFault::OffsetDelta)?;
        Ok(base.after(delta))
    }

    /// Its own, or that of the whole batch where the broker's clock counts.
    fn placed_timestamp(&self, batch: &Header) -> Result<Timestamp, RecordFault> {
        let own = self.timestamp(batch)?;
        Ok(if batch.is_append_time() {
            Timestamp(batch.max_timestamp)
        } else {
            own
        })
    }

    /// Copies the record out; `within` are the bytes it was read from, shared and not copied.
    fn to_record(
        &self,
        batch: &Header,
        base: Offset,
        within: &Bytes,
    ) -> Result<Record, RecordFault> {
        let mut headers = Vec::new();
        let mut bytes = self.headers.clone();
        for _ in 0..self.header_count {
            let (key, value) = header(&mut bytes)?;
            headers.push((
                within.slice_ref(key),
                value.map(|value| within.slice_ref(value)),
            ));
        }
        Ok(Record {
            offset: self.offset(base)?,
            timestamp: self.placed_timestamp(batch)?,
            key: self.key.map(|key| within.slice_ref(key)),
            value: self.value.map(|value| within.slice_ref(value)),
            headers,
        })
    }
}

/// A length and as many bytes. Only -1 is null: consumers disagree on what lies below.
fn nullable<'a>(body: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, RecordFault> {
    let length = body.varint().ok_or(RecordFault::Truncated)?;
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| RecordFault::FieldLength)?;
    body.bytes(length).map(Some).ok_or(RecordFault::Truncated)
}

/// One header of a record.
fn header<'a>(body: &mut Cursor<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), RecordFault> {
    let key = nullable(body)?.ok_or(RecordFault::HeaderKey)?;
    Ok((key, nullable(body)?))
}

/// Checks the records (decompressed) of a client's batch against its header, and finds their
/// greatest timestamp: -1, "no timestamp", if none is greater.
pub(super) fn check_client(header: &Header, records: &[u8]) -> Result<Timestamp, BatchError> {
    let mut bytes = Cursor::new(records);
    let mut max = Timestamp(-1);
    for expected in 0..header.count {
        let timestamp = RawRecord::read(&mut bytes)
            .and_then(|record| {
                if record.offset_delta == expected {
                    record.timestamp(header)
                } else {
                    Err(RecordFault::OffsetDelta)
                }
            })
            .map_err(|fault| BatchError::Record {
                index: expected.cast_unsigned(),
                fault,
            })?;
        max = max.max(timestamp);
    }
    check_end(&bytes)?;
    Ok(max)
}

/// The records (decompressed) of a stored batch. Offsets rise, with gaps where compaction has been.
pub(super) fn read_placed(
    header: &Header,
    base: Offset,
    records: &Bytes,
) -> Result<Vec<Record>, BatchError> {
    let count = header.count.max(0).cast_unsigned();
    // The count is believed only as far as the bytes can hold it.
    let fitting = records.len() / RECORD_BYTES_MIN;
    let mut all = Vec::with_capacity(usize::try_from(count).map_or(fitting, |n| n.min(fitting)));
    walk_placed(header, records, |record| {
        all.push(record.to_record(header, base, records)?);
        Ok(())
    })?;
    Ok(all)
}

/// Shows `visit` offset and timestamp of every record of a placed batch, in order, keeping none: a
/// batch that fits its bound may have millions.
pub(super) fn visit_placed(
    header: &Header,
    base: Offset,
    records: &[u8],
    mut visit: impl FnMut(Offset, Timestamp),
) -> Result<(), BatchError> {
    walk_placed(header, records, |record| {
        visit(record.offset(base)?, record.placed_timestamp(header)?);
        Ok(())
    })
}

fn walk_placed<'a>(
    header: &Header,
    records: &'a [u8],
    mut visit: impl FnMut(&RawRecord<'a>) -> Result<(), RecordFault>,
) -> Result<(), BatchError> {
    let mut bytes = Cursor::new(records);
    let mut delta_min = 0;
    for index in 0..header.count.max(0).cast_unsigned() {
        RawRecord::read(&mut bytes)
            .and_then(|record| {
                if record.offset_delta < delta_min || record.offset_delta > header.last_offset_delta
                {
                    return Err(RecordFault::OffsetDelta);
                }
                delta_min = record.offset_delta.saturating_add(1);
                visit(&record)
            })
            .map_err(|fault| BatchError::Record { index, fault })?;
    }
    check_end(&bytes)
}

fn check_end(bytes: &Cursor<'_>) -> Result<(), BatchError> {
    match bytes.remaining() {
        0 => Ok(()),
        bytes => Err(BatchError::LeftOver { bytes }),
    }
}

/// Appends to `out` the records (decompressed) of a client's batch from the one numbered `from` on,
/// numbered from 0 and otherwise as they are; their greatest timestamp, as [`check_client`] finds it.
pub(super) fn cut(
    header: &Header,
    records: &[u8],
    from: u32,
    out: &mut Vec<u8>,
) -> Result<Timestamp, BatchError> {
    let mut bytes = Cursor::new(records);
    let mut max = Timestamp(-1);
    let mut body = Vec::new();
    for index in 0..header.count.max(0).cast_unsigned() {
        let fault = |fault| BatchError::Record { index, fault };
        let record = RawRecord::read(&mut bytes).map_err(fault)?;
        let Some(number) = index.checked_sub(from) else {
            continue;
        };
        max = max.max(record.timestamp(header).map_err(fault)?);
        body.clear();
        body.push(record.attributes);
        put_varlong(&mut body, record.timestamp_delta);
        put_varint(&mut body, number.cast_signed());
        put_nullable(&mut body, record.key);
        put_nullable(&mut body, record.value);
        put_varint(&mut body, record.header_count);
        body.extend_from_slice(record.headers.rest());
        put_length(out, body.len());
        out.extend_from_slice(&body);
    }
    check_end(&bytes)?;
    Ok(max)
}

/// A record to be written.
#[derive(Clone, Debug)]
pub(super) struct NewRecord {
    pub(super) timestamp: Timestamp,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl NewRecord {
    /// Appends the record. Panics if a field or the record has 2^31 bytes or more, or where the
    /// timestamps are further apart than 64 bits reach.
    pub(super) fn write(&self, base: Timestamp, offset_delta: i32, out: &mut Vec<u8>) {
        let delta = self
            .timestamp
            .0
            .checked_sub(base.0)
            .expect("timestamps are near each other");
        let mut body = vec![0];
        put_varlong(&mut body, delta);
        put_varint(&mut body, offset_delta);
        put_nullable(&mut body, self.key.as_deref());
        put_nullable(&mut body, self.value.as_deref());
        put_length(&mut body, self.headers.len());
        for (key, value) in &self.headers {
            put_nullable(&mut body, Some(key));
            put_nullable(&mut body, value.as_deref());
        }
        put_length(out, body.len());
        out.extend_from_slice(&body);
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    put_varint(
        out,
        i32::try_from(length).expect("a record is shorter than 2^31 bytes"),
    );
}

fn put_nullable(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        Some(bytes) => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        None => put_varint(out, -1),
    }
}
