//! One Apache Kafka for many tests.

use felix_tests::Apache;
use std::sync::{Arc, Weak};

/// An Apache Kafka that answers, the same for all tests that run at a time: it takes seconds to
/// start. Whoever lets go of it last ends it, so hold it as long as it is asked.
#[expect(
    clippy::disallowed_types,
    reason = "the tests of a process are threads, and share it"
)]
pub(crate) fn shared() -> Arc<Apache> {
    static SHARED: std::sync::Mutex<Weak<Apache>> = std::sync::Mutex::new(Weak::new());
    // A test that failed to start it leaves it to the next one to try.
    let mut shared = SHARED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return running;
    }
    let started = Arc::new(Apache::start());
    *shared = Arc::downgrade(&started);
    started
}
