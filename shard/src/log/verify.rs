//! Verifying what stands in a segment's file, batch by batch.

use super::error::{Fault, LogError};
use super::segment::Segment;
use super::walk::{Step, Walk};
use crate::disk::{File, Patience};
use crate::runtime;
use bytes::Bytes;
use felix_core::limits::{LOG_ROOM, SEGMENT_SPAN_MAX};
use felix_core::{BatchError, Generation, Offset, PlacedBatch};
use std::io;

/// Bytes read at once from a log that is scanned.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of a batch whose checksum is computed on the core: about 100 us. The checksum of a larger
/// one holds the core for longer than a task may.
pub(super) const CHECKED_AT_ONCE_MAX: usize = 1 << 20;

/// What stands at a place of a file after every check.
pub(super) enum Verified {
    Batch(PlacedBatch),
    End,
    Fault(Fault),
}

/// Whether this recovery is broken on purpose, and goes on behind a batch that is not whole.
#[cfg(test)]
pub(super) fn skips_holes() -> bool {
    runtime::broken::is(runtime::broken::Broken::PastHole)
}

/// Verifies the batch at which the walk stands, and steps over it.
pub(super) async fn verified(
    segment: &Segment,
    walk: &mut Walk<'_>,
    owed: Offset,
    generation: Option<Generation>,
) -> Result<Verified, LogError> {
    let header = match walk.step().await? {
        Step::Batch(header) => header,
        Step::End => return Ok(Verified::End),
        Step::Fault(fault) => return Ok(Verified::Fault(Fault::Batch(fault))),
    };
    #[cfg(test)]
    let owed = match Offset::from_wire(header.base_offset) {
        Some(found) if skips_holes() => found,
        Some(_) | None => owed,
    };
    // Before its bytes are read: a length out of a damaged header may be anything.
    if header.base_offset != owed.to_wire() {
        return Ok(Verified::Fault(Fault::Gap {
            owed,
            found: header.base_offset,
        }));
    }
    let position = walk.position();
    let Some((chunk, at)) = walk.take(&header).await? else {
        let cause = io::ErrorKind::UnexpectedEof.into();
        return Err(segment.disk_error("read", Some(position), cause));
    };
    Ok(match checked(chunk.slice(at..at + header.size())).await {
        Ok(batch) => match generation {
            Some(owed) if owed != batch.generation() => Verified::Fault(Fault::Generation {
                owed,
                found: batch.generation(),
            }),
            Some(_) | None => Verified::Batch(batch),
        },
        Err(fault) => Verified::Fault(Fault::Batch(fault)),
    })
}

/// The batch in `bytes`, if its checksum and all that its header says by itself is right.
pub(super) async fn checked(mut bytes: Bytes) -> Result<PlacedBatch, BatchError> {
    if bytes.len() > CHECKED_AT_ONCE_MAX {
        runtime::blocking(move || PlacedBatch::split_from(&mut bytes)).await
    } else {
        PlacedBatch::split_from(&mut bytes)
    }
}

/// What makes a whole batch one that no broker of ours wrote, though every checksum is right: indexes,
/// generations or offsets could not go on from there, or it is of another kind. `end`: the position
/// behind it.
pub(super) fn beyond_bounds(
    segment: &Segment,
    batch: &PlacedBatch,
    end: u64,
    recovery_point: Offset,
) -> Option<Fault> {
    if batch.header().is_transactional() {
        return Some(Fault::Transaction);
    }
    let last = batch.last_offset();
    if last.since(segment.base()) > SEGMENT_SPAN_MAX || end > SEGMENT_SPAN_MAX {
        return Some(Fault::Span { last });
    }
    if batch.generation() == Generation::MAX {
        return Some(Fault::LastGeneration);
    }
    across(batch, recovery_point)
}

/// The same of a batch that claims to lie across the recovery point: what follows it would be cut for
/// its claim, though it was durable.
pub(super) fn across(batch: &PlacedBatch, recovery_point: Offset) -> Option<Fault> {
    let is_across = batch.base_offset() < recovery_point && batch.next_offset() > recovery_point;
    is_across.then_some(Fault::Across {
        last: batch.last_offset(),
        recovery_point,
    })
}

/// Whether a crash of any broker leaves that at the end of a log.
pub(super) fn is_torn_end(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Batch(BatchError::Truncated { .. } | BatchError::Zeros)
    )
}

/// Whether a log that ends there has offsets left.
pub(super) fn has_room(end: Offset) -> bool {
    end.get() <= Offset::MAX.get() - LOG_ROOM
}

/// Bytes from `position` up to the last that is not zero.
pub(super) async fn occupied(segment: &Segment, position: u64) -> Result<u64, LogError> {
    let bytes = occupied_in(segment.log(), position).await;
    bytes.map_err(|cause| segment.disk_error("read", Some(position), cause))
}

/// The same of a file that is none of the log's.
pub(super) async fn occupied_in(file: &File, position: u64) -> io::Result<u64> {
    let mut at = position;
    let mut end = position;
    loop {
        let chunk = file.read(at, CHUNK_BYTES, Patience::Wait).await?;
        if chunk.is_empty() {
            return Ok(end - position);
        }
        if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
            end = at + last as u64 + 1;
        }
        at += chunk.len() as u64;
    }
}
