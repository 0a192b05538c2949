//! The clocks of the tests.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Does `work` and asserts that it took at most `limit`.
pub fn within<T>(limit: Duration, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    let took = begin.elapsed();
    assert!(took <= limit, "it took {took:?} of at most {limit:?}");
    done
}

/// Milliseconds since 1970.
#[must_use]
pub fn wall_ms() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("it is after 1970");
    i64::try_from(now.as_millis()).expect("it is before the year 292 million")
}
