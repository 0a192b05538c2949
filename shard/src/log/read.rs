//! Reading batches.

use super::error::{Fault, LogError};
use super::segment::Segment;
use super::walk::Walk;
use crate::disk::Patience;
use bytes::Bytes;
use felix_core::{BatchError, Offset};
use futures_util::FutureExt;
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// Bytes read at once: a small Fetch takes one call, a large one lets others run in between.
const CHUNK_BYTES_MIN: usize = 16 << 10;
const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Bytes of batches gone through without letting other tasks run; more is for [`Read::run`], which
/// pauses.
const NOW_BYTES_MAX: usize = 512 << 10;

/// A read to be done without holding the log. Appends that come meanwhile do not change it.
#[derive(Clone, Debug)]
pub struct Read {
    pub(super) segments: Rc<Vec<Rc<Segment>>>,
    pub(super) from: Offset,
    pub(super) below: Offset,
    pub(super) bytes_max: usize,
    pub(super) first_bytes_max: usize,
    pub(super) left_out: Cell<Option<usize>>,
}

impl Read {
    /// The same read, which brings nothing where the first batch has more bytes than this.
    #[must_use]
    pub fn within(mut self, first_bytes_max: usize) -> Self {
        self.first_bytes_max = first_bytes_max;
        self
    }

    /// Once it is done: the bytes of the first batch, where they were too many.
    #[must_use]
    pub fn left_out(&self) -> Option<usize> {
        self.left_out.get()
    }

    /// The bytes, if all of them can be had without blocking (`preadv2(RWF_NOWAIT)`), and few
    /// enough to go through without a pause.
    pub fn try_now(&self) -> Option<Result<Vec<Bytes>, LogError>> {
        let read = self
            .collect(Patience::Now)
            .now_or_never()
            .expect("a read that does not wait is ready at once");
        match read {
            Err(LogError::Disk { cause, .. }) if cause.kind() == io::ErrorKind::WouldBlock => None,
            read => Some(read),
        }
    }

    /// The bytes, reading from the device where needed.
    ///
    /// # Errors
    /// The disk's own fault, or damage.
    pub async fn run(&self) -> Result<Vec<Bytes>, LogError> {
        self.collect(Patience::Wait).await
    }

    async fn collect(&self, patience: Patience) -> Result<Vec<Bytes>, LogError> {
        let mut pieces = Pieces::default();
        match self.fill(&mut pieces, patience).await {
            // What lies before the damage is whole; the read that begins at it tells of it.
            Err(LogError::Damaged { .. }) if pieces.bytes > 0 => Ok(pieces.into_vec()),
            Err(error) => Err(error),
            Ok(()) => Ok(pieces.into_vec()),
        }
    }

    async fn fill(&self, pieces: &mut Pieces, patience: Patience) -> Result<(), LogError> {
        let chunk_bytes = self.bytes_max.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        // Those that are stepped over count as well.
        let mut walked = 0;
        let after = self
            .segments
            .partition_point(|segment| segment.base() <= self.from);
        for segment in self.segments.iter().skip(after.saturating_sub(1)) {
            if segment.base() >= self.below {
                break;
            }
            let start = segment.start_before(self.from, patience).await?;
            let mut walk = Walk::new(segment, start, chunk_bytes, patience);
            while let Some((header, last)) = walk.next().await? {
                walked += header.size();
                if patience == Patience::Now && walked > NOW_BYTES_MAX {
                    let cause = io::ErrorKind::WouldBlock.into();
                    return Err(segment.disk_error("read", Some(walk.position()), cause));
                }
                if last < self.from {
                    walk.skip(&header);
                    continue;
                }
                if last >= self.below {
                    return Ok(());
                }
                if header.is_control() {
                    walk.pass_over(&header).await?;
                    continue;
                }
                let total = pieces.bytes + header.size();
                if pieces.bytes > 0 && total > self.bytes_max {
                    return Ok(());
                }
                if pieces.bytes == 0 && total > self.first_bytes_max {
                    self.left_out.set(Some(total));
                    return Ok(());
                }
                let position = walk.position();
                let Some((chunk, at)) = walk.take(&header).await? else {
                    let fault = BatchError::Truncated {
                        needed: header.size(),
                        present: 0,
                    };
                    return Err(segment.damaged(position, Fault::Batch(fault)));
                };
                pieces.push(chunk, at, header.size());
            }
        }
        Ok(())
    }
}

/// Batches on their way out: those that lie side by side in one chunk make one piece.
#[derive(Default)]
struct Pieces {
    done: Vec<Bytes>,
    run: Option<(Bytes, usize, usize)>,
    bytes: usize,
}

impl Pieces {
    fn push(&mut self, chunk: Bytes, at: usize, size: usize) {
        self.bytes += size;
        if let Some((held, _, end)) = &mut self.run
            // The run keeps its chunk alive, so no other chunk can lie at the same address.
            && held.as_ptr() == chunk.as_ptr()
            && *end == at
        {
            *end += size;
            return;
        }
        self.finish_run();
        self.run = Some((chunk, at, at + size));
    }

    fn finish_run(&mut self) {
        if let Some((chunk, start, end)) = self.run.take() {
            self.done.push(chunk.slice(start..end));
        }
    }

    fn into_vec(mut self) -> Vec<Bytes> {
        self.finish_run();
        self.done
    }
}
