//! Stepping through the batches of a segment.

use super::error::{Fault, LogError};
use super::segment::Segment;
use crate::disk::Patience;
use bytes::Bytes;
use felix_core::BatchError;
use felix_core::batch::{HEADER_BYTES, Header};

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
    /// Over the valid bytes of `segment`, from the batch at `position`.
    pub(super) fn new(
        segment: &'a Segment,
        position: u64,
        chunk_bytes: usize,
        patience: Patience,
    ) -> Self {
        Self::over(segment, position, segment.bytes(), chunk_bytes, patience)
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
        self.hold(HEADER_BYTES).await?;
        let (at, _) = self.held(0);
        let rest = self.chunk.get(at..).unwrap_or_default();
        let header = match Header::read(rest) {
            Ok(header) => header,
            Err(fault) => return Ok(Step::Fault(fault)),
        };
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

    /// The header of the batch that stands here, where only whole batches can: a fault is damage.
    pub(super) async fn next(&mut self) -> Result<Option<Header>, LogError> {
        match self.step().await? {
            Step::Batch(header) => Ok(Some(header)),
            Step::End => Ok(None),
            Step::Fault(fault) => Err(self.segment.damaged(self.position, Fault::Batch(fault))),
        }
    }

    /// Steps over the batch that stands here.
    pub(super) fn skip(&mut self, header: &Header) {
        self.position += header.size() as u64;
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
