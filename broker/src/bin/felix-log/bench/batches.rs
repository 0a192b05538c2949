//! Batches as a producer sends them.

use bytes::BytesMut;
use felix_core::batch::BatchBuilder;
use felix_core::{Batch, Timestamp};

/// A larger batch has several records of about so many bytes.
const RECORD_BYTES: usize = 1024;

/// Makes equal batches.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    bytes: BytesMut,
    records: usize,
}

impl Batches {
    /// Of about so many bytes each.
    pub(crate) fn of(batch_bytes: usize) -> Self {
        let records = batch_bytes.div_ceil(RECORD_BYTES);
        let build = |value_bytes: usize| {
            let value = noise(value_bytes);
            let builder = (0..records).fold(BatchBuilder::new(), |builder, _| {
                builder.record(Timestamp(1), None, Some(&value))
            });
            builder.build()
        };
        let overhead = build(0).len();
        let bytes = build(batch_bytes.saturating_sub(overhead) / records);
        Self { bytes, records }
    }

    /// The bytes of one.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Records of one.
    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// One, parsed as the listener parses what it receives.
    pub(crate) fn batch(&self) -> Batch {
        Batch::parse(self.bytes.clone()).expect("the batch was built by the rules")
    }
}

/// Bytes that do not repeat soon.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x00fe_11c5_u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..bytes).map(|_| byte()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_about_the_bytes_that_were_asked_for() {
        for wanted in [128, 1024, 16 << 10, 1 << 20] {
            let batches = Batches::of(wanted);
            let size = batches.bytes().len();
            assert!(size.abs_diff(wanted) <= wanted / 20, "{size} of {wanted}");
            assert_eq!(batches.batch().size(), size);
        }
    }
}
