//! Validating a client's batch: header, checksum, and every record, decompressed where needed.
//!
//! Shows what a core spends on a batch before it may go anywhere. Does not show the receiving of
//! the bytes, which here lie in the processor's cache, nor a hand-over to the heavy threads, which
//! take what is too much for a core: among these, the gzip batch.

use crate::batches::{self, MANY, SHAPES};
use bytes::BytesMut;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use felix_core::batch::Codec;
use felix_core::{Batch, Timestamp};

/// Copies that are made in one go. They stay within the processor's second cache.
const COPIES: BatchSize = BatchSize::NumIterations(8);

/// The codecs, by their names in the results.
const CODECS: [(&str, Codec); 4] = [
    ("gzip", Codec::Gzip),
    ("snappy", Codec::Snappy),
    ("lz4", Codec::Lz4),
    ("zstd", Codec::Zstd),
];

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("validate");
    let mut one = |shape: &str, name: &str, codec: Codec, records: usize| {
        let sent = batches::bytes(records, Timestamp(1), codec);
        check(&sent, codec, records);
        // Of a compressed batch, too, the bytes of its records count.
        let bytes = batches::bytes(records, Timestamp(1), Codec::None).len();
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new(shape, name), |bencher| {
            bencher.iter_batched(|| sent.clone(), Batch::parse, COPIES);
        });
    };
    for (shape, records) in SHAPES {
        one(shape, "uncompressed", Codec::None, records);
    }
    for (name, codec) in CODECS {
        one("63x1KiB", name, codec, MANY);
    }
    group.finish();
}

/// The batch is valid, and one that differs by a bit is not.
fn check(sent: &BytesMut, codec: Codec, records: usize) {
    let batch = Batch::parse(sent.clone()).expect("the batch was built by the rules");
    assert_eq!(batch.codec(), codec);
    assert_eq!(batch.offsets(), records as u64);
    let mut damaged = sent.clone();
    *damaged.last_mut().expect("a batch has bytes") ^= 1;
    assert!(Batch::parse(damaged).is_err());
}
