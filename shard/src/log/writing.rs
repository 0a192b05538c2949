//! Writing a batch: it is given its place, its bytes are written, and it is taken note of. Between the
//! first and the last the log is not held, so that the bytes of a large one may be written on a blocking
//! thread. Nothing else is appended meanwhile, and no segment is sealed; what was written before is
//! flushed, read, let go of and written about in checkpoints as ever.

use super::error::{Fault, LogError};
use super::poison::Distrust;
use super::segment::Segment;
use super::{Log, Verdict};
use felix_core::batch::Place;
use felix_core::limits::{BATCH_BYTES_MAX, LOG_ROOM};
use felix_core::{Batch, Offset, PlacedBatch, Timestamp, Timestamps};
use std::io;
use std::rc::Rc;

/// A batch that has its place, to be written. One at a time per log.
#[derive(Debug)]
#[must_use]
pub struct Writing {
    segment: Rc<Segment>,
    position: u64,
    batch: PlacedBatch,
}

/// A batch that was written, or not. To be brought back by [`Log::written`], or taken back before
/// [`Log::abandon`].
#[derive(Debug)]
#[must_use]
pub struct Written {
    segment: Rc<Segment>,
    position: u64,
    batch: PlacedBatch,
    result: io::Result<()>,
}

impl Writing {
    /// Does it on the core's own thread.
    pub fn on_core(self) -> Written {
        // One write for one batch, so that a crash leaves at most the last one torn.
        let file = self.segment.log();
        let result = file.write_at(self.batch.bytes(), self.position);
        self.done(result)
    }

    /// The same on a blocking thread.
    pub async fn aside(self) -> Written {
        let bytes = self.batch.bytes().clone();
        let result = self.segment.log().write_aside(bytes, self.position).await;
        self.done(result)
    }

    fn done(self, result: io::Result<()>) -> Written {
        Written {
            segment: self.segment,
            position: self.position,
            batch: self.batch,
            result,
        }
    }
}

impl Written {
    /// Whether all of it is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.result.is_ok()
    }

    /// Cuts it off, durably: no opening finds it.
    ///
    /// # Errors
    /// The disk's own fault: an opening may find it.
    pub async fn take_back(self) -> Result<(), LogError> {
        self.segment.trim().await?;
        self.segment.flush().await
    }
}

impl Log {
    /// Places a batch and writes it (`pwrite`); it is then written, not durable. Rolls first where
    /// the segment is full. Where the disk has no space, or no descriptor is left
    /// ([`LogError::is_refusal`]), the log is as it was and takes the next append that can be
    /// written; after any other error it is poisoned and takes nothing more. Panics where
    /// [`Log::judge`] does not say that the batch is new.
    ///
    /// # Errors
    /// The disk's own fault, now or earlier; no offsets are left.
    pub fn append(
        &mut self,
        batch: Batch,
        timestamps: Timestamps,
        now: Timestamp,
    ) -> Result<PlacedBatch, LogError> {
        let writing = self.begin_append(batch, timestamps, now)?;
        self.written(writing.on_core(), now)
    }

    /// Places a batch that somebody else writes. Otherwise as [`Log::append`].
    ///
    /// # Errors
    /// As there, but for those of the write itself.
    pub fn begin_append(
        &mut self,
        batch: Batch,
        timestamps: Timestamps,
        now: Timestamp,
    ) -> Result<Writing, LogError> {
        self.usable()?;
        assert_eq!(self.judge(batch.header()), Ok(Verdict::New));
        if self.end.get() + batch.offsets() > Offset::MAX.get() - LOG_ROOM {
            let fault = Fault::NoRoom { end: self.end };
            return Err(self.last().damaged(self.last().bytes(), fault));
        }
        let append_time = match timestamps {
            Timestamps::Append => Some(now.max(self.append_time)),
            Timestamps::Create => None,
        };
        self.append_time = append_time.unwrap_or(self.append_time);
        self.begin_write(batch.place(Place {
            base_offset: self.end,
            generation: self.generation,
            append_time,
        }))
    }

    /// Takes note of a batch that was written, as of now.
    ///
    /// # Errors
    /// It was not, or the log has failed meanwhile.
    pub fn written(&mut self, written: Written, now: Timestamp) -> Result<PlacedBatch, LogError> {
        let placed = self.end_write(written)?;
        self.last().appended(now);
        Ok(placed)
    }

    /// Gives up a batch that was not written, or was taken back.
    pub fn abandon(&mut self) {
        assert!(self.is_writing);
        self.is_writing = false;
    }

    /// Whether a batch is being written, so that nothing can be appended.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.is_writing
    }

    pub(super) fn write(&mut self, placed: PlacedBatch) -> Result<PlacedBatch, LogError> {
        let writing = self.begin_write(placed)?;
        self.end_write(writing.on_core())
    }

    fn begin_write(&mut self, batch: PlacedBatch) -> Result<Writing, LogError> {
        assert!(!self.is_writing, "one batch is written at a time");
        assert_eq!(batch.base_offset(), self.end);
        assert!(self.is_saved, "an opening knows the generations of batches");
        let size = batch.bytes().len() as u64;
        // What no read would believe is not written.
        assert!(size <= BATCH_BYTES_MAX as u64);
        let bytes_max = self.config.segment_bytes_max;
        if !self.last().has_room(size, batch.next_offset(), bytes_max) {
            self.roll().map_err(|error| self.unwritten(error))?;
        }
        self.is_writing = true;
        let segment = Rc::clone(self.last());
        Ok(Writing {
            position: segment.bytes(),
            segment,
            batch,
        })
    }

    fn end_write(&mut self, written: Written) -> Result<PlacedBatch, LogError> {
        assert!(self.is_writing);
        self.is_writing = false;
        self.usable()?;
        let (last, batch) = (written.segment, written.batch);
        assert!(Rc::ptr_eq(&last, self.last()));
        assert_eq!(written.position, last.bytes());
        if let Err(cause) = written.result {
            let error = last.disk_error("write", Some(written.position), cause);
            if error.is_full()
                && let Err(uncut) = last.cut_back()
            {
                return Err(self.poison(uncut, Distrust::Appends));
            }
            return Err(self.unwritten(error));
        }
        last.note(batch.header(), batch.last_offset());
        self.producers.note(batch.header(), batch.base_offset());
        if batch.is_control() {
            self.controls.note(batch.base_offset(), batch.next_offset());
        }
        self.end = batch.next_offset();
        self.written += batch.bytes().len() as u64;
        Ok(batch)
    }

    /// What follows from a batch that was not written, nor anything of it left.
    fn unwritten(&mut self, error: LogError) -> LogError {
        if error.is_refusal() {
            return error;
        }
        self.poison(error, Distrust::Appends)
    }
}
