//! The codecs in the shapes that clients give them, and the bounds that hold against hostile ones.

mod support;

use bytes::BytesMut;
use felix_core::batch::{Batch, BatchError, Codec, ParsedOnCore, PlacedBatch};
use felix_core::limits::{BATCH_BYTES_ON_CORE_MAX, BATCH_DECOMPRESSED_BYTES_MAX};
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use support::{CODECS, Given, build, codec, given, plain_records, seal, with_body};

/// Counts what this thread has allocated, and the most that it ever had at once.
struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count(freed: usize, taken: usize) {
    let live = LIVE.get().wrapping_sub(freed).wrapping_add(taken);
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

#[expect(unsafe_code, reason = "there is no other way to see allocations")]
// SAFETY: every call is passed on as it is to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // Freed on another thread than allocated: the balance saturates below.
        LIVE.set(LIVE.get().saturating_sub(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it moves, both are there.
        count(0, size);
        LIVE.set(LIVE.get().saturating_sub(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that `work` had allocated at once.
fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get() - before)
}

/// The output, half of it again while it grows, and LZ4's buffers for its largest blocks: one of
/// 4 MiB in, two and a window out.
const ALLOCATED_MAX: usize = BATCH_DECOMPRESSED_BYTES_MAX * 3 / 2 + (13 << 20);

const TOO_LARGE: BatchError = BatchError::DecompressedTooLarge {
    bytes_max: BATCH_DECOMPRESSED_BYTES_MAX,
};

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(body).expect("memory");
    out.finish().expect("memory")
}

fn lz4(body: &[u8], info: lz4_flex::frame::FrameInfo) -> Vec<u8> {
    let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    out.write_all(body).expect("memory");
    out.finish().expect("memory")
}

fn zstd(body: &[u8], window_log: Option<u32>) -> Vec<u8> {
    let mut out = zstd::stream::Encoder::new(Vec::new(), 1).expect("memory");
    if let Some(window_log) = window_log {
        out.window_log(window_log).expect("a window that exists");
    }
    out.write_all(body).expect("memory");
    out.finish().expect("memory")
}

/// A frame that asks for a window of 256 MiB, which none of its few bytes needs.
fn zstd_window_28(body: &[u8]) -> Vec<u8> {
    let mut frame = zstd(body, Some(27));
    // Behind the magic and the descriptor: the logarithm, less 10, above three bits of fraction.
    assert_eq!(frame[5], (27 - 10) << 3);
    frame[5] = (28 - 10) << 3;
    frame
}

fn snappy_raw(body: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(body).expect("short")
}

fn xerial(version: [u8; 8], blocks: &[&[u8]]) -> Vec<u8> {
    let mut out = b"\x82SNAPPY\0".to_vec();
    out.extend_from_slice(&version);
    for block in blocks {
        let compressed = snappy_raw(block);
        let length = u32::try_from(compressed.len()).expect("short");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&compressed);
    }
    out
}

const BIG_ENDIAN: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
const LITTLE_ENDIAN: [u8; 8] = [1, 0, 0, 0, 1, 0, 0, 0];

/// One body in the codec, without more ado.
fn simply(codec: Codec, body: &[u8]) -> Vec<u8> {
    match codec {
        Codec::None => body.to_vec(),
        Codec::Gzip => gzip(body),
        Codec::Snappy => {
            let blocks: Vec<&[u8]> = body.chunks(1 << 15).collect();
            xerial(BIG_ENDIAN, &blocks)
        }
        Codec::Lz4 => lz4(body, lz4_flex::frame::FrameInfo::new()),
        Codec::Zstd => zstd(body, None),
    }
}

/// Some records, over 100 KB and compressible.
fn some() -> Vec<Given> {
    (0..50_u8)
        .map(|i| Given {
            timestamp: 1000 + i64::from(i),
            key: Some(vec![i]),
            value: Some([i, i + 1, 7, 9].repeat(700)),
            headers: vec![],
        })
        .collect()
}

fn assert_reads(codec: Codec, body: &[u8]) {
    let given = some();
    let batch = Batch::parse(with_body(50, codec, body)).expect("a good body");
    assert_eq!(batch.codec(), codec);
    let place = felix_core::batch::Place {
        base_offset: felix_core::Offset::ZERO,
        generation: felix_core::Generation::FIRST,
        append_time: None,
    };
    let records = batch.place(place).records().expect("parsed before");
    assert_eq!(records, support::expected(&given, 0, None));
}

#[test]
fn snappy_is_read_in_every_framing() {
    let records = plain_records(&some());
    let blocks: Vec<&[u8]> = records.chunks(32 << 10).collect();
    let small: Vec<&[u8]> = records.chunks(100).collect();
    assert!(blocks.len() > 3);
    assert_reads(Codec::Snappy, &xerial(BIG_ENDIAN, &blocks));
    assert_reads(Codec::Snappy, &xerial(LITTLE_ENDIAN, &blocks));
    assert_reads(Codec::Snappy, &xerial(LITTLE_ENDIAN, &small));
    assert_reads(Codec::Snappy, &snappy_raw(&records));
}

#[test]
fn snappy_is_written_as_snappy_java_does() {
    let batch = build(&some(), Codec::Snappy);
    let body = &batch[61..];
    assert_eq!(&body[..16], b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
}

#[test]
fn several_zstd_frames_are_one_body() {
    let records = plain_records(&some());
    let (head, tail) = records.split_at(5000);
    assert_reads(Codec::Zstd, &[zstd(head, None), zstd(tail, None)].concat());
}

#[test]
fn a_form_that_some_consumers_cannot_read_is_refused_with_what_to_set_and_read_from_a_log() {
    use lz4_flex::frame::{BlockMode, FrameInfo};
    let records = plain_records(&some());
    let (head, tail) = records.split_at(5000);
    let gzip = [gzip(head), gzip(tail)].concat();
    let snappy = [xerial(BIG_ENDIAN, &[head]), xerial(LITTLE_ENDIAN, &[tail])].concat();
    let lz4 = lz4(&records, FrameInfo::new().block_mode(BlockMode::Linked));
    for (codec, body, cure) in [
        (Codec::Gzip, gzip, "one member"),
        (Codec::Snappy, snappy, "one stream"),
        (Codec::Lz4, lz4, "block-independent frames"),
        (Codec::Zstd, zstd_window_28(&records), "a smaller one"),
    ] {
        let batch = with_body(50, codec, &body);
        let error = Batch::parse(batch.clone()).unwrap_err();
        assert_eq!(error, BatchError::UncommonForm { codec });
        let sentence = error.to_string();
        assert!(sentence.contains(&codec.to_string()), "{sentence}");
        assert!(sentence.contains(cure), "{sentence}");
        let mut stored = batch;
        support::put(&mut stored, 12, &[0; 4]);
        let stored = PlacedBatch::split_from(&mut stored.freeze()).unwrap();
        let records = stored.records().unwrap();
        assert_eq!(records, support::expected(&some(), 0, None));
    }
}

#[test]
fn lz4_is_read_with_every_block_size_and_checksum() {
    use lz4_flex::frame::{BlockSize, FrameInfo};
    let records = plain_records(&some());
    for size in [
        BlockSize::Max64KB,
        BlockSize::Max256KB,
        BlockSize::Max1MB,
        BlockSize::Max4MB,
    ] {
        for checksums in [false, true] {
            let info = FrameInfo::new()
                .block_size(size)
                .block_checksums(checksums)
                .content_checksum(checksums);
            assert_reads(Codec::Lz4, &lz4(&records, info));
        }
    }
}

#[test]
fn zstd_is_read_whatever_window_it_asks_for() {
    let records = plain_records(&some());
    for window_log in [10, 20, 23, 24, 27] {
        assert_reads(Codec::Zstd, &zstd(&records, Some(window_log)));
    }
    let two = [
        zstd(&records[..5000], Some(18)),
        zstd(&records[5000..], Some(26)),
    ]
    .concat();
    assert_reads(Codec::Zstd, &two);
}

#[test]
fn a_compressed_body_cut_short_or_continued_is_refused() {
    let records = plain_records(&some());
    for codec in CODECS {
        let body = simply(codec, &records);
        assert_reads(codec, &body);
        for cut in (0..body.len())
            .step_by(1 + body.len() / 300)
            .chain([body.len() - 1])
        {
            let result = Batch::parse(with_body(50, codec, &body[..cut]));
            assert!(result.is_err(), "{codec} cut at {cut} of {}", body.len());
        }
        let longer = [&body[..], b"x"].concat();
        assert!(
            Batch::parse(with_body(50, codec, &longer)).is_err(),
            "{codec}"
        );
    }
    // An LZ4 frame that lacks no more than its end mark holds every record, and is damaged.
    let body = lz4(&records, lz4_flex::frame::FrameInfo::new());
    let error = Batch::parse(with_body(50, Codec::Lz4, &body[..body.len() - 4])).unwrap_err();
    assert_eq!(error, BatchError::Compression { codec: Codec::Lz4 });
}

#[test]
fn the_bound_is_exact_in_every_codec() {
    // The value that fills the bound together with the fields around it.
    let filled = |excess: usize| {
        let fields = 16;
        let one = Given {
            timestamp: 1,
            key: None,
            value: Some(vec![b'x'; BATCH_DECOMPRESSED_BYTES_MAX - fields + excess]),
            headers: vec![],
        };
        let records = plain_records(&[one]);
        assert_eq!(
            records.len(),
            BATCH_DECOMPRESSED_BYTES_MAX - fields + excess + 13
        );
        records
    };
    let (most, excess) = (filled(3), filled(4));
    assert_eq!(most.len(), BATCH_DECOMPRESSED_BYTES_MAX);
    for codec in CODECS {
        Batch::parse(with_body(1, codec, &simply(codec, &most)))
            .unwrap_or_else(|error| panic!("{codec}: {error}"));
        let error = Batch::parse(with_body(1, codec, &simply(codec, &excess))).unwrap_err();
        assert_eq!(error, TOO_LARGE, "{codec}");
    }
    // Too large a window for a buffer of its own.
    let whole = |body: &[u8]| Batch::parse(with_body(1, Codec::Zstd, &zstd(body, Some(25))));
    whole(&most).unwrap();
    assert_eq!(whole(&excess).unwrap_err(), TOO_LARGE);
}

#[test]
fn a_bomb_is_defused_before_it_takes_memory() {
    let zeros = vec![0; 96 << 20];
    for codec in CODECS {
        let bomb = with_body(1, codec, &simply(codec, &zeros));
        let (result, allocated) = peak(|| Batch::parse(bomb));
        assert_eq!(result.unwrap_err(), TOO_LARGE, "{codec}");
        assert!(allocated <= ALLOCATED_MAX, "{codec}: {allocated}");
    }
    let bomb = with_body(1, Codec::Zstd, &zstd(&zeros, Some(27)));
    let (result, allocated) = peak(|| Batch::parse(bomb));
    assert_eq!(result.unwrap_err(), TOO_LARGE);
    assert!(allocated <= ALLOCATED_MAX, "{allocated}");
}

#[test]
fn a_core_parses_what_is_small_and_gives_the_rest_back_untouched() {
    let zeros = |bytes| vec![0; bytes];
    let untouched = |batch: BytesMut| {
        let given = batch.clone();
        match Batch::parse_on_core(batch, BATCH_DECOMPRESSED_BYTES_MAX) {
            ParsedOnCore::Heavy { bytes, wasted } => {
                assert_eq!(bytes, given);
                assert!(wasted <= BATCH_BYTES_ON_CORE_MAX);
            }
            ParsedOnCore::Done(parsed) => panic!("{parsed:?}"),
        }
    };
    for codec in CODECS {
        let small = with_body(1, codec, &simply(codec, &plain_records(&support::one())));
        let ParsedOnCore::Done(parsed) = Batch::parse_on_core(small, BATCH_DECOMPRESSED_BYTES_MAX)
        else {
            panic!("{codec}: small")
        };
        parsed.result.unwrap();
        assert!(parsed.work_bytes <= 4096, "{codec}");
        untouched(with_body(
            1,
            codec,
            &simply(codec, &zeros(BATCH_BYTES_ON_CORE_MAX + 1)),
        ));
    }
    // A bound of the caller's own is the batch's fault, wherever it is parsed.
    let body = simply(Codec::Zstd, &zeros(2000));
    let parsed = Batch::parse_on_core(with_body(1, Codec::Zstd, &body), 1000);
    let ParsedOnCore::Done(parsed) = parsed else {
        panic!("{parsed:?}")
    };
    assert_eq!(parsed.work_bytes, 1000);
    let too_large = BatchError::DecompressedTooLarge { bytes_max: 1000 };
    assert_eq!(parsed.result.unwrap_err(), too_large);
}

#[test]
fn many_empty_pieces_are_work_although_nothing_comes_out_of_them() {
    let fill = |piece: &[u8], bytes: usize| piece.repeat(bytes / piece.len());
    let snappy = |bytes: usize| {
        let blocks = vec![&[][..]; bytes / 5];
        xerial(BIG_ENDIAN, &blocks)
    };
    for (codec, few, many) in [
        (
            Codec::Zstd,
            fill(&zstd(&[], None), 100),
            fill(&zstd(&[], None), 100 << 10),
        ),
        (Codec::Snappy, snappy(100), snappy(100 << 10)),
    ] {
        let parse = |body: &[u8]| {
            Batch::parse_on_core(with_body(1, codec, body), BATCH_DECOMPRESSED_BYTES_MAX)
        };
        let ParsedOnCore::Done(parsed) = parse(&few) else {
            panic!("{codec}: few")
        };
        assert!(parsed.result.is_err(), "there is no record");
        assert!(parsed.work_bytes >= 5 * 4096, "{codec}: {parsed:?}");
        let ParsedOnCore::Heavy { bytes, .. } = parse(&many) else {
            panic!("{codec}: many")
        };
        // Beside the core they are bounded as well.
        let more = with_body(1, codec, &many.repeat(80));
        drop(bytes);
        assert_eq!(Batch::parse(more).unwrap_err(), TOO_LARGE, "{codec}");
    }
}

#[test]
fn declared_sizes_take_no_memory() {
    // A raw snappy block that says 15 MiB and has 3 bytes; a count of 2^31 - 1 records.
    let mut block = Vec::new();
    let mut size: u32 = 15 << 20;
    while size >= 0x80 {
        block.push(u8::try_from(size & 0x7f).unwrap() | 0x80);
        size >>= 7;
    }
    block.push(u8::try_from(size).unwrap());
    block.extend_from_slice(&[0, b'a', 0]);
    let (result, allocated) = peak(|| Batch::parse(with_body(1, Codec::Snappy, &block)));
    assert_eq!(
        result.unwrap_err(),
        BatchError::Compression {
            codec: Codec::Snappy
        }
    );
    assert!(allocated < 10_000, "{allocated}");

    let mut lying = with_body(i32::MAX, Codec::None, &[12, 0, 0, 0, 1, 1, 0]);
    support::put(&mut lying, 12, &[0; 4]);
    let (records, allocated) =
        peak(|| PlacedBatch::split_from(&mut lying.freeze()).map(|placed| placed.records()));
    assert!(records.unwrap().is_err());
    assert!(allocated < 10_000, "{allocated}");
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (_, allocated) = peak(|| {
            let client = Batch::parse(BytesMut::from(&bytes[..])).map(drop);
            let stored = PlacedBatch::split_from(&mut bytes.clone().into()).map(drop);
            (client, stored)
        });
        prop_assert!(allocated < 10_000, "{}", allocated);
    }

    #[test]
    fn any_compressed_body_is_answered_within_bounds(
        codec in codec(),
        start in 0..16_usize,
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        // A good beginning takes the decoder further in.
        let mut bytes = simply(codec, &plain_records(&support::one()));
        bytes.truncate(start);
        bytes.extend_from_slice(&body);
        let (_, allocated) = peak(|| Batch::parse(with_body(1, codec, &bytes)).map(drop));
        prop_assert!(allocated <= ALLOCATED_MAX, "{}", allocated);
    }

    #[test]
    fn what_parses_can_be_read(
        given in given(),
        codec in codec(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        // Damage behind the length, with a checksum that says otherwise.
        let mut bytes = build(&given, codec);
        for (at, byte) in damage {
            let at = 16 + at.index(bytes.len() - 16);
            bytes[at] = byte;
        }
        seal(&mut bytes);
        if let Ok(batch) = Batch::parse(bytes) {
            let (count, newest) = (batch.offsets(), batch.records_max_timestamp());
            let placed = batch.place(felix_core::batch::Place {
                base_offset: felix_core::Offset::new(3),
                generation: felix_core::Generation::FIRST,
                append_time: None,
            });
            let records = placed.records().unwrap();
            prop_assert_eq!(records.len() as u64, count);
            prop_assert!(records.iter().all(|record| record.timestamp <= newest));
            let stored = PlacedBatch::split_from(&mut placed.bytes().clone()).unwrap();
            prop_assert_eq!(stored.records().unwrap(), records);
        }
    }

    #[test]
    fn any_plain_records_are_answered(
        count in 1..5,
        records in proptest::collection::vec(prop_oneof![0..16_u8, any::<u8>()], 0..60),
    ) {
        let (result, allocated) = peak(|| Batch::parse(with_body(count, Codec::None, &records)));
        prop_assert!(allocated < 10_000, "{}", allocated);
        if let Err(error) = result {
            let is_of_records =
                matches!(error, BatchError::Record { .. } | BatchError::LeftOver { .. });
            prop_assert!(is_of_records, "{}", error);
        }
    }
}
