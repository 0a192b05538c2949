//! Decompresses records. What a peer declares about sizes decides nothing: output grows with the
//! bytes that come out, and stops at a bound, which is [`BATCH_DECOMPRESSED_BYTES_MAX`] at most.

use super::codec::Codec;
use super::cursor::Cursor;
use super::error::BatchError;
use crate::limits::BATCH_DECOMPRESSED_BYTES_MAX;
use bytes::Bytes;
use std::borrow::Cow;
use std::io::{self, Read};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// How the framing of the snappy-java library begins, which Kafka made its own.
pub(super) const XERIAL_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";

/// Version and lowest compatible version, which some clients write in the wrong byte order: they
/// are stepped over.
const XERIAL_VERSION_BYTES: usize = 8;

/// No snappy block grows more: its best element is 3 bytes for 64.
const SNAPPY_RATIO_MAX: usize = 22;

/// How the frame of LZ4 begins. The library would take its legacy frame as well, Kafka does not.
const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// In the byte behind it: the version, and whether blocks are independent of one another.
const LZ4_VERSION_AND_INDEPENDENCE: u8 = 0xe0;
/// Version 1, and blocks that refer to those before them.
const LZ4_LINKED: u8 = 0x40;

/// How each member of gzip begins.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Frames with a window up to 2^23 bytes (8 MiB: what every decoder has to support, RFC 8878) are
/// decompressed step by step; for a larger one the output itself serves as the window, so that no
/// second buffer of a size that the frame asks for is needed.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How a zstd frame begins.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The largest window that zstd takes where it is told nothing: Java consumers tell it nothing.
const ZSTD_WINDOW_BYTES_COMMON: u64 = 1 << 27;

/// Output begins with this many bytes, or four for each compressed one.
const OUTPUT_BYTES_MIN: usize = 1 << 10;

/// How large to make an output that needs `wanted` bytes: from half the bound on the whole of it,
/// so that old and new together, while it grows, are never more than one and a half times the
/// bound. The whole is one byte more, to tell "exactly full" from "more to come".
const fn output_size(wanted: usize, bytes_max: usize) -> usize {
    if wanted > bytes_max / 2 {
        bytes_max + 1
    } else {
        wanted
    }
}

/// Beginning a piece (a gzip member, a zstd or LZ4 frame, a snappy block) is as much work as this
/// many bytes, however little is in it. Honest pieces are larger, or there is but one.
const PIECE_BYTES: usize = 4 << 10;

/// Which forms of a codec are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Forms {
    /// Those that every common consumer reads. One batch of another form stops a consumer for good:
    /// the Java client throws at every look at LZ4 blocks that are linked and at a large window of
    /// zstd, and behind the first of several gzip members or joined snappy streams librdkafka goes
    /// no further without a word, and franz-go asks for the same again and again.
    Common,
    /// All that make sense. What is in a log stays readable, whoever put it there.
    All,
}

/// What came out of compressed bytes.
pub(super) struct Decompressed<'a> {
    /// The records.
    pub(super) records: Cow<'a, [u8]>,
    /// How much work it was, in bytes: those of the records, or more where there were many pieces.
    pub(super) work_bytes: usize,
}

/// The records in `bytes`, decompressed, if they have one of `forms`, are no more than `bytes_max`
/// and no more work than so many bytes may be.
pub(super) fn decompress(
    codec: Codec,
    forms: Forms,
    bytes: &[u8],
    bytes_max: usize,
) -> Result<Decompressed<'_>, BatchError> {
    assert!(bytes_max <= BATCH_DECOMPRESSED_BYTES_MAX);
    let mut pieces = Pieces {
        left: (bytes_max / PIECE_BYTES).max(1),
        begun: 0,
    };
    let output = match codec {
        Codec::None if bytes.len() <= bytes_max => {
            return Ok(Decompressed {
                records: Cow::Borrowed(bytes),
                work_bytes: bytes.len(),
            });
        }
        Codec::None => Err(Failure::TooLarge),
        Codec::Gzip => gzip(bytes, forms, bytes_max, &mut pieces),
        Codec::Snappy => snappy(bytes, forms, bytes_max, &mut pieces),
        Codec::Lz4 => pieces.begin().and_then(|()| lz4(bytes, forms, bytes_max)),
        Codec::Zstd => zstd(bytes, forms, bytes_max, &mut pieces),
    };
    match output {
        Ok(output) => Ok(Decompressed {
            work_bytes: output.len().max(pieces.begun * PIECE_BYTES).min(bytes_max),
            records: Cow::Owned(output),
        }),
        Err(Failure::Damaged) => Err(BatchError::Compression { codec }),
        Err(Failure::Uncommon) => Err(BatchError::UncommonForm { codec }),
        Err(Failure::TooLarge) => Err(BatchError::DecompressedTooLarge { bytes_max }),
    }
}

/// Counts pieces.
struct Pieces {
    left: usize,
    begun: usize,
}

impl Pieces {
    /// One more begins, if it may.
    fn begin(&mut self) -> Result<(), Failure> {
        self.left = self.left.checked_sub(1).ok_or(Failure::TooLarge)?;
        self.begun += 1;
        Ok(())
    }
}

/// The records in `bytes` of a log, decompressed within a bound, as [`decompress`] has it; the same
/// bytes where they are not compressed.
pub(super) fn decompress_shared(
    codec: Codec,
    bytes: &Bytes,
    bytes_max: usize,
) -> Result<Bytes, BatchError> {
    let records = decompress(codec, Forms::All, bytes, bytes_max)?.records;
    Ok(match records {
        Cow::Borrowed(same) => bytes.slice_ref(same),
        Cow::Owned(output) => Bytes::from(output),
    })
}

/// Why decompression stopped.
#[derive(Debug)]
enum Failure {
    Damaged,
    /// Sound, and in a form that was not to be taken.
    Uncommon,
    TooLarge,
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        // Input and output are memory: whatever failed is the data.
        Self::Damaged
    }
}

/// Decompressed bytes so far.
struct Output {
    /// Filled up to `filled`, then zeros to write over.
    bytes: Vec<u8>,
    filled: usize,
    bytes_max: usize,
}

impl Output {
    fn new(compressed: &[u8], bytes_max: usize) -> Self {
        let start = compressed.len().saturating_mul(4).max(OUTPUT_BYTES_MIN);
        Self {
            bytes: vec![0; output_size(start, bytes_max)],
            filled: 0,
            bytes_max,
        }
    }

    /// Room for at least one more byte.
    fn space(&mut self) -> Result<&mut [u8], Failure> {
        if self.filled == self.bytes.len() {
            if self.filled > self.bytes_max {
                return Err(Failure::TooLarge);
            }
            let grown = output_size(self.bytes.len() * 2, self.bytes_max);
            // Exact: the vector's own doubling would pass the bound.
            self.bytes.reserve_exact(grown - self.bytes.len());
            self.bytes.resize(grown, 0);
        }
        Ok(self
            .bytes
            .get_mut(self.filled..)
            .expect("filled is at most the length"))
    }

    /// Counts bytes written into the space.
    fn advance(&mut self, count: usize) {
        self.filled += count;
        assert!(self.filled <= self.bytes.len());
    }

    fn read_all(&mut self, mut from: impl Read) -> Result<(), Failure> {
        loop {
            match from.read(self.space()?)? {
                0 => return Ok(()),
                count => self.advance(count),
            }
        }
    }

    fn finish(mut self) -> Result<Vec<u8>, Failure> {
        if self.filled > self.bytes_max {
            return Err(Failure::TooLarge);
        }
        self.bytes.truncate(self.filled);
        Ok(self.bytes)
    }
}

/// One member, or more of them, as RFC 1952 has it.
fn gzip(
    mut bytes: &[u8],
    forms: Forms,
    bytes_max: usize,
    pieces: &mut Pieces,
) -> Result<Vec<u8>, Failure> {
    let mut output = Output::new(bytes, bytes_max);
    loop {
        pieces.begin()?;
        let mut member = flate2::bufread::GzDecoder::new(bytes);
        output.read_all(&mut member)?;
        bytes = member.into_inner();
        if bytes.is_empty() {
            return output.finish();
        }
        if forms == Forms::Common && bytes.starts_with(&GZIP_MAGIC) {
            return Err(Failure::Uncommon);
        }
    }
}

fn snappy(
    bytes: &[u8],
    forms: Forms,
    bytes_max: usize,
    pieces: &mut Pieces,
) -> Result<Vec<u8>, Failure> {
    let mut output = Vec::new();
    if !bytes.starts_with(&XERIAL_MAGIC) {
        pieces.begin()?;
        snappy_block(bytes, &mut output, bytes_max)?;
        return Ok(output);
    }
    let mut cursor = Cursor::new(bytes);
    let mut streams = 0_usize;
    while !cursor.is_empty() {
        // Streams that were joined have a header in the middle.
        if cursor.rest().starts_with(&XERIAL_MAGIC) {
            streams += 1;
            if streams > 1 && forms == Forms::Common {
                return Err(Failure::Uncommon);
            }
            cursor
                .bytes(XERIAL_MAGIC.len() + XERIAL_VERSION_BYTES)
                .ok_or(Failure::Damaged)?;
            continue;
        }
        let length = cursor.i32().ok_or(Failure::Damaged)?;
        let length = usize::try_from(length).map_err(|_| Failure::Damaged)?;
        let block = cursor.bytes(length).ok_or(Failure::Damaged)?;
        pieces.begin()?;
        snappy_block(block, &mut output, bytes_max)?;
    }
    Ok(output)
}

fn snappy_block(block: &[u8], output: &mut Vec<u8>, bytes_max: usize) -> Result<(), Failure> {
    let declared = snap::raw::decompress_len(block).map_err(|_| Failure::Damaged)?;
    // Believed only as far as these bytes can reach.
    if declared > block.len().saturating_mul(SNAPPY_RATIO_MAX) {
        return Err(Failure::Damaged);
    }
    let start = output.len();
    let end = start + declared;
    if end > bytes_max {
        return Err(Failure::TooLarge);
    }
    if end > output.capacity() {
        let wanted = end.max(output.capacity() * 2);
        output.reserve_exact(output_size(wanted, bytes_max) - start);
    }
    output.resize(end, 0);
    let space = output
        .get_mut(start..)
        .expect("the end is not before the start");
    let written = snap::raw::Decoder::new()
        .decompress(block, space)
        .map_err(|_| Failure::Damaged)?;
    if written == declared {
        Ok(())
    } else {
        Err(Failure::Damaged)
    }
}

/// One frame with its end mark and nothing behind it, as Kafka has it.
fn lz4(bytes: &[u8], forms: Forms, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let descriptor = bytes.strip_prefix(&LZ4_MAGIC).ok_or(Failure::Damaged)?;
    let is_linked = descriptor
        .first()
        .is_some_and(|flags| flags & LZ4_VERSION_AND_INDEPENDENCE == LZ4_LINKED);
    if is_linked && forms == Forms::Common {
        return Err(Failure::Uncommon);
    }
    let mut input = WatchedInput {
        rest: bytes,
        ran_out: false,
    };
    let mut output = Output::new(bytes, bytes_max);
    output.read_all(lz4_flex::frame::FrameDecoder::new(&mut input))?;
    // The library takes an end of input between blocks for the end of the frame.
    if input.ran_out || !input.rest.is_empty() {
        return Err(Failure::Damaged);
    }
    output.finish()
}

/// Input that remembers whether more was asked of it than there was.
struct WatchedInput<'a> {
    rest: &'a [u8],
    ran_out: bool,
}

impl Read for WatchedInput<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(into)?;
        self.ran_out |= count == 0 && !into.is_empty();
        Ok(count)
    }
}

/// One or more frames.
fn zstd(
    bytes: &[u8],
    forms: Forms,
    bytes_max: usize,
    pieces: &mut Pieces,
) -> Result<Vec<u8>, Failure> {
    let mut rest = bytes;
    while !rest.is_empty() {
        pieces.begin()?;
        if forms == Forms::Common && zstd_window(rest) > ZSTD_WINDOW_BYTES_COMMON {
            return Err(Failure::Uncommon);
        }
        let frame = zstd::zstd_safe::find_frame_compressed_size(rest);
        // Whatever is no frame is found out again below.
        let Some(after) = frame.ok().and_then(|bytes| rest.get(bytes..)) else {
            break;
        };
        rest = after;
    }
    match zstd_stepwise(bytes, bytes_max)? {
        Some(output) => Ok(output),
        None => zstd_whole(bytes, bytes_max),
    }
}

/// The window that the frame at the front asks for; 0 where it asks for none (RFC 8878, 3.1.1.1).
fn zstd_window(bytes: &[u8]) -> u64 {
    const SINGLE_SEGMENT: u8 = 1 << 5;
    match bytes.strip_prefix(&ZSTD_MAGIC) {
        Some([descriptor, window, ..]) if descriptor & SINGLE_SEGMENT == 0 => {
            let base = 1_u64 << (10 + (window >> 3));
            base + base / 8 * u64::from(window & 7)
        }
        Some(_) | None => 0,
    }
}

/// All frames, step by step; `None` if one asks for too large a window.
fn zstd_stepwise(bytes: &[u8], bytes_max: usize) -> Result<Option<Vec<u8>>, Failure> {
    let mut context = DCtx::create();
    context
        .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
        .expect("the library supports this window");
    let mut output = Output::new(bytes, bytes_max);
    let mut input = InBuffer::around(bytes);
    loop {
        let space = output.space()?;
        let room = space.len();
        let mut written = OutBuffer::around(space);
        let wanted = match context.decompress_stream(&mut written, &mut input) {
            Ok(wanted) => wanted,
            Err(code) if zstd_error(code) == ZSTD_WINDOW_TOO_LARGE => return Ok(None),
            Err(_) => return Err(Failure::Damaged),
        };
        let count = written.pos();
        output.advance(count);
        if input.pos() == bytes.len() {
            if wanted == 0 {
                return output.finish().map(Some);
            }
            if count < room {
                // All is read and written, and the frame has not ended.
                return Err(Failure::Damaged);
            }
        }
    }
}

/// All frames in one go, into an output that is large enough or as large as allowed.
fn zstd_whole(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let mut output = Vec::new();
    for size in [bytes_max / 8, bytes_max] {
        output.clear();
        output.reserve_exact(size);
        match DCtx::create().decompress(&mut output, bytes) {
            Ok(_) => return Ok(output),
            Err(code) if zstd_error(code) == ZSTD_OUTPUT_TOO_SMALL => {}
            Err(_) => return Err(Failure::Damaged),
        }
    }
    Err(Failure::TooLarge)
}

// Numbers of `zstd_errors.h`, stable as it says; the library returns them negated.
const ZSTD_WINDOW_TOO_LARGE: usize = 16;
const ZSTD_OUTPUT_TOO_SMALL: usize = 70;

const fn zstd_error(code: usize) -> usize {
    code.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const MAX: usize = BATCH_DECOMPRESSED_BYTES_MAX;

    fn one() -> Pieces {
        Pieces { left: 1, begun: 0 }
    }

    fn frame(window_log: u32) -> Vec<u8> {
        let mut out = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        out.window_log(window_log).unwrap();
        out.write_all(&[b'x'; 1000]).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn a_zstd_frame_does_not_choose_how_much_memory_a_window_takes() {
        let small = zstd_stepwise(&frame(ZSTD_WINDOW_LOG_MAX), MAX).unwrap();
        assert_eq!(small, Some(vec![b'x'; 1000]));
        assert_eq!(
            zstd_stepwise(&frame(ZSTD_WINDOW_LOG_MAX + 1), MAX).unwrap(),
            None
        );
        let zstd = |frame: &[u8]| zstd(frame, Forms::Common, MAX, &mut one());
        assert_eq!(zstd(&frame(27)).unwrap(), [b'x'; 1000]);
        // The window may not change the answer of a damaged frame.
        let mut damaged = frame(27);
        damaged.pop();
        assert!(matches!(zstd(&damaged), Err(Failure::Damaged)));
    }

    #[test]
    fn a_log_may_hold_more_forms_than_a_client_may_send_within_the_same_bounds() {
        let member = |body: &[u8]| {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(body).unwrap();
            out.finish().unwrap()
        };
        let read = |forms, body: &[u8]| {
            let read = decompress(Codec::Gzip, forms, body, MAX);
            read.map(|decompressed| decompressed.records.into_owned())
        };
        let codec = Codec::Gzip;
        let two = [member(b"a"), member(b"b")].concat();
        assert_eq!(read(Forms::All, &two).unwrap(), b"ab");
        let error = read(Forms::Common, &two).unwrap_err();
        assert_eq!(error, BatchError::UncommonForm { codec });
        // What follows and is no member is damage.
        let junk = [member(b"a"), b"junk".to_vec()].concat();
        for forms in [Forms::All, Forms::Common] {
            let error = read(forms, &junk).unwrap_err();
            assert_eq!(error, BatchError::Compression { codec });
        }
        let many = member(b"").repeat(MAX / PIECE_BYTES + 1);
        let too_large = BatchError::DecompressedTooLarge { bytes_max: MAX };
        assert_eq!(read(Forms::All, &many).unwrap_err(), too_large);
    }

    #[test]
    fn the_snappy_ratio_holds_for_the_best_that_snappy_can_do() {
        let block = snap::raw::Encoder::new()
            .compress_vec(&vec![0; 16 << 20])
            .unwrap();
        let mut output = Vec::new();
        snappy_block(&block, &mut output, MAX).unwrap();
        assert_eq!(output.len(), 16 << 20);
    }
}
