//! The batches of a fetch, as far as a load generator looks into them.

use super::Problem;
use felix_core::batch::{HEADER_BYTES, Header};

/// Where the checksummed part of a batch begins.
const CHECKSUMMED_FROM: usize = 21;

/// A batch that came, header only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchSeen<'a> {
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offset of its last one; not below the first.
    pub last_offset: i64,
    /// Records in it, compressed or not.
    pub records: u32,
    /// Bytes of it, its header included.
    pub bytes: usize,
    /// Whether it holds a marker of the broker's instead of data.
    pub is_control: bool,
    /// All of it.
    pub whole: &'a [u8],
    crc: u32,
}

impl BatchSeen<'_> {
    /// Fails unless the checksum is that of the bytes. Reads all of them.
    ///
    /// # Errors
    /// They came damaged.
    pub fn check_crc(&self) -> Result<(), Problem> {
        let checksummed = self.whole.get(CHECKSUMMED_FROM..).unwrap_or_default();
        let computed = crc32c::crc32c(checksummed);
        if computed == self.crc {
            return Ok(());
        }
        Err(Problem::new(format!(
            "the batch at offset {} came damaged: its checksum is {:08x}, and its bytes make \
             {computed:08x}",
            self.base_offset, self.crc
        )))
    }
}

/// Walks the batches of a partition's records.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

/// The batches in `records`, in order. The last one is left out where it is cut off, which brokers
/// do. A fault ends the walk.
#[must_use]
pub const fn batches(records: &[u8]) -> Batches<'_> {
    Batches { rest: records }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchSeen<'a>, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        // Cut off within its header, even a good batch may look like none.
        if self.rest.len() < HEADER_BYTES {
            return None;
        }
        let header = match Header::read(self.rest) {
            Ok(header) => header,
            Err(error) => return Some(Err(self.stop(&error.to_string()))),
        };
        let (whole, rest) = self.rest.split_at_checked(header.size())?;
        let offsets = header.offset_range();
        let records = u32::try_from(header.count);
        let (Some((_, last)), Ok(records)) = (offsets, records) else {
            return Some(Err(self.stop("its offsets or its count are negative")));
        };
        self.rest = rest;
        Some(Ok(BatchSeen {
            base_offset: header.base_offset,
            last_offset: last.to_wire(),
            records,
            bytes: whole.len(),
            is_control: header.is_control(),
            whole,
            crc: header.crc,
        }))
    }
}

impl Batches<'_> {
    #[cold]
    fn stop(&mut self, fault: &str) -> Problem {
        self.rest = &[];
        Problem::new(format!("the broker sent a batch that is none: {fault}"))
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test knows what it has built")]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use felix_core::batch::{Batch, BatchBuilder, Codec, Place, PlacedBatch};
    use felix_core::{Generation, Offset, Timestamp};

    /// As a log hands it out.
    fn placed(codec: Codec, base: u64, records: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new().codec(codec);
        for _ in 0..records {
            builder = builder.record(Timestamp(1_700_000_000_000), None, Some(b"value"));
        }
        let place = Place {
            base_offset: Offset::new(base),
            generation: Generation::new(3),
            append_time: None,
        };
        let batch = Batch::parse(builder.build()).unwrap().place(place);
        batch.bytes().to_vec()
    }

    fn three() -> Vec<u8> {
        let marker =
            PlacedBatch::generation_start(Offset::new(107), Generation::new(4), Timestamp(9));
        [
            placed(Codec::None, 100, 7),
            marker.bytes().to_vec(),
            placed(Codec::Zstd, 108, 1),
        ]
        .concat()
    }

    #[test]
    fn batches_are_told_by_their_offsets_counts_and_sizes() {
        let bytes = three();
        let seen: Vec<_> = batches(&bytes).map(Result::unwrap).collect();
        let told = seen.iter().map(|batch| {
            (
                batch.base_offset,
                batch.last_offset,
                batch.records,
                batch.is_control,
            )
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (100, 106, 7, false),
                (107, 107, 1, true),
                (108, 108, 1, false)
            ]
        );
        assert_eq!(
            seen.iter().map(|batch| batch.bytes).sum::<usize>(),
            bytes.len()
        );
        for batch in seen {
            assert_eq!(batch.check_crc(), Ok(()));
            let mut whole = BytesMut::from(batch.whole).freeze();
            let stored = PlacedBatch::split_from(&mut whole).unwrap();
            assert_eq!(stored.base_offset().to_wire(), batch.base_offset);
            assert_eq!(stored.last_offset().to_wire(), batch.last_offset);
        }
    }

    #[test]
    fn the_last_batch_is_left_out_where_it_is_cut_off() {
        let bytes = three();
        let last = placed(Codec::Zstd, 108, 1).len();
        for cut in 1..=last {
            let seen = batches(&bytes[..bytes.len() - cut]);
            assert_eq!(seen.map(Result::unwrap).count(), 2, "{cut} bytes cut off");
        }
        assert_eq!(batches(&[]).count(), 0);
    }

    #[test]
    fn a_flipped_bit_is_found_by_the_checksum() {
        let mut bytes = placed(Codec::Lz4, 5, 3);
        let last = bytes.len() - 1;
        bytes[last] ^= 0x10;
        let seen = batches(&bytes).next().unwrap().unwrap();
        let problem = seen.check_crc().unwrap_err().to_string();
        assert!(problem.contains("offset 5"), "{problem}");
    }

    #[test]
    fn what_is_no_batch_ends_the_walk_with_one_problem() {
        let good = placed(Codec::None, 1, 1);
        let old_format = {
            let mut bytes = good.clone();
            bytes[16] = 1;
            bytes
        };
        let no_length = {
            let mut bytes = good.clone();
            bytes[8..12].copy_from_slice(&[0xff; 4]);
            bytes
        };
        let negative_count = {
            let mut bytes = good.clone();
            bytes[57..61].copy_from_slice(&[0xff; 4]);
            bytes
        };
        let last_offset_overflows = {
            let mut bytes = good.clone();
            bytes[..8].copy_from_slice(&i64::MAX.to_be_bytes());
            bytes
        };
        for broken in [old_format, no_length, negative_count, last_offset_overflows] {
            let bytes = [good.clone(), broken, good.clone()].concat();
            let results: Vec<_> = batches(&bytes).collect();
            assert_eq!(results.len(), 2);
            assert!(results[0].is_ok());
            let problem = results[1].clone().unwrap_err().to_string();
            assert!(problem.contains("a batch that is none"), "{problem}");
        }
    }

    #[test]
    fn no_bytes_make_the_walk_panic_or_go_on_for_ever() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let whole = three();
        for _ in 0..50_000 {
            let mut broken = whole.clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..broken.len());
                broken[at] = random.u8(..);
            }
            broken.truncate(random.usize(..=broken.len()));
            let walked = batches(&broken).take(broken.len()).count();
            assert!(walked <= broken.len() / HEADER_BYTES + 1, "{walked}");
        }
    }
}
