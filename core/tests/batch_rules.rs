//! Every rule that a batch can break is found and named.

mod support;

use bytes::{BufMut, Bytes, BytesMut};
use felix_core::batch::{
    Batch, BatchBuilder, BatchError, Codec, HEADER_BYTES, Header, PlacedBatch, RecordFault,
};
use felix_core::{Offset, Timestamp};
use support::{build, one, put, seal, with_body};

/// A good batch of one record with one part overwritten and the checksum made good.
fn parse_with(at: usize, bytes: &[u8]) -> Result<Batch, BatchError> {
    let mut batch = build(&one(), Codec::None);
    put(&mut batch, at, bytes);
    let crc = crc32c::crc32c(&batch[21..]);
    put(&mut batch, 17, &crc.to_be_bytes());
    Batch::parse(batch)
}

fn parse_with_attributes(attributes: i16) -> Result<Batch, BatchError> {
    parse_with(21, &attributes.to_be_bytes())
}

#[test]
fn nothing_and_zeros_are_no_batch() {
    assert_eq!(
        Batch::parse(BytesMut::new()).unwrap_err(),
        BatchError::Empty
    );
    assert_eq!(
        Batch::parse(BytesMut::zeroed(100)).unwrap_err(),
        BatchError::Zeros
    );
}

#[test]
fn a_batch_cut_short_anywhere_is_refused() {
    let whole = build(&one(), Codec::None);
    for cut in 1..whole.len() {
        let part = BytesMut::from(&whole[..cut]);
        match Batch::parse(part).unwrap_err() {
            BatchError::Truncated { present, needed } => {
                assert_eq!(present, cut);
                assert!(needed > cut);
            }
            // The base offset is 0.
            BatchError::Zeros => assert!(cut <= 11, "length begins to show in byte 11"),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_second_batch_or_rubbish_behind_is_refused() {
    let mut two = build(&one(), Codec::None);
    let size = two.len();
    two.extend_from_slice(&build(&one(), Codec::None));
    assert_eq!(
        Batch::parse(two).unwrap_err(),
        BatchError::Trailing { bytes: size }
    );
    let mut rubbish = build(&one(), Codec::None);
    rubbish.put_u8(0);
    assert_eq!(
        Batch::parse(rubbish).unwrap_err(),
        BatchError::Trailing { bytes: 1 }
    );
}

#[test]
fn old_formats_are_told_from_unknown_ones() {
    for magic in [0, 1] {
        assert_eq!(
            parse_with(16, &[magic]).unwrap_err(),
            BatchError::OldFormat {
                magic: magic.cast_signed()
            }
        );
        // A whole message of the old formats is shorter than a header of this one.
        let mut message = BytesMut::new();
        message.put_i64(0);
        message.put_i32(15);
        message.put_u32(0x1234_5678);
        message.put_u8(magic);
        message.put_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, b'v']);
        assert!(message.len() < HEADER_BYTES);
        let error = Batch::parse(message).unwrap_err();
        assert_eq!(
            error,
            BatchError::OldFormat {
                magic: magic.cast_signed()
            }
        );
    }
    assert_eq!(
        parse_with(16, &[3]).unwrap_err(),
        BatchError::UnknownMagic { magic: 3 }
    );
}

#[test]
fn impossible_lengths_are_refused() {
    for length in [-1, 0, 48, i32::MIN] {
        let error = parse_with(8, &length.to_be_bytes()).unwrap_err();
        assert_eq!(error, BatchError::BadLength { length });
    }
    let error = parse_with(8, &i32::MAX.to_be_bytes()).unwrap_err();
    assert!(matches!(error, BatchError::Truncated { .. }), "{error}");
}

#[test]
fn a_flipped_bit_is_found() {
    for codec in support::CODECS {
        let good = build(&one(), codec);
        for at in (8..12).chain(16..good.len()) {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let error = Batch::parse(bad).unwrap_err();
                if at >= 17 {
                    assert!(
                        matches!(error, BatchError::Checksum { .. }),
                        "{at}.{bit}: {error}"
                    );
                }
            }
        }
    }
}

#[test]
fn counts_that_disagree_are_refused() {
    for (count, last_offset_delta) in [
        (0, -1),
        (-1, -2),
        (0, 0),
        (1, 1),
        (2, 0),
        (i32::MIN, i32::MAX),
        (i32::MAX, -1),
    ] {
        let mut batch = build(&one(), Codec::None);
        put(&mut batch, 23, &i32::to_be_bytes(last_offset_delta));
        put(&mut batch, 57, &i32::to_be_bytes(count));
        seal(&mut batch);
        let error = Batch::parse(batch).unwrap_err();
        assert_eq!(
            error,
            BatchError::Count {
                count,
                last_offset_delta
            }
        );
    }
}

#[test]
fn a_client_counts_offsets_from_zero() {
    for base_offset in [1, -1, i64::MAX] {
        let error = parse_with(0, &base_offset.to_be_bytes()).unwrap_err();
        assert_eq!(error, BatchError::BaseOffset { base_offset });
    }
}

#[test]
fn attributes_that_are_not_a_clients_are_refused_each_by_name() {
    for id in [5, 6, 7] {
        let error = parse_with_attributes(i16::from(id)).unwrap_err();
        assert_eq!(error, BatchError::UnknownCodec { id });
    }
    assert_eq!(
        parse_with_attributes(0x08).unwrap_err(),
        BatchError::AppendTime
    );
    assert_eq!(
        parse_with_attributes(0x10).unwrap_err(),
        BatchError::Transactional
    );
    assert_eq!(
        parse_with_attributes(0x20).unwrap_err(),
        BatchError::Control
    );
    assert_eq!(
        parse_with_attributes(0x40).unwrap_err(),
        BatchError::DeleteHorizon
    );
    for bit in 7..16 {
        let bits = (1_u16 << bit).cast_signed();
        let error = parse_with_attributes(bits).unwrap_err();
        assert_eq!(error, BatchError::UnknownAttributes { bits });
    }
}

#[test]
fn a_producer_id_comes_with_epoch_and_sequence() {
    let with = |id, epoch, sequence| {
        Batch::parse(
            BatchBuilder::new()
                .producer(id, epoch, sequence)
                .record(Timestamp(1), None, None)
                .build(),
        )
    };
    let batch = with(0, 0, 0).unwrap();
    assert!(batch.header().has_producer_id());
    for (epoch, sequence) in [(-1, 0), (0, -1), (-1, -1), (i16::MIN, i32::MIN)] {
        let refusal = BatchError::ProducerWithoutSequence {
            producer_id: 5,
            producer_epoch: epoch,
            base_sequence: sequence,
        };
        assert_eq!(with(5, epoch, sequence).unwrap_err(), refusal);
        // Sarama and kafkajs leave zeros beside the id -1.
        assert!(
            !with(-1, epoch, sequence)
                .unwrap()
                .header()
                .has_producer_id()
        );
    }
    assert!(!with(-1, 0, 0).unwrap().header().has_producer_id());
    assert_eq!(
        with(-2, 0, 0).unwrap_err(),
        BatchError::ProducerId { producer_id: -2 }
    );
}

/// The fields of a record without its length.
fn parse_record(body: &[u8]) -> Result<Batch, BatchError> {
    let mut records = vec![u8::try_from(body.len() * 2).expect("a short record")];
    records.extend_from_slice(body);
    Batch::parse(with_body(1, Codec::None, &records))
}

#[test]
fn faults_of_a_record_are_named() {
    // Attributes, timestamp delta, offset delta, key, value, number of headers.
    parse_record(&[0, 0, 0, 1, 1, 0]).unwrap();
    parse_record(&[0xff, 0, 0, 1, 1, 0]).expect("attributes of a record have no meaning");
    for (body, fault) in [
        (&[0, 0, 0, 1, 1, 0, 0][..], RecordFault::LeftOver),
        (&[0, 0, 0, 1, 1][..], RecordFault::Truncated),
        (&[][..], RecordFault::Truncated),
        (&[0, 0, 0, 3, 1, 0][..], RecordFault::FieldLength),
        (&[0, 0, 0, 1, 3, 0][..], RecordFault::FieldLength),
        (&[0, 0, 0, 8, b'k', 1, 0][..], RecordFault::Truncated),
        (&[0, 0, 0, 1, 1, 1][..], RecordFault::HeaderCount),
        (&[0, 0, 0, 1, 1, 2, 1, 1][..], RecordFault::HeaderKey),
        (&[0, 0, 0, 1, 1, 4, 0, 1][..], RecordFault::Truncated),
        (&[0, 0, 2, 1, 1, 0][..], RecordFault::OffsetDelta),
        (&[0, 0, 1, 1, 1, 0][..], RecordFault::OffsetDelta),
        (
            &[0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0][..],
            RecordFault::Truncated,
        ),
    ] {
        assert_eq!(
            parse_record(body).unwrap_err(),
            BatchError::Record { index: 0, fault },
            "{body:?}"
        );
    }
}

#[test]
fn timestamps_that_overflow_are_refused() {
    let mut batch = with_body(1, Codec::None, &[12, 0, 2, 0, 1, 1, 0]);
    put(&mut batch, 27, &i64::MAX.to_be_bytes());
    seal(&mut batch);
    let error = Batch::parse(batch).unwrap_err();
    assert_eq!(
        error,
        BatchError::Record {
            index: 0,
            fault: RecordFault::Timestamp
        }
    );
}

#[test]
fn the_faulty_record_is_the_one_that_is_named() {
    let good = [12, 0, 0, 0, 1, 1, 0];
    let second = [12, 0, 0, 2, 1, 1, 0];
    let records = [good, second, second].concat();
    Batch::parse(with_body(2, Codec::None, &records[..14])).unwrap();
    let error = Batch::parse(with_body(3, Codec::None, &records)).unwrap_err();
    assert_eq!(
        error,
        BatchError::Record {
            index: 2,
            fault: RecordFault::OffsetDelta
        }
    );
}

#[test]
fn records_missing_or_left_over_are_refused_in_every_codec() {
    let good = support::plain_records(&one());
    let longer = [&good[..], &[0]].concat();
    for codec in support::CODECS {
        // The builder writes the bodies: one good record, whatever is behind it, compressed.
        let compressed = |body: &[u8]| compress(codec, body);
        Batch::parse(with_body(1, codec, &compressed(&good))).unwrap();
        let error = Batch::parse(with_body(2, codec, &compressed(&good))).unwrap_err();
        assert_eq!(
            error,
            BatchError::Record {
                index: 1,
                fault: RecordFault::Missing
            }
        );
        let error = Batch::parse(with_body(1, codec, &compressed(&longer))).unwrap_err();
        assert_eq!(error, BatchError::LeftOver { bytes: 1 });
        let error = Batch::parse(with_body(1, codec, &compressed(&good[..3]))).unwrap_err();
        assert_eq!(
            error,
            BatchError::Record {
                index: 0,
                fault: RecordFault::Length
            }
        );
    }
}

/// Any bytes compressed, by the libraries themselves.
fn compress(codec: Codec, body: &[u8]) -> Vec<u8> {
    use std::io::Write;
    match codec {
        Codec::None => body.to_vec(),
        Codec::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(body).expect("memory");
            out.finish().expect("memory")
        }
        Codec::Snappy => snap::raw::Encoder::new().compress_vec(body).expect("short"),
        Codec::Lz4 => {
            let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
            out.write_all(body).expect("memory");
            out.finish().expect("memory")
        }
        Codec::Zstd => zstd::bulk::compress(body, 1).expect("memory"),
    }
}

fn stored() -> Bytes {
    let mut batch = build(&one(), Codec::None);
    put(&mut batch, 0, &100_i64.to_be_bytes());
    put(&mut batch, 12, &3_i32.to_be_bytes());
    batch.freeze()
}

#[test]
fn the_clean_end_of_a_log_is_told_from_damage() {
    let split = |bytes: &[u8]| {
        let mut bytes = Bytes::copy_from_slice(bytes);
        let before = bytes.clone();
        let error = PlacedBatch::split_from(&mut bytes).unwrap_err();
        assert_eq!(bytes, before, "nothing is taken on an error");
        error
    };
    let good = stored();
    PlacedBatch::split_from(&mut good.clone()).unwrap();
    assert_eq!(split(&[]), BatchError::Empty);
    assert_eq!(split(&[0; 4096]), BatchError::Zeros);
    assert_eq!(split(&[0; 3]), BatchError::Zeros);
    let needed = good.len();
    let torn = split(&good[..needed - 1]);
    assert_eq!(
        torn,
        BatchError::Truncated {
            needed,
            present: needed - 1
        }
    );
    let mut zero_tail = good.to_vec();
    zero_tail[HEADER_BYTES..].fill(0);
    assert!(matches!(split(&zero_tail), BatchError::Checksum { .. }));
}

#[test]
fn a_stored_batch_has_a_place() {
    let with = |at: usize, bytes: &[u8]| {
        let mut batch = BytesMut::from(&stored()[..]);
        put(&mut batch, at, bytes);
        seal(&mut batch);
        PlacedBatch::split_from(&mut batch.freeze())
    };
    let no_place = |result: Result<PlacedBatch, BatchError>| {
        matches!(result.unwrap_err(), BatchError::NoPlace { .. })
    };
    assert!(no_place(with(0, &(-1_i64).to_be_bytes())));
    assert!(no_place(with(0, &i64::MAX.to_be_bytes())));
    assert!(no_place(with(12, &(-1_i32).to_be_bytes())));
    let last = with(0, &(i64::MAX - 1).to_be_bytes()).unwrap();
    assert_eq!(last.next_offset(), Offset::MAX);
    for (at, bytes) in [(57, 2_i32.to_be_bytes()), (57, [0xff; 4]), (23, [0xff; 4])] {
        assert!(matches!(
            with(at, &bytes).unwrap_err(),
            BatchError::Count { .. }
        ));
    }
}

#[test]
fn compaction_may_leave_gaps_and_empty_batches() {
    // Offsets 1 and 4 of 0..=5 are left.
    let mut batch = with_body(
        2,
        Codec::None,
        &[12, 0, 0, 2, 1, 1, 0, 12, 0, 0, 8, 1, 1, 0],
    );
    put(&mut batch, 0, &100_i64.to_be_bytes());
    put(&mut batch, 12, &3_i32.to_be_bytes());
    put(&mut batch, 23, &5_i32.to_be_bytes());
    seal(&mut batch);
    let placed = PlacedBatch::split_from(&mut batch.freeze()).unwrap();
    let offsets: Vec<u64> = placed
        .records()
        .unwrap()
        .iter()
        .map(|r| r.offset.get())
        .collect();
    assert_eq!(offsets, [101, 104]);
    assert_eq!(placed.last_offset(), Offset::new(105));

    let mut empty = BytesMut::from(placed.bytes().slice(..HEADER_BYTES));
    put(&mut empty, 57, &[0; 4]);
    seal(&mut empty);
    let empty = PlacedBatch::split_from(&mut empty.freeze()).unwrap();
    assert_eq!(empty.records().unwrap(), []);
    assert_eq!(empty.next_offset(), Offset::new(106));
}

#[test]
fn a_header_is_enough_to_step_over_a_batch() {
    let batch = stored();
    let header = Header::read(&batch[..HEADER_BYTES]).unwrap();
    assert_eq!(header.size(), batch.len());
    assert_eq!(
        header.offset_range(),
        Some((Offset::new(100), Offset::new(100)))
    );
    let error = Header::read(&batch[..HEADER_BYTES - 1]).unwrap_err();
    assert!(matches!(
        error,
        BatchError::Truncated {
            needed: HEADER_BYTES,
            ..
        }
    ));
}
