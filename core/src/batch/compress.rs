//! Compresses records, each codec framed as Kafka's own producer frames it.

use super::codec::Codec;
use super::decompress::XERIAL_MAGIC;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use std::io::Write;

/// Bytes of one snappy block: the reference implementation's choice.
const XERIAL_BLOCK_BYTES: usize = 32 << 10;

/// The compressed form of `records`.
pub(super) fn compress(codec: Codec, records: &[u8]) -> Vec<u8> {
    match codec {
        Codec::None => records.to_vec(),
        Codec::Gzip => gzip(records),
        Codec::Snappy => snappy(records),
        Codec::Lz4 => lz4(records),
        Codec::Zstd => zstd::bulk::compress(records, zstd::DEFAULT_COMPRESSION_LEVEL)
            .expect("compression into memory does not fail"),
    }
}

fn gzip(records: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder
        .write_all(records)
        .expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail")
}

fn snappy(records: &[u8]) -> Vec<u8> {
    let mut out = XERIAL_MAGIC.to_vec();
    // Version and lowest compatible version, both 1.
    out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    let mut encoder = snap::raw::Encoder::new();
    for block in records.chunks(XERIAL_BLOCK_BYTES) {
        let compressed = encoder
            .compress_vec(block)
            .expect("a block is far below 4 GiB");
        let length = u32::try_from(compressed.len()).expect("a block is far below 4 GiB");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&compressed);
    }
    out
}

fn lz4(records: &[u8]) -> Vec<u8> {
    // Java's decoder takes independent blocks only.
    let info = FrameInfo::new()
        .block_mode(BlockMode::Independent)
        .block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder
        .write_all(records)
        .expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail")
}
