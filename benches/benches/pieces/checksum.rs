//! The checksum of a batch: computed when it arrives, and combined, not computed again, when it is
//! given its place.
//!
//! `crc32c` is the whole batch behind its checksum, in the processor's cache. `place` writes offset
//! and generation; with append time it also changes what the checksum covers. The difference of the
//! two is the combination, and what it saves is `crc32c`. Does not show either on memory that is
//! cold.

use crate::batches::{self, SHAPES};
use bytes::BytesMut;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use felix_core::batch::{Codec, Header, Place};
use felix_core::{Generation, Offset, PlacedBatch, Timestamp};

/// Where the bytes begin that the checksum covers: at the attributes.
const COVERED_FROM: usize = 21;

/// Batches that are parsed in one go. They stay within the processor's second cache.
const BATCHES: BatchSize = BatchSize::NumIterations(8);

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checksum");
    for (shape, records) in SHAPES {
        let sent = batches::bytes(records, Timestamp(1), Codec::None);
        let covered = sent
            .get(COVERED_FROM..)
            .expect("a batch is larger than its header");
        let header = Header::read(&sent).expect("the batch was built by the rules");
        assert_eq!(crc32c::crc32c(covered), header.crc);
        group.throughput(Throughput::Bytes(covered.len() as u64));
        group.bench_function(BenchmarkId::new("crc32c", shape), |bencher| {
            bencher.iter(|| crc32c::crc32c(std::hint::black_box(covered)));
        });
    }
    for (shape, records) in SHAPES {
        let sent = batches::bytes(records, Timestamp(1), Codec::None);
        for (name, append_time) in [
            ("place_create_time", None),
            ("place_append_time", Some(Timestamp(1_700_000_000_000))),
        ] {
            let place = Place {
                base_offset: Offset::new(12_345),
                generation: Generation::new(7),
                append_time,
            };
            check(&sent, place);
            // What is done does not grow with the bytes.
            group.throughput(Throughput::Elements(1));
            group.bench_function(BenchmarkId::new(name, shape), |bencher| {
                bencher.iter_batched(
                    || batches::parsed(&sent),
                    |batch| batch.place(place),
                    BATCHES,
                );
            });
        }
    }
    group.finish();
}

/// The checksum of what is placed is right, and another one where it covers another time.
fn check(sent: &BytesMut, place: Place) {
    let batch = batches::parsed(sent);
    let before = batch.header().crc;
    let placed = batch.place(place);
    let stored =
        PlacedBatch::split_from(&mut placed.bytes().clone()).expect("its checksum is right");
    assert_eq!(stored.base_offset(), place.base_offset);
    assert_eq!(stored.header().crc != before, place.append_time.is_some());
}
