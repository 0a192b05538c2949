//! The `felix-broker` binary.
fn main() {}
