//! Something costly that many tests of a process use at once.

use std::sync::{Arc, PoisonError, Weak};

/// Made by the first test that wants it, and dropped with the last that has it: what lies in a
/// `static` itself is never dropped, and a process in it would live on.
#[derive(Debug)]
#[expect(
    clippy::disallowed_types,
    reason = "tests run on threads of their own and wait for each other here"
)]
pub struct Shared<T>(std::sync::Mutex<Weak<T>>);

impl<T> Shared<T> {
    /// Nothing yet.
    #[must_use]
    #[expect(clippy::disallowed_types, reason = "as above")]
    pub const fn new() -> Self {
        Self(std::sync::Mutex::new(Weak::new()))
    }

    /// The one that is there, or a new one. A test that failed to make it leaves it to the next.
    pub fn get(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return running;
        }
        let made = Arc::new(make());
        *shared = Arc::downgrade(&made);
        made
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}
