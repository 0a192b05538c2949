//! Real data: every flight that left New York City in 2013, one JSON line each, keyed by the
//! aircraft's tail number.

use crate::python;
use crate::record::Record;

/// Flights of aircraft nobody wrote down have no key.
pub const ROWS: usize = 336_776;

/// One flight as it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flight {
    /// The tail number, if it is known.
    pub key: Option<Vec<u8>>,
    /// The JSON line. It begins with the row's number, counted from 0.
    pub value: Vec<u8>,
}

/// The first `rows` flights, and the lines (key, tab, value) that kcat is given.
#[must_use]
pub fn read(rows: usize) -> (Vec<Flight>, Vec<u8>) {
    let lines = python::run("flights.py", &[&rows.to_string()], None).stdout;
    let flights: Vec<Flight> = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let tab = line
                .iter()
                .position(|byte| *byte == b'\t')
                .expect("a tab ends the key");
            let (key, value) = (&line[..tab], &line[tab + 1..]);
            let key = (!key.is_empty()).then(|| key.to_vec());
            Flight {
                key,
                value: value.to_vec(),
            }
        })
        .collect();
    assert_eq!(flights.len(), rows, "the package has all its rows");
    (flights, lines)
}

/// The partition librdkafka puts a keyed record in (`consistent_random`): CRC-32 of the key.
#[must_use]
pub fn partition_of(key: &[u8], partitions: u32) -> i32 {
    let mut crc = !0_u32;
    for byte in key {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    i32::try_from(!crc % partitions).expect("there are fewer partitions than 2^31")
}

/// Asserts that `records`, as a reader got them, are exactly the flights as sent: every flight
/// once, with its key and its bytes, in the partition its key belongs to, and in each partition
/// in the order of sending and without a gap in the offsets.
///
/// A flight without a key may be in any partition; its row number still fixes its place there.
pub fn assert_same(flights: &[Flight], records: &[Record], partitions: u32) {
    assert_eq!(
        records.len(),
        flights.len(),
        "records read and flights sent"
    );
    let mut seen = vec![false; flights.len()];
    for partition in 0..i32::try_from(partitions).expect("few partitions") {
        let mut last_row = None;
        let here = records
            .iter()
            .filter(|record| record.partition == partition);
        for (offset, record) in (0..).zip(here) {
            assert_eq!(
                record.offset, offset,
                "offsets of partition {partition} have no gap"
            );
            let row = row_of(&record.value);
            assert!(
                last_row < Some(row),
                "{partition}: row {row} after {last_row:?}"
            );
            last_row = Some(row);
            let flight = &flights[row];
            assert_eq!(record.key, flight.key, "key of row {row}");
            assert!(record.value == flight.value, "bytes of row {row}");
            if let Some(key) = &flight.key {
                assert_eq!(
                    partition,
                    partition_of(key, partitions),
                    "partition of row {row}"
                );
            }
            assert!(!seen[row], "row {row} is there twice");
            seen[row] = true;
        }
    }
    let missing = seen.iter().position(|seen| !seen);
    assert_eq!(missing, None, "a row is missing");
}

fn row_of(value: &[u8]) -> usize {
    let text = std::str::from_utf8(value).expect("JSON is text");
    let digits = text
        .strip_prefix("{\"row\": ")
        .and_then(|rest| rest.split(',').next());
    let row = digits.and_then(|digits| digits.parse().ok());
    row.unwrap_or_else(|| panic!("no row number in {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hashed_by_the_crc_that_librdkafka_uses() {
        // The check value of CRC-32/ISO-HDLC is 0xcbf43926.
        assert_eq!(partition_of(b"123456789", u32::MAX >> 1), 0x4bf4_3927);
    }
}
