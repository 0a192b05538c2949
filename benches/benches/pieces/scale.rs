//! How much is set up: all of it to be measured, little to be run once.

/// `measured` where the benches are measured, `once` where they are only run, as `cargo test` does.
pub(crate) fn of<T>(measured: T, once: T) -> T {
    // This is how criterion tells the two apart.
    if std::env::args().any(|argument| argument == "--bench") {
        measured
    } else {
        once
    }
}
