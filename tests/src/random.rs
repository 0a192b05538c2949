//! Numbers that look random and come back with their seed.

use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From `FELIX_TESTS_SEED`, or else from the clock. Prints the seed, so that a failed run can
    /// be had again.
    #[must_use]
    pub fn from_environment() -> Self {
        let given = std::env::var("FELIX_TESTS_SEED").ok();
        let seed = given.map(|seed| seed.parse().expect("FELIX_TESTS_SEED is a whole number"));
        let seed = seed.unwrap_or_else(|| {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("it is after 1970");
            u64::from(now.subsec_nanos()) ^ now.as_secs()
        });
        eprintln!("FELIX_TESTS_SEED={seed}");
        Self(seed)
    }

    /// A number within `range`.
    pub fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        assert!(!range.is_empty());
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        range.start + mixed % (range.end - range.start)
    }
}
