//! The small files beside the segments.

use crate::log::checkpoint::{self, Checkpoint};
use crate::log::error::Fault;
use crate::log::generations::{self, Generations};
use crate::log::producers;
use crate::log::table::{BYTES_MAX, unframe};
use felix_core::producers::{Known, Loading, Producers};
use felix_core::{Generation, Offset, Timestamp};
use std::io::{self, Read};
use std::path::Path;

/// What one of the small files says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Table {
    /// `checkpoint`.
    Checkpoint {
        /// Everything below this is on the device.
        recovery_point: Offset,
        /// The lowest offset that can be read.
        start: Offset,
        /// From here to the recovery point lie only control batches.
        visible_end: Offset,
        /// No append time given out is above this.
        append_time: Timestamp,
        /// When the first batch of the segment that grows was appended, if it says so.
        begun: Option<Timestamp>,
    },
    /// `generations`: each with the offset of its first record.
    Generations(Vec<(Generation, Offset)>),
    /// `producers`.
    Producers {
        /// Batches below this are taken into account.
        end: Offset,
        /// The producers.
        known: Vec<Known>,
    },
}

/// Reads one of the small files, whatever its name: `None` where it has no magic of theirs, and
/// what is wrong at which byte where it is damaged.
///
/// # Errors
/// The disk's own fault.
pub fn read_table(path: &Path) -> io::Result<Option<Result<Table, (u64, Fault)>>> {
    let Some(bytes) = load(path)? else {
        return Ok(Some(Err((0, Fault::Layout))));
    };
    let parsed = match bytes.get(..4) {
        Some(magic) if magic == checkpoint::MAGIC => checkpoint(bytes).map(Into::into),
        Some(magic) if magic == generations::MAGIC => generations(bytes).map(Into::into),
        Some(magic) if magic == producers::MAGIC => snapshot(bytes).map(|(table, end)| {
            let known = table.list();
            Table::Producers { end, known }
        }),
        Some(_) | None => return Ok(None),
    };
    Ok(Some(parsed))
}

/// Its bytes; `None`: more than any has.
pub(super) fn load(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = super::open(path)?
        .take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    Ok((read as u64 <= BYTES_MAX).then_some(bytes))
}

/// A checkpoint out of the bytes of its file.
pub(super) fn checkpoint(bytes: Vec<u8>) -> Result<Checkpoint, (u64, Fault)> {
    let payload = unframe(bytes, checkpoint::MAGIC).map_err(at)?;
    Checkpoint::decode(&payload)
        .filter(Checkpoint::check)
        .ok_or((8, Fault::Layout))
}

/// A generation table out of the bytes of its file.
pub(super) fn generations(bytes: Vec<u8>) -> Result<Generations, (u64, Fault)> {
    let payload = unframe(bytes, generations::MAGIC).map_err(at)?;
    let table = Generations::decode(&payload).ok_or((8, Fault::Layout))?;
    if table.last() == Some(Generation::MAX) {
        let last = table.entries().count() - 1;
        return Err(at((
            8 + last * generations::ENTRY_BYTES,
            Fault::LastGeneration,
        )));
    }
    Ok(table)
}

/// A producer snapshot out of the bytes of its file, and the log end that it describes.
pub(super) fn snapshot(bytes: Vec<u8>) -> Result<(Producers, Offset), (u64, Fault)> {
    let payload = unframe(bytes, producers::MAGIC).map_err(at)?;
    let layout = |_| (8, Fault::Layout);
    let mut loading = Loading::new(&payload, producers::nobody(Offset::ZERO)).map_err(layout)?;
    while !loading.step(u32::MAX).map_err(layout)? {}
    let end = loading.end();
    Ok((loading.into_table(), end))
}

fn at((position, fault): (usize, Fault)) -> (u64, Fault) {
    (position as u64, fault)
}

impl From<Checkpoint> for Table {
    fn from(checkpoint: Checkpoint) -> Self {
        Self::Checkpoint {
            recovery_point: checkpoint.recovery_point,
            start: checkpoint.start,
            visible_end: checkpoint.visible_end,
            append_time: checkpoint.append_time,
            begun: checkpoint.begun,
        }
    }
}

impl From<Generations> for Table {
    fn from(table: Generations) -> Self {
        Self::Generations(table.entries().collect())
    }
}
