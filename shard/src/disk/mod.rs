//! The seam to the disk: all that the log asks of one, in two types. Nothing above it knows a system
//! call, io_uring or the executor.
//!
//! Writes go to the page cache on the core's own thread (`pwrite`: the fastest by far, see
//! `docs/decisions/0001-io.md`); what waits for a device goes through the executor's ring or its
//! blocking threads. Where the thread runs a simulation, the disk is one in memory, which loses what
//! a device would lose.

mod calls;
mod descriptors;
mod dir;
mod file;
mod free;
mod last_words;
#[cfg(test)]
pub(crate) mod memory;
mod presence;
mod real_dir;
mod real_file;
mod refusal;
pub(crate) mod regular;
mod reserve;
mod sys;

pub use crate::runtime::breathe;
pub use calls::Calls;
pub(crate) use descriptors::{keep_open, keep_time, open_files};
pub use dir::{Dir, ReplaceError};
pub use file::{File, Patience};
pub use free::Free;
pub(crate) use last_words::add_to_file;
pub(crate) use presence::{ask, is_empty, is_gone};
pub(crate) use real_file::device_reads;
pub use refusal::{is_full, is_out_of_files};
pub use reserve::Reserve;
