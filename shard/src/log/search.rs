//! Finding a record by its timestamp.

use super::error::{Fault, LogError};
use super::segment::Segment;
use super::walk::Walk;
use crate::disk::{Patience, breathe};
use felix_core::batch::Header;
use felix_core::{BatchError, Generation, Offset, PlacedBatch, Timestamp};
use std::rc::Rc;

/// Bytes read at once: some hundred small batches, or the header of one large one.
const CHUNK_BYTES: usize = 64 << 10;

/// What to search for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The first record at this timestamp or later.
    AtOrAfter(Timestamp),
    /// The first record, of the first batch that has the greatest timestamp, that has it
    /// (KIP-734). Where the records carry their append time, that is the batch's first.
    Greatest,
}

/// A search by timestamp to be done without holding the log. Control batches are never found.
#[derive(Clone, Debug)]
pub struct Search {
    pub(super) segments: Rc<Vec<Rc<Segment>>>,
    pub(super) wanted: Wanted,
    pub(super) below: Offset,
}

/// A record's offset and timestamp, and the generation of its batch.
type Found = (Offset, Timestamp, Generation);

impl Search {
    /// The record's offset, timestamp and the generation of its batch; `None`: there is none.
    ///
    /// # Errors
    /// The disk's own fault, or damage.
    pub async fn run(self) -> Result<Option<Found>, LogError> {
        match self.wanted {
            Wanted::AtOrAfter(timestamp) => self.at_or_after(timestamp).await,
            Wanted::Greatest => self.greatest().await,
        }
    }

    fn visible(&self) -> impl Iterator<Item = &Rc<Segment>> {
        self.segments
            .iter()
            .take_while(|segment| segment.base() < self.below)
    }

    async fn at_or_after(&self, wanted: Timestamp) -> Result<Option<Found>, LogError> {
        for segment in self.visible() {
            let greatest = segment
                .greatest()
                .map_or(Timestamp(-1), |(timestamp, _)| timestamp);
            if greatest < wanted {
                continue;
            }
            // Up to such an entry every timestamp is less than the one wanted.
            let (mut walk, _) = segment
                .walk_after_time(
                    |timestamp, _| timestamp < wanted,
                    CHUNK_BYTES,
                    Patience::Wait,
                )
                .await?;
            while let Some((header, last)) = walk.next().await? {
                if last >= self.below {
                    return Ok(None);
                }
                if header.is_control() || header.max_timestamp < wanted.0 {
                    walk.skip(&header);
                    continue;
                }
                let (position, batch) = take(segment, &mut walk, &header).await?;
                let found = batch.first_at_or_after(wanted);
                if let Some((offset, timestamp)) =
                    found.map_err(|e| damaged(segment, position, e))?
                {
                    return Ok(Some((offset, timestamp, batch.generation())));
                }
            }
        }
        Ok(None)
    }

    async fn greatest(&self) -> Result<Option<Found>, LogError> {
        let mut best: Option<(Timestamp, Offset, &Rc<Segment>)> = None;
        for segment in self.visible() {
            let candidate = match segment.greatest() {
                Some(greatest) if greatest.1 < self.below => Some(greatest),
                Some(_) => self.greatest_below(segment).await?,
                None => None,
            };
            if let Some((timestamp, last)) = candidate
                && best.is_none_or(|(greatest, _, _)| greatest < timestamp)
            {
                best = Some((timestamp, last, segment));
            }
        }
        let Some((_, last, segment)) = best else {
            return Ok(None);
        };
        let start = segment.start_before(last, Patience::Wait).await?;
        let mut walk = Walk::new(segment, start, CHUNK_BYTES, Patience::Wait);
        while let Some((header, found)) = walk.next().await? {
            if found < last {
                walk.skip(&header);
                continue;
            }
            let (position, batch) = take(segment, &mut walk, &header).await?;
            let found = batch.first_of_greatest();
            let found = found.map_err(|e| damaged(segment, position, e))?;
            return Ok(found.map(|(offset, timestamp)| (offset, timestamp, batch.generation())));
        }
        Ok(None)
    }

    /// The greatest timestamp of the part of a segment that lies below the bound, and the last
    /// offset of the first batch that has it.
    async fn greatest_below(
        &self,
        segment: &Segment,
    ) -> Result<Option<(Timestamp, Offset)>, LogError> {
        let (mut walk, mut best) = segment
            .walk_after_time(|_, last| last < self.below, CHUNK_BYTES, Patience::Wait)
            .await?;
        while let Some((header, last)) = walk.next().await? {
            if last >= self.below {
                break;
            }
            let timestamp = Timestamp(header.max_timestamp);
            if !header.is_control()
                && timestamp > best.map_or(Timestamp(-1), |(greatest, _)| greatest)
            {
                best = Some((timestamp, last));
            }
            walk.skip(&header);
        }
        Ok(best)
    }
}

/// The batch at which the walk stands, and its position; steps over it. Looking into it may be much
/// work, so other tasks have their turn before.
async fn take(
    segment: &Segment,
    walk: &mut Walk<'_>,
    header: &Header,
) -> Result<(u64, PlacedBatch), LogError> {
    breathe().await;
    let position = walk.position();
    let Some((chunk, at)) = walk.take(header).await? else {
        let fault = BatchError::Truncated {
            needed: header.size(),
            present: 0,
        };
        return Err(damaged(segment, position, fault));
    };
    let mut bytes = chunk.slice(at..at + header.size());
    let batch = PlacedBatch::split_from(&mut bytes);
    Ok((
        position,
        batch.map_err(|fault| damaged(segment, position, fault))?,
    ))
}

fn damaged(segment: &Segment, position: u64, fault: BatchError) -> LogError {
    segment.damaged(position, Fault::Batch(fault))
}
