//! Each codec, given bytes of which the batch around them says that they are right.

use super::batch;
use crate::seeds::batches::around;
use bytes::BytesMut;
use felix_core::Batch;
use felix_core::batch::{BatchError, Codec};

/// The codecs, by the first byte of an input.
pub(crate) const CODECS: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

/// The first byte chooses the codec, the second the number of records; the rest is what the codec
/// is given. Accepted is what decompresses, whether or not records come out.
pub fn run(data: &[u8]) -> bool {
    let [codec, count, body @ ..] = data else {
        return false;
    };
    let codec = CODECS[usize::from(*codec) % CODECS.len()];
    let bytes = around(i32::from(*count).max(1), codec, body);
    batch::run(&bytes)
        || matches!(
            Batch::parse(BytesMut::from(&bytes[..])),
            Err(BatchError::Record { .. } | BatchError::LeftOver { .. })
        )
}
