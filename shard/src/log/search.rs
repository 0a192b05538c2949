//! Finding a record by its timestamp.

use super::error::{Fault, LogError};
use super::segment::Segment;
use super::walk::{Owed, Start, Walk};
use crate::disk::{Patience, breathe};
use bytes::Bytes;
use felix_core::batch::Header;
use felix_core::limits::{BATCH_BYTES_ON_CORE_MAX, BATCH_DECOMPRESSED_BYTES_MAX};
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
    segments: Rc<Vec<Rc<Segment>>>,
    wanted: Wanted,
    below: Offset,
    /// Up to here all has been looked into.
    from: Offset,
    /// How it ended.
    ended: Option<Option<Found>>,
}

/// A record's offset and timestamp, and the generation of its batch.
pub type Found = (Offset, Timestamp, Generation);

/// How far a core came with a search by itself.
#[derive(Debug)]
pub enum Searched {
    /// To the end; `None`: there is no such record.
    Done(Option<Found>),
    /// To a batch that is too much work for a core. [`Search::looked`] is to be told what is in it.
    Heavy(Candidate),
}

/// A batch that may have the record, by its header.
#[derive(Debug)]
pub struct Candidate {
    segment: Rc<Segment>,
    position: u64,
    last: Offset,
    wanted: Wanted,
}

/// The bytes of a batch, and what to look for in them: on whatever thread.
#[derive(Debug)]
pub struct Look {
    bytes: Bytes,
    wanted: Wanted,
}

impl Search {
    pub(super) fn new(segments: Rc<Vec<Rc<Segment>>>, wanted: Wanted, below: Offset) -> Self {
        Self {
            segments,
            wanted,
            below,
            from: Offset::ZERO,
            ended: None,
        }
    }

    /// The record's offset, timestamp and the generation of its batch; `None`: there is none. Looks
    /// into every batch itself, which is not for a core: see [`Search::step`].
    ///
    /// # Errors
    /// The disk's own fault, or damage.
    pub async fn run(mut self) -> Result<Option<Found>, LogError> {
        loop {
            match self.step().await? {
                Searched::Done(found) => return Ok(found),
                Searched::Heavy(batch) => {
                    let found = batch.read().await?.run();
                    self.looked(&batch, found)?;
                }
            }
        }
    }

    /// Searches on, for a core that has other things to do.
    ///
    /// # Errors
    /// The disk's own fault, or damage.
    pub async fn step(&self) -> Result<Searched, LogError> {
        match (self.ended, self.wanted) {
            (Some(found), _) => Ok(Searched::Done(found)),
            (None, Wanted::AtOrAfter(timestamp)) => self.at_or_after(timestamp).await,
            (None, Wanted::Greatest) => self.greatest().await,
        }
    }

    /// Takes note of what is in a batch, and says how the search has ended, if it has.
    ///
    /// # Errors
    /// It is damaged.
    pub fn looked(
        &mut self,
        batch: &Candidate,
        found: Result<Option<Found>, BatchError>,
    ) -> Result<Option<Option<Found>>, LogError> {
        let found = found.map_err(|fault| damaged(&batch.segment, batch.position, fault))?;
        self.from = batch.last.after(1);
        if found.is_some() || self.wanted == Wanted::Greatest {
            self.ended = Some(found);
        }
        Ok(self.ended)
    }

    fn visible(&self) -> impl Iterator<Item = &Rc<Segment>> {
        self.segments
            .iter()
            .take_while(|segment| segment.base() < self.below)
    }

    async fn at_or_after(&self, wanted: Timestamp) -> Result<Searched, LogError> {
        for segment in self.visible() {
            let greatest = segment
                .greatest()
                .map_or(Timestamp(-1), |(timestamp, _)| timestamp);
            if greatest < wanted || segment.end() <= self.from {
                continue;
            }
            let mut walk = self.walk(segment, wanted).await?;
            while let Some((header, last)) = walk.next().await? {
                if last >= self.below {
                    return Ok(Searched::Done(None));
                }
                if last < self.from {
                    walk.skip(&header);
                    continue;
                }
                if header.is_control() || header.max_timestamp < wanted.0 {
                    walk.pass_over(&header).await?;
                    continue;
                }
                match self.look(segment, &mut walk, &header, last).await? {
                    Searched::Done(None) => {}
                    searched => return Ok(searched),
                }
            }
        }
        Ok(Searched::Done(None))
    }

    /// A walk over what may have a record at this timestamp or later.
    async fn walk<'a>(
        &self,
        segment: &'a Segment,
        wanted: Timestamp,
    ) -> Result<Walk<'a>, LogError> {
        if self.from > segment.base() {
            let start = segment.start_before(self.from, Patience::Wait).await?;
            return Ok(Walk::new(segment, start, CHUNK_BYTES, Patience::Wait));
        }
        // Up to such an entry every timestamp is less than the one wanted.
        let before = |timestamp, _| timestamp < wanted;
        let (walk, _) = segment
            .walk_after_time(before, CHUNK_BYTES, Patience::Wait)
            .await?;
        Ok(walk)
    }

    async fn greatest(&self) -> Result<Searched, LogError> {
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
            return Ok(Searched::Done(None));
        };
        let start = segment.start_before(last, Patience::Wait).await?;
        let mut walk = Walk::new(segment, start, CHUNK_BYTES, Patience::Wait);
        while let Some((header, found)) = walk.next().await? {
            if found < last {
                walk.skip(&header);
                continue;
            }
            return self.look(segment, &mut walk, &header, found).await;
        }
        Ok(Searched::Done(None))
    }

    /// Looks into the batch at which the walk stands and steps over it, if a core may.
    async fn look(
        &self,
        segment: &Rc<Segment>,
        walk: &mut Walk<'_>,
        header: &Header,
        last: Offset,
    ) -> Result<Searched, LogError> {
        let position = walk.position();
        let wanted = self.wanted;
        let heavy = || {
            Searched::Heavy(Candidate {
                segment: Rc::clone(segment),
                position,
                last,
                wanted,
            })
        };
        if header.size() > header.bytes_on_core_max() {
            // What the header tells is not worth a pass over as many bytes.
            let found = of_append_time(header);
            return Ok(found.map_or_else(heavy, |found| Searched::Done(Some(found))));
        }
        // Looking into it may be much work, so other tasks have their turn before.
        breathe().await;
        let bytes = take(segment, walk, header).await?;
        match (Look { bytes, wanted }).within(BATCH_BYTES_ON_CORE_MAX) {
            Ok(found) => Ok(Searched::Done(found)),
            Err(BatchError::DecompressedTooLarge { .. }) => Ok(heavy()),
            Err(fault) => Err(damaged(segment, position, fault)),
        }
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
            walk.pass_over(&header).await?;
        }
        Ok(best)
    }
}

impl Candidate {
    /// Its bytes, to be looked into on another thread.
    ///
    /// # Errors
    /// The disk's own fault, or damage.
    pub async fn read(&self) -> Result<Look, LogError> {
        let start = Start {
            position: self.position,
            owed: Owed::Last(self.last),
        };
        let mut walk = Walk::new(&self.segment, start, CHUNK_BYTES, Patience::Wait);
        let Some((header, _)) = walk.next().await? else {
            return Err(damaged(&self.segment, self.position, BatchError::Empty));
        };
        Ok(Look {
            bytes: take(&self.segment, &mut walk, &header).await?,
            wanted: self.wanted,
        })
    }
}

impl Look {
    /// Looks, however long it takes.
    ///
    /// # Errors
    /// The batch is damaged.
    pub fn run(self) -> Result<Option<Found>, BatchError> {
        self.within(BATCH_DECOMPRESSED_BYTES_MAX)
    }

    fn within(mut self, work_bytes_max: usize) -> Result<Option<Found>, BatchError> {
        let batch = PlacedBatch::split_from(&mut self.bytes)?;
        if let Some(found) = of_append_time(batch.header()) {
            return Ok(Some(found));
        }
        let found = match self.wanted {
            Wanted::AtOrAfter(wanted) => batch.first_at_or_after(wanted, work_bytes_max)?,
            Wanted::Greatest => batch.first_of_greatest(work_bytes_max)?,
        };
        Ok(found.map(|(offset, timestamp)| (offset, timestamp, batch.generation())))
    }
}

/// The first record of a batch whose records all have one timestamp, that of their append.
fn of_append_time(header: &Header) -> Option<Found> {
    if !header.is_append_time() || header.count < 1 {
        return None;
    }
    let (first, _) = header.offset_range()?;
    let generation = Generation::from_wire(header.leader_epoch)?;
    Some((first, Timestamp(header.max_timestamp), generation))
}

/// The batch at which the walk stands; steps over it.
async fn take(segment: &Segment, walk: &mut Walk<'_>, header: &Header) -> Result<Bytes, LogError> {
    let position = walk.position();
    let Some((chunk, at)) = walk.take(header).await? else {
        let fault = BatchError::Truncated {
            needed: header.size(),
            present: 0,
        };
        return Err(damaged(segment, position, fault));
    };
    Ok(chunk.slice(at..at + header.size()))
}

fn damaged(segment: &Segment, position: u64, fault: BatchError) -> LogError {
    segment.damaged(position, Fault::Batch(fault))
}
