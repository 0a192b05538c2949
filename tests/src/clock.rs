//! The clocks of the tests.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longer than anything that is asked for takes on a healthy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until `holds` does, for what another process can only be asked for and not awaited, such as
/// a broker's numbers.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

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
