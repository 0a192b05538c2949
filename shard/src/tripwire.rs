//! A shard over which a core stumbles: an append to it panics. For tests of what follows, in builds
//! with debug assertions alone.

use std::cell::RefCell;

thread_local! {
    static STUMBLES_OVER: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on this thread panics where a batch is appended to the shard of that name.
pub fn stumble_over(shard: String) {
    STUMBLES_OVER.set(Some(shard));
}

/// Panics where this thread is to stumble over the shard.
pub(crate) fn touch(shard: &str) {
    STUMBLES_OVER.with_borrow(|over| {
        assert!(
            over.as_deref() != Some(shard),
            "a test has this core stumble here"
        );
    });
}
