//! Bytes out of a log file: whole batches from the front, until one is not.

use super::batch;
use crate::memory::bounded;
use bytes::Bytes;
use felix_core::batch::{HEADER_BYTES, Record};
use felix_core::limits::BATCH_DECOMPRESSED_BYTES_MAX;
use felix_core::{PlacedBatch, Timestamp};

/// The smallest record: lengths and deltas of one byte each.
const RECORD_BYTES_MIN: usize = 7;

/// Whatever is split off is whole, and what is refused is left as it was. Accepted: there are
/// batches and nothing else, and all have their records.
pub fn run(data: &[u8]) -> bool {
    let mut rest = Bytes::copy_from_slice(data);
    let mut all_read = !data.is_empty();
    loop {
        let before = rest.clone();
        // Nothing is copied, whatever the lengths say.
        match bounded(4 << 10, || PlacedBatch::split_from(&mut rest)) {
            Ok(batch) => {
                assert_eq!(batch.bytes().len() + rest.len(), before.len());
                assert!(batch.bytes().len() >= HEADER_BYTES);
                all_read &= check(&batch);
            }
            Err(error) => {
                assert_eq!(rest, before);
                assert!(!error.to_string().is_empty());
                return all_read && rest.is_empty();
            }
        }
    }
}

fn check(found: &PlacedBatch) -> bool {
    assert!(found.base_offset() <= found.last_offset());
    assert!(found.last_offset() < found.next_offset());
    let (_, _, _) = (
        found.generation(),
        found.max_timestamp(),
        found.is_control(),
    );
    let records_max = BATCH_DECOMPRESSED_BYTES_MAX / RECORD_BYTES_MIN;
    let bytes_max = 3 * BATCH_DECOMPRESSED_BYTES_MAX + records_max * size_of::<Record>();
    let records = bounded(bytes_max, || found.records());
    // Searches see the same records, and keep none.
    let bytes_max = batch::parse_bytes_max(found.bytes().len());
    let (greatest, first) = bounded(bytes_max, || {
        (
            found.first_of_greatest(BATCH_DECOMPRESSED_BYTES_MAX),
            found.first_at_or_after(Timestamp(0), BATCH_DECOMPRESSED_BYTES_MAX),
        )
    });
    let Ok(records) = records else {
        assert!(greatest.is_err() && first.is_err());
        return false;
    };
    let of = |record: &Record| (record.offset, record.timestamp);
    let latest = records.iter().rev().max_by_key(|record| record.timestamp);
    assert_eq!(greatest, Ok(latest.map(of)));
    let since = records
        .iter()
        .find(|record| record.timestamp >= Timestamp(0));
    assert_eq!(first, Ok(since.map(of)));
    assert!(records.is_sorted_by(|a, b| a.offset < b.offset));
    for record in &records {
        assert!(record.offset >= found.base_offset());
        assert!(record.offset <= found.last_offset());
    }
    true
}
