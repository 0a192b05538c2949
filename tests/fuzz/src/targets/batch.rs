//! A batch as a client sends it: parsed, placed, and read out of the log again.

use crate::memory::bounded;
use bytes::{Bytes, BytesMut};
use felix_core::batch::{HEADER_BYTES, Header, Place, Record};
use felix_core::limits::BATCH_DECOMPRESSED_BYTES_MAX;
use felix_core::{Batch, Generation, Offset, PlacedBatch, Timestamp};

/// Records are made one by one only of batches of so many: more say nothing new, and take long.
const RECORDS_MAX: u64 = 10_000;

/// What may be in use at once while a batch of `bytes` is parsed: the output, the half of it that
/// it grew from, and what the codecs keep by themselves.
pub(super) fn parse_bytes_max(bytes: usize) -> usize {
    2 * BATCH_DECOMPRESSED_BYTES_MAX + 2 * bytes + (1 << 20)
}

/// What is accepted comes back out of the log as it went in.
pub fn run(data: &[u8]) -> bool {
    let given = BytesMut::from(data);
    let parsed = bounded(parse_bytes_max(data.len()), || Batch::parse(given));
    let batch = match parsed {
        Ok(batch) => batch,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert_eq!(Header::read(data), Ok(*batch.header()));
    assert_eq!(batch.size(), data.len());
    assert!(batch.offsets() > 0);
    for append_time in [None, Some(Timestamp(1_800_000_000_000))] {
        let again = Batch::parse(BytesMut::from(data)).expect("it was parsed before");
        survives_the_log(again, data, append_time);
    }
    true
}

fn survives_the_log(batch: Batch, data: &[u8], append_time: Option<Timestamp>) {
    let (count, greatest) = (batch.offsets(), batch.records_max_timestamp());
    let place = Place {
        base_offset: Offset::new(1 << 40),
        generation: Generation::new(9),
        append_time,
    };
    let placed = batch.place(place);
    let mut stored = BytesMut::from(&placed.bytes()[..]);
    stored.extend_from_slice(b"rest");
    let mut stored = stored.freeze();
    let found = PlacedBatch::split_from(&mut stored).expect("what was placed is whole");
    assert_eq!(stored, Bytes::from_static(b"rest"));
    assert_eq!(found.header(), placed.header());
    assert_eq!(found.bytes()[HEADER_BYTES..], data[HEADER_BYTES..]);
    assert_eq!(found.base_offset(), place.base_offset);
    assert_eq!(found.next_offset(), place.base_offset.after(count));
    assert_eq!(found.generation(), place.generation);
    assert_eq!(found.max_timestamp(), append_time.unwrap_or(greatest));
    assert!(!found.is_control());
    if count > RECORDS_MAX {
        return;
    }
    let records = found.records().expect("what was parsed can be read");
    let offsets = (0..count).map(|delta| place.base_offset.after(delta));
    assert!(offsets.eq(records.iter().map(|record: &Record| record.offset)));
    let latest = records.iter().map(|record| record.timestamp).max();
    // The greatest of a batch whose records have no timestamp is -1, whatever they say below it.
    assert_eq!(latest.max(Some(Timestamp(-1))), Some(found.max_timestamp()));
}
