//! How much of a stream is kept.

use std::num::NonZeroU64;
use std::time::Duration;

/// How much of each shard of a stream is kept. What lies beyond either bound goes, the oldest
/// segments first and always whole ones; the one that grows stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// Bytes of log that are kept at least; `None`: no bound. A segment goes where that many are
    /// left without it.
    pub bytes: Option<NonZeroU64>,
    /// How old a segment's newest record may be; `None`: no bound.
    pub age: Option<Duration>,
}

impl Retention {
    /// Whether anything is ever removed.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.bytes.is_some() || self.age.is_some()
    }
}
