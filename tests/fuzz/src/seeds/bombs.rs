//! Small bytes that become large.

use felix_core::batch::Codec;
use std::io::Write;

/// Bytes that decompress to `bytes` zeros; `None` for no codec, which cannot lie.
#[must_use]
pub fn bomb(codec: Codec, bytes: usize) -> Option<Vec<u8>> {
    compress(codec, &vec![0; bytes])
}

/// `plain` as a producer of the codec sends it.
#[must_use]
pub fn compress(codec: Codec, plain: &[u8]) -> Option<Vec<u8>> {
    match codec {
        Codec::None => None,
        Codec::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            out.write_all(plain).expect("memory takes everything");
            Some(out.finish().expect("memory takes everything"))
        }
        Codec::Snappy => {
            let mut encoder = snap::raw::Encoder::new();
            Some(encoder.compress_vec(plain).expect("it is not too long"))
        }
        Codec::Lz4 => {
            let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
            out.write_all(plain).expect("memory takes everything");
            Some(out.finish().expect("memory takes everything"))
        }
        Codec::Zstd => Some(zstd::stream::encode_all(plain, 19).expect("memory takes everything")),
    }
}
