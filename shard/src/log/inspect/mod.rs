//! Looking at the files of a log from outside: what is in them, and whether it can be. Reads and
//! never writes, by plain system calls on the calling thread, with the parsers that the log itself
//! uses. A broker may be at work on the same files.

mod batches;
mod indexes;
mod leftovers;
mod segment;
mod table;
mod verdict;
mod verify;

use crate::disk::regular;
use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file for reading. An error names it: who asked for it may have asked for a directory.
fn open(path: &Path) -> io::Result<File> {
    regular::open(path).map_err(|error| {
        let name = path.file_name().unwrap_or_default().display();
        io::Error::new(error.kind(), format!("{name}: {error}"))
    })
}

pub use batches::{Batches, Stands};
pub use indexes::{IndexEntry, IndexKind, entries};
pub use segment::{SegmentFile, is_shard, segments};
pub use table::{Table, read_table};
pub use verdict::{Consequence, Finding, Verdict};
pub use verify::{Options, verify};
