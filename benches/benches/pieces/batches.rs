//! Batches as producers send them.

use bytes::BytesMut;
use felix_core::batch::{BatchBuilder, Codec};
use felix_core::{Batch, Timestamp};
use std::fmt::Write;

/// Bytes of each record's value.
pub(crate) const VALUE_BYTES: usize = 1024;

/// Records of a batch that is just below 64 KiB.
pub(crate) const MANY: usize = 63;

/// What the values are made from: the same in every run.
const SEED: u64 = 0x00fe_11c5;

/// The two shapes of a batch, by their names in the results.
pub(crate) const SHAPES: [(&str, usize); 2] = [("1x1KiB", 1), ("63x1KiB", MANY)];

/// The bytes of a batch of so many records. The first record has this timestamp, each other one a
/// millisecond more.
pub(crate) fn bytes(records: usize, first: Timestamp, codec: Codec) -> BytesMut {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut builder = BatchBuilder::new().codec(codec);
    let timestamps = (first.0..).map(Timestamp).take(records);
    for timestamp in timestamps {
        builder = builder.record(timestamp, None, Some(&value(&mut random)));
    }
    builder.build()
}

/// The same, parsed.
pub(crate) fn parsed(bytes: &BytesMut) -> Batch {
    Batch::parse(bytes.clone()).expect("the batch was built by the rules")
}

/// A value like a line of a log of visits: field names repeat, what they hold does not, so that
/// codecs find about what they find in real records.
fn value(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut text = String::new();
    while text.len() < VALUE_BYTES {
        let (visitor, page, micros) = (random.u64(..), random.u16(..900), random.u32(..50_000));
        write!(
            text,
            r#"{{"visitor":"{visitor:016x}","page":"/articles/{page}","took_us":{micros}}},"#
        )
        .expect("a string takes all that is written");
    }
    text.truncate(VALUE_BYTES);
    text.into_bytes()
}
