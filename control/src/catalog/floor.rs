//! The generations that clients may have seen of streams that are gone.
//!
//! A client that knows a leader epoch of a topic distrusts a smaller one (KIP-320), also of a new
//! topic under the old name. So a new stream begins above all that was ever seen under its name.
//! One number covers the names of all streams whose openings were fewer than the seconds of their
//! lives, which is to say almost all: every stream begins at the seconds since 2020, at least.
//! Only what is above the clock is kept under its own name.

use crate::catalog::StreamPath;
use felix_core::{Generation, Timestamp};
use serde::{Deserialize, Serialize};

/// Seconds from 1970 to 2020.
const SECONDS_TO_2020: i64 = 1_577_836_800;

/// What generations are above.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Of the streams of this name; `None`: of all.
    pub path: Option<StreamPath>,
    /// Above this.
    #[serde(with = "crate::spelling::generation")]
    pub generation: Generation,
}

/// The last generation that another can follow.
pub(crate) const FLOOR_MAX: Generation = Generation::new(Generation::MAX.get() - 1);

/// The seconds from 2020 until `now`. In 2054 that is half of what a generation holds, where it
/// stops: the other half is for openings. A clock before 2020 is wrong, and 1 is as good as any.
#[must_use]
pub fn since_2020(now: Timestamp) -> Generation {
    let last = i64::from(i32::MAX >> 1);
    let seconds = (now.0.div_euclid(1000))
        .saturating_sub(SECONDS_TO_2020)
        .clamp(1, last);
    Generation::new(u32::try_from(seconds).expect("clamped above"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_gives_a_generation_whatever_it_shows() {
        let at = |seconds: i64| since_2020(Timestamp(seconds.saturating_mul(1000))).get();
        assert_eq!(at(SECONDS_TO_2020 + 1000), 1000);
        assert_eq!((at(0), at(i64::MIN)), (1, 1));
        assert_eq!(at(i64::MAX), (i32::MAX >> 1).cast_unsigned());
    }
}
