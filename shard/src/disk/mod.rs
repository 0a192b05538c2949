//! The seam to the file system: all that the log asks of a disk, in two types. Nothing above it
//! knows a system call, io_uring or the executor.
//!
//! Writes go to the page cache on the core's own thread (`pwrite`: the fastest by far, see
//! `docs/decisions/0001-io.md`); what waits for a device goes through the executor's ring or its
//! blocking threads.

mod dir;
mod file;
mod sys;

pub use dir::{Dir, ReplaceError};
pub use file::{File, Patience};

/// Lets other tasks of this core run, if this one has used up its share.
pub async fn breathe() {
    glommio::yield_if_needed().await;
}
