//! One shard's log and the CPU core that owns it.

pub mod log;
