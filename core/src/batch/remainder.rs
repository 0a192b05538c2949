//! What is left of a batch whose first records are in the log already.

use super::client::Batch;
use super::codec::Codec;
use super::compress::compress;
use super::decompress::{Forms, decompress};
use super::error::BatchError;
use super::header;
use super::record;
use crate::limits::BATCH_DECOMPRESSED_BYTES_MAX;

/// Sequences are counted in so many bits, and then from 0 again.
const SEQUENCE_MASK: u32 = i32::MAX.cast_unsigned();

impl Batch {
    /// The batch without its first `present` records, as its producer would have sent the others:
    /// in the same codec, with the sequence of the first one that is left. Records are decompressed
    /// and compressed for it, which is work for a side thread. Panics unless some are left.
    ///
    /// # Errors
    /// The bytes are not those that were parsed: a bit that flipped since gets no new checksum.
    pub fn without_first(&self, present: u32) -> Result<Self, BatchError> {
        let old = &self.header;
        let left = i32::try_from(present)
            .ok()
            .and_then(|present| old.count.checked_sub(present));
        let left = left.filter(|left| *left > 0).expect("records are left");
        header::check_checksum(old, &self.bytes)?;
        let bytes = header::records_of(&self.bytes);
        let forms = Forms::Common;
        let records = decompress(self.codec, forms, bytes, BATCH_DECOMPRESSED_BYTES_MAX)?.records;
        let mut kept = Vec::with_capacity(records.len());
        let max_timestamp = record::cut(old, &records, present, &mut kept)?;
        let mut new = *old;
        new.count = left;
        new.last_offset_delta = left - 1;
        new.max_timestamp = max_timestamp.0;
        if old.has_producer_id() {
            // The one after 2^31 - 1 is 0.
            let sequence = old.base_sequence.cast_unsigned() + present;
            new.base_sequence = (sequence & SEQUENCE_MASK).cast_signed();
        }
        let (new, bytes) = match self.codec {
            Codec::None => new.with_records(&kept),
            codec => new.with_records(&compress(codec, &kept)),
        };
        Ok(Self {
            bytes,
            header: new,
            codec: self.codec,
            records_max_timestamp: max_timestamp,
        })
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test knows what it has built")]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, Place};
    use crate::{Generation, Offset, Timestamp};

    const CODECS: [Codec; 5] = [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ];

    /// Five records from the greatest sequence but one on; the second has the greatest timestamp.
    fn batch(codec: Codec) -> Batch {
        let mut builder = BatchBuilder::new().codec(codec);
        builder = builder.producer(9, 3, i32::MAX - 1);
        for (time, key, value) in [
            (1000, None, Some(&b"first"[..])),
            (5000, Some(&b"k"[..]), None),
            (-1, None, Some(&b""[..])),
            (2000, Some(&b""[..]), Some(&[b'x'; 300][..])),
            (1999, None, Some(&b"last"[..])),
        ] {
            builder = builder
                .record(Timestamp(time), key, value)
                .header(b"h", None)
                .header(b"h", Some(value.unwrap_or_default()));
        }
        Batch::parse(builder.build()).unwrap()
    }

    fn placed(batch: Batch, base: u64) -> Vec<crate::batch::Record> {
        let place = Place {
            base_offset: Offset::new(base),
            generation: Generation::FIRST,
            append_time: None,
        };
        batch.place(place).records().unwrap()
    }

    #[test]
    fn what_is_left_of_a_batch_is_what_its_producer_would_have_sent() {
        for codec in CODECS {
            for (present, sequence, max_timestamp) in [
                (1, i32::MAX, 5000),
                (2, 0, 2000),
                (3, 1, 2000),
                (4, 2, 1999),
            ] {
                let left = batch(codec).without_first(present).unwrap();
                // Whatever a client's batch has to be, this is.
                let parsed = Batch::parse(left.bytes.clone()).unwrap();
                assert_eq!(parsed.header(), left.header());
                assert_eq!(parsed.codec(), codec);
                let header = parsed.header();
                assert_eq!((header.producer_id, header.producer_epoch), (9, 3));
                assert_eq!(header.base_sequence, sequence, "{present}");
                assert_eq!(header.max_timestamp, max_timestamp);
                assert_eq!(left.records_max_timestamp(), parsed.records_max_timestamp());
                let whole = placed(batch(codec), 40);
                let skipped = usize::try_from(present).unwrap();
                assert_eq!(placed(parsed, 40 + u64::from(present)), whole[skipped..]);
            }
        }
    }

    #[test]
    fn a_bit_that_flipped_since_the_batch_was_parsed_is_found() {
        for codec in CODECS {
            for at in header::HEADER_BYTES..batch(codec).size() {
                let mut damaged = batch(codec);
                damaged.bytes[at] ^= 0x80;
                let left = damaged.without_first(2);
                assert!(matches!(left, Err(BatchError::Checksum { .. })));
            }
        }
    }
}
