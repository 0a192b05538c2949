//! Stepping through the batches of a segment.

use super::error::{Fault, LogError};
use super::segment::Segment;
use super::verify::{CHECKED_AT_ONCE_MAX, checked};
use crate::disk::{Patience, breathe};
use bytes::Bytes;
use felix_core::batch::{HEADER_BYTES, Header};
use felix_core::limits::BATCH_BYTES_MAX;
use felix_core::{BatchError, Offset, PlacedBatch};
use std::io;

/// Steps from batch to batch by their headers, reading the file in chunks.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    segment: &'a Segment,
    position: u64,
    end: u64,
    chunk: Bytes,
    /// Where in the file the chunk begins.
    chunk_start: u64,
    chunk_bytes: usize,
    patience: Patience,
    /// A header that was read because the batch before it has to end there, and its position.
    ahead: Option<(u64, Header)>,
    /// What the next batch has to agree with, and where the segment's offsets end; `None` where
    /// nobody has judged them yet.
    owed: Option<(Owed, Offset)>,
}

/// A place in a segment where a batch begins, and what is known of that batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) position: u64,
    pub(super) owed: Owed,
}

/// What an offset of a batch has to be. The checksum of a batch does not cover its base offset, so
/// its neighbours and the index have to bear it out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owed {
    /// It begins where the batch before it ends.
    First(Offset),
    /// It ends where the index says.
    Last(Offset),
}

/// What stands at a position of a segment's file.
#[derive(Debug)]
pub(super) enum Step {
    /// A batch, by its header; its checksum is not verified.
    Batch(Header),
    /// Nothing more.
    End,
    /// No whole batch.
    Fault(BatchError),
}

impl<'a> Walk<'a> {
    /// Over the valid bytes of `segment`, whose batches follow each other without a gap.
    pub(super) fn new(
        segment: &'a Segment,
        start: Start,
        chunk_bytes: usize,
        patience: Patience,
    ) -> Self {
        let mut walk = Self::over(
            segment,
            start.position,
            segment.bytes(),
            chunk_bytes,
            patience,
        );
        walk.owed = Some((start.owed, segment.end()));
        walk
    }

    /// Over bytes that nobody has judged yet.
    pub(super) fn over(
        segment: &'a Segment,
        position: u64,
        end: u64,
        chunk_bytes: usize,
        patience: Patience,
    ) -> Self {
        let chunk = Bytes::new();
        Self {
            segment,
            position,
            end,
            chunk,
            chunk_start: position,
            chunk_bytes,
            patience,
            ahead: None,
            owed: None,
        }
    }

    /// Where the walk stands.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// What stands here.
    pub(super) async fn step(&mut self) -> Result<Step, LogError> {
        if self.position >= self.end {
            return Ok(Step::End);
        }
        let header = match self.ahead {
            Some((position, header)) if position == self.position => header,
            Some(_) | None => {
                self.hold(HEADER_BYTES).await?;
                let (at, _) = self.held(0);
                match Header::read(self.chunk.get(at..).unwrap_or_default()) {
                    Ok(header) => header,
                    Err(fault) => return Ok(Step::Fault(fault)),
                }
            }
        };
        // Before anything that size is read: no checksum covers the length.
        if header.size() > BATCH_BYTES_MAX {
            return Ok(Step::Fault(BatchError::BadLength {
                length: header.length.cast_signed(),
            }));
        }
        let present = self.end - self.position;
        if header.size() as u64 > present {
            let present = usize::try_from(present).unwrap_or(usize::MAX);
            return Ok(Step::Fault(BatchError::Truncated {
                needed: header.size(),
                present,
            }));
        }
        Ok(Step::Batch(header))
    }

    /// The header of the batch that stands here, and its last offset, where only whole batches can
    /// be and none is missing: a fault is damage.
    pub(super) async fn next(&mut self) -> Result<Option<(Header, Offset)>, LogError> {
        let fault = match self.step().await? {
            Step::Batch(header) => match self.last_offset(&header) {
                Ok(last) => match self.wrong_length(&header, last).await? {
                    None => return Ok(Some((header, last))),
                    Some(fault) => Fault::Batch(fault),
                },
                Err(fault) => fault,
            },
            Step::End => match self.owed {
                Some((Owed::First(owed), end)) if owed != end => Fault::Gap {
                    owed,
                    found: end.to_wire(),
                },
                Some(_) | None => return Ok(None),
            },
            Step::Fault(fault) => Fault::Batch(fault),
        };
        Err(self.segment.damaged(self.position, fault))
    }

    /// The last offset of the batch that stands here, if it is where it belongs.
    fn last_offset(&self, header: &Header) -> Result<Offset, Fault> {
        let found = header.base_offset;
        let base = self.segment.base();
        let gap = |owed| Fault::Gap { owed, found };
        let Some((first, last)) = header.offset_range() else {
            return Err(gap(match self.owed {
                Some((Owed::First(owed), _)) => owed,
                Some((Owed::Last(_), _)) | None => base,
            }));
        };
        let Some((owed, end)) = self.owed else {
            return Ok(last);
        };
        match owed {
            Owed::First(owed) if owed != first => Err(gap(owed)),
            // It reaches past the end, where the next segment begins.
            Owed::First(_) if last >= end => Err(Fault::Gap {
                owed: last.after(1),
                found: end.to_wire(),
            }),
            Owed::Last(owed) if owed != last || first < base => {
                let delta = u64::try_from(header.last_offset_delta).unwrap_or_default();
                let owed = owed.get().saturating_sub(delta);
                Err(gap(Offset::new(owed)))
            }
            Owed::First(_) | Owed::Last(_) => Ok(last),
        }
    }

    /// What is wrong with the batch that stands here, if it does not end where its length says: no
    /// checksum covers the length, so the batch owed next has to begin there, or the segment end.
    async fn wrong_length(
        &mut self,
        header: &Header,
        last: Offset,
    ) -> Result<Option<BatchError>, LogError> {
        let Some((_, end)) = self.owed else {
            return Ok(None);
        };
        let (size, owed) = (header.size(), last.after(1));
        let behind = self.position + size as u64;
        let is_borne_out = if behind == self.end {
            owed == end
        } else {
            let next = self.look_ahead(size, behind).await?;
            next.is_some_and(|next| next.base_offset == owed.to_wire())
        };
        if is_borne_out {
            return Ok(None);
        }
        // One of the two is damaged. If it is the one behind, this one's checksum is right, which
        // takes the right length.
        if self.patience == Patience::Now {
            let cause = io::ErrorKind::WouldBlock.into();
            return Err(self.segment.disk_error("read", Some(self.position), cause));
        }
        self.hold(size).await?;
        let (at, _) = self.held(size);
        let mut bytes = self.chunk.slice(at.min(self.chunk.len())..);
        Ok(PlacedBatch::split_from(&mut bytes).err())
    }

    /// The header at `behind`, `size` bytes from here, if one can be read there.
    async fn look_ahead(&mut self, size: usize, behind: u64) -> Result<Option<Header>, LogError> {
        let rest = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let wanted = (size + HEADER_BYTES).min(rest);
        // A batch that fits is read together with the header behind it. Of a larger one nothing is
        // read before its length is borne out.
        let found = if wanted <= self.chunk_bytes || self.held(wanted).1 {
            self.hold(wanted).await?;
            let (at, _) = self.held(0);
            Header::read(self.chunk.get(at + size..).unwrap_or_default())
        } else {
            let read = self
                .segment
                .log()
                .read(behind, HEADER_BYTES, self.patience)
                .await;
            let bytes =
                read.map_err(|cause| self.segment.disk_error("read", Some(behind), cause))?;
            Header::read(&bytes)
        };
        let found = found.ok();
        self.ahead = found.map(|header| (behind, header));
        Ok(found)
    }

    /// Steps over the batch that stands here.
    pub(super) fn skip(&mut self, header: &Header) {
        self.position += header.size() as u64;
        if let (Some((owed, _)), Some((_, last))) = (&mut self.owed, header.offset_range()) {
            *owed = Owed::First(last.after(1));
        }
    }

    /// Steps over the batch that stands here because of what its header says beside its offsets: that
    /// it is a control batch, or too old. Only its checksum bears that out; without it one flipped bit
    /// would take its records from every reader, and nobody would be told.
    pub(super) async fn pass_over(&mut self, header: &Header) -> Result<(), LogError> {
        let (position, size) = (self.position, header.size());
        match self.patience {
            Patience::Now if size > CHECKED_AT_ONCE_MAX => {
                let cause = io::ErrorKind::WouldBlock.into();
                return Err(self.segment.disk_error("read", Some(position), cause));
            }
            Patience::Now => {}
            Patience::Wait => breathe().await,
        }
        let checked = match self.take(header).await? {
            Some((chunk, at)) => checked(chunk.slice(at..at + size)).await.map(drop),
            None => Err(BatchError::Truncated {
                needed: size,
                present: 0,
            }),
        };
        checked.map_err(|fault| self.segment.damaged(position, Fault::Batch(fault)))
    }

    /// The chunk that holds the whole batch that stands here, and where in it the batch begins;
    /// steps over it. `None` where the file has become shorter.
    pub(super) async fn take(
        &mut self,
        header: &Header,
    ) -> Result<Option<(Bytes, usize)>, LogError> {
        self.hold(header.size()).await?;
        let (at, whole) = self.held(header.size());
        if !whole {
            return Ok(None);
        }
        self.skip(header);
        Ok(Some((self.chunk.clone(), at)))
    }

    /// Where the position lies in the chunk, and whether the chunk has that many bytes from there.
    fn held(&self, bytes: usize) -> (usize, bool) {
        let Ok(at) = usize::try_from(self.position - self.chunk_start) else {
            return (usize::MAX, false);
        };
        (
            at,
            self.chunk
                .len()
                .checked_sub(at)
                .is_some_and(|rest| rest >= bytes),
        )
    }

    async fn hold(&mut self, bytes: usize) -> Result<(), LogError> {
        if self.held(bytes).1 {
            return Ok(());
        }
        let rest = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let wanted = bytes.max(self.chunk_bytes).min(rest);
        let read = self
            .segment
            .log()
            .read(self.position, wanted, self.patience)
            .await;
        let chunk =
            read.map_err(|cause| self.segment.disk_error("read", Some(self.position), cause))?;
        self.chunk = chunk;
        self.chunk_start = self.position;
        Ok(())
    }
}
