//! Batches survive the whole way, and an independent implementation agrees at every station.

mod support;

use bytes::{Bytes, BytesMut};
use felix_core::batch::{Batch, BatchBuilder, Codec, Place, PlacedBatch, Record};
use felix_core::{Generation, Offset, Timestamp};
use kafka_protocol::records::{
    Compression, Record as Foreign, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
    TimestampType,
};
use proptest::prelude::*;
use std::collections::HashSet;
use support::{Given, build, codec, expected, given};

fn place(base: u64, append_time: Option<Timestamp>) -> Place {
    Place {
        base_offset: Offset::new(base),
        generation: Generation::new(7),
        append_time,
    }
}

fn compression(codec: Codec) -> Compression {
    match codec {
        Codec::None => Compression::None,
        Codec::Gzip => Compression::Gzip,
        Codec::Snappy => Compression::Snappy,
        Codec::Lz4 => Compression::Lz4,
        Codec::Zstd => Compression::Zstd,
    }
}

/// The other implementation keeps headers in a map.
fn with_distinct_headers(given: Vec<Given>) -> Vec<Given> {
    let distinct = |one: Given| {
        let mut seen = HashSet::new();
        let headers = one
            .headers
            .into_iter()
            .filter(|(key, _)| seen.insert(key.clone()))
            .collect();
        Given { headers, ..one }
    };
    given.into_iter().map(distinct).collect()
}

fn to_foreign(offset: i64, given: &Given) -> Foreign {
    Foreign {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: 9,
        producer_epoch: 2,
        timestamp_type: TimestampType::Creation,
        offset,
        sequence: 40 + i32::try_from(offset).expect("few records"),
        timestamp: given.timestamp,
        key: given.key.clone().map(Into::into),
        value: given.value.clone().map(Into::into),
        headers: given
            .headers
            .iter()
            .map(|(key, value)| (key.clone().into(), value.clone().map(Into::into)))
            .collect(),
    }
}

/// What both implementations can say of a record. A consumer of an append-time batch takes the
/// batch's time, which the other implementation leaves to its user.
fn assert_same(foreign: &Foreign, ours: &Record, append_time: Option<Timestamp>) {
    assert_eq!(foreign.offset, ours.offset.to_wire());
    match append_time {
        Some(time) => {
            assert_eq!(foreign.timestamp_type, TimestampType::LogAppend);
            assert_eq!(ours.timestamp, time);
        }
        None => {
            assert_eq!(foreign.timestamp_type, TimestampType::Creation);
            assert_eq!(ours.timestamp.0, foreign.timestamp);
        }
    }
    assert_eq!(foreign.key, ours.key);
    assert_eq!(foreign.value, ours.value);
    let headers: Vec<(Bytes, Option<Bytes>)> = foreign
        .headers
        .iter()
        .map(|(key, value)| (Bytes::copy_from_slice(key.as_bytes()), value.clone()))
        .collect();
    assert_eq!(headers, ours.headers);
}

proptest! {
    #[test]
    fn records_come_back_as_they_were_given(
        given in given(),
        codec in codec(),
        base in 0..1_u64 << 60,
        append_time in proptest::option::of((0..1_i64 << 42).prop_map(Timestamp)),
    ) {
        let batch = Batch::parse(build(&given, codec)).unwrap();
        prop_assert_eq!(batch.codec(), codec);
        prop_assert_eq!(batch.offsets(), given.len() as u64);
        let newest = given.iter().map(|one| one.timestamp).max().unwrap();
        prop_assert_eq!(batch.records_max_timestamp(), Timestamp(newest));

        let placed = batch.place(place(base, append_time));
        prop_assert_eq!(placed.base_offset(), Offset::new(base));
        prop_assert_eq!(placed.next_offset(), Offset::new(base + given.len() as u64));
        prop_assert_eq!(placed.generation(), Generation::new(7));
        prop_assert_eq!(placed.max_timestamp(), append_time.unwrap_or(Timestamp(newest)));
        prop_assert_eq!(placed.records().unwrap(), expected(&given, base, append_time));

        let mut log = BytesMut::from(&placed.bytes()[..]);
        log.extend_from_slice(b"what follows");
        let mut log = log.freeze();
        let read = PlacedBatch::split_from(&mut log).unwrap();
        prop_assert_eq!(&log[..], b"what follows");
        prop_assert_eq!(read.header(), placed.header());
        prop_assert_eq!(read.bytes(), placed.bytes());
        prop_assert_eq!(read.records().unwrap(), expected(&given, base, append_time));
    }

    #[test]
    fn another_implementation_reads_what_is_stored(
        given in given().prop_map(with_distinct_headers),
        codec in codec(),
        append_time in proptest::option::of((0..1_i64 << 42).prop_map(Timestamp)),
    ) {
        let placed = Batch::parse(build(&given, codec)).unwrap().place(place(77, append_time));
        let read = RecordBatchDecoder::decode(&mut placed.bytes().clone()).unwrap();
        prop_assert_eq!(read.compression, compression(codec));
        prop_assert_eq!(read.records.len(), given.len());
        for (foreign, ours) in read.records.iter().zip(placed.records().unwrap()) {
            assert_same(foreign, &ours, append_time);
            prop_assert_eq!(foreign.partition_leader_epoch, 7);
        }
    }

    #[test]
    fn batches_of_another_implementation_parse(
        given in given().prop_map(with_distinct_headers),
        codec in codec(),
    ) {
        let foreign: Vec<Foreign> =
            (0..).zip(&given).map(|(offset, one)| to_foreign(offset, one)).collect();
        let mut bytes = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: compression(codec) };
        RecordBatchEncoder::encode(&mut bytes, &foreign, &options).unwrap();

        let batch = Batch::parse(bytes).unwrap();
        prop_assert_eq!(batch.codec(), codec);
        let header = *batch.header();
        prop_assert_eq!(
            (header.producer_id, header.producer_epoch, header.base_sequence),
            (9, 2, 40)
        );
        let placed = batch.place(place(0, None));
        prop_assert_eq!(placed.records().unwrap(), expected(&given, 0, None));
    }

    #[test]
    fn a_flipped_bit_in_a_stored_batch_is_found(
        given in given(),
        codec in codec(),
        at in any::<proptest::sample::Index>(),
        bit in 0..8,
    ) {
        let placed = Batch::parse(build(&given, codec)).unwrap().place(place(5, None));
        let mut bytes = BytesMut::from(&placed.bytes()[..]);
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        // Base offset and leader epoch lie outside the checksum, so that a leader may set them.
        prop_assume!(!(0..8).contains(&at) && !(12..16).contains(&at));
        prop_assert!(PlacedBatch::split_from(&mut bytes.freeze()).is_err());
    }
}

#[test]
fn headers_keep_order_duplicates_and_null() {
    let bytes = BatchBuilder::new()
        .record(Timestamp(1), Some(b"k"), None)
        .header(b"b", Some(b"1"))
        .header(b"a", None)
        .header(b"b", Some(b""))
        .record(Timestamp(2), None, Some(b""))
        .build();
    let records = Batch::parse(bytes)
        .unwrap()
        .place(place(0, None))
        .records()
        .unwrap();
    let [first, second] = &records[..] else {
        panic!("two records")
    };
    assert_eq!(first.value, None);
    assert_eq!(
        first.headers,
        [
            (Bytes::from("b"), Some(Bytes::from("1"))),
            (Bytes::from("a"), None),
            (Bytes::from("b"), Some(Bytes::new())),
        ]
    );
    assert_eq!(second.key, None);
    assert_eq!(second.value, Some(Bytes::new()));
}

#[test]
fn the_max_timestamp_of_a_client_is_not_believed() {
    let mut bytes = build(&support::one(), Codec::None);
    support::put(&mut bytes, 35, &i64::MAX.to_be_bytes());
    support::seal(&mut bytes);
    let placed = Batch::parse(bytes).unwrap().place(place(0, None));
    assert_eq!(placed.max_timestamp(), Timestamp(1000));
    let read = PlacedBatch::split_from(&mut placed.bytes().clone()).unwrap();
    assert_eq!(read.max_timestamp(), Timestamp(1000));
}

#[test]
fn records_without_a_timestamp_have_none_as_their_greatest() {
    let bytes = BatchBuilder::new()
        .record(Timestamp(-1), None, Some(b"a"))
        .record(Timestamp(-1), None, Some(b"b"))
        .build();
    let batch = Batch::parse(bytes).unwrap();
    assert_eq!(batch.records_max_timestamp(), Timestamp(-1));
    let placed = batch.place(place(0, None));
    assert_eq!(placed.records().unwrap()[1].timestamp, Timestamp(-1));
}

#[test]
fn placing_does_not_copy() {
    let batch = Batch::parse(build(&support::one(), Codec::None)).unwrap();
    let bytes = build(&support::one(), Codec::None);
    let address = bytes.as_ptr();
    let placed = Batch::parse(bytes)
        .unwrap()
        .place(place(3, Some(Timestamp(9))));
    assert_eq!(placed.bytes().as_ptr(), address);
    assert_eq!(batch.size(), placed.bytes().len());
}
