//! Writing a segment once more, into a file of its own that then takes the place of the one before.
//!
//! After a failed write or flush the kernel may take pages for clean that never reached the device,
//! and the device may have bad places under the file. So what was read and found whole goes to new
//! places; and as names and bounds of the segments stay, there is at every moment one file for each,
//! the old one or the new one, and nothing that overlaps.
//!
//! It takes the space of a whole segment. So it is not begun where that would leave less free than is
//! kept free, which is there for appends and for small files, and an opening that fails for whatever
//! reason takes away what it has written.

use super::error::{FLUSH, LogError, RENAME};
use super::recovery::Recoverer;
use super::segment::{Segment, log_name};
use crate::disk::{self, Dir, Patience};
use felix_core::{Offset, PlacedBatch};
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// Bytes written before they are flushed: few enough that the kernel makes no writer of this core
/// wait for the device.
const UNFLUSHED_BYTES_MAX: u64 = 8 << 20;

/// How the name of the new file ends, until it is whole and durable; one that a crash leaves is
/// removed at the next opening.
const ENDING: &str = ".new.tmp";

/// A segment that is being written once more.
pub(super) struct Rewrite {
    dir: Rc<Dir>,
    segment: Segment,
    base: Offset,
    /// Bytes that it takes at most.
    bytes_max: u64,
    unflushed: Cell<u64>,
}

impl Rewrite {
    /// Makes the new file, still without anything, for a segment whose file has `bytes_max`. So many
    /// bytes of the disk are left free.
    pub(super) async fn begin(
        dir: &Rc<Dir>,
        base: Offset,
        index_interval: u32,
        bytes_max: u64,
        kept_free_bytes: u64,
    ) -> Result<Self, LogError> {
        let free = dir.free().await;
        let free = free.map_err(|cause| disk_error(dir, base, "measure", cause))?;
        let kept = free.kept(kept_free_bytes);
        let spare_bytes = free.free_bytes.saturating_sub(kept);
        if spare_bytes < bytes_max {
            return Err(no_room(dir, base, bytes_max, Some(spare_bytes)));
        }
        let name = temporary_name(base);
        let file = dir
            .create_file_aside(&name)
            .await
            .map_err(|cause| disk_error(dir, base, "create", cause))?;
        Ok(Self {
            dir: Rc::clone(dir),
            segment: Segment::over(Rc::clone(dir), base, file, index_interval),
            base,
            bytes_max,
            unflushed: Cell::new(0),
        })
    }

    /// What takes the place of the segment. It has the batches that it was noted to have.
    pub(super) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Writes a batch that was found whole.
    pub(super) async fn write(&self, batch: &PlacedBatch, position: u64) -> Result<(), LogError> {
        let bytes = batch.bytes();
        self.segment
            .log()
            .write_at(bytes, position)
            .map_err(|cause| self.failed("write", cause))?;
        let unflushed = self.unflushed.get() + bytes.len() as u64;
        self.unflushed.set(unflushed);
        if unflushed >= UNFLUSHED_BYTES_MAX {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), LogError> {
        self.unflushed.set(0);
        let flushed = self.segment.log().flush().await;
        flushed.map_err(|cause| self.failed(FLUSH, cause))
    }

    /// Somebody else may have had the space meanwhile, or a quota is used up. Found out by a flush,
    /// too, that is no loss: the old file is there.
    fn failed(&self, doing: &'static str, cause: io::Error) -> LogError {
        if disk::is_full(&cause) {
            return no_room(&self.dir, self.base, self.bytes_max, None);
        }
        disk_error(&self.dir, self.base, doing, cause)
    }

    /// Puts the new file, whole and durable, in the place of the old one. The directory is to be
    /// synced before anybody relies on it.
    pub(super) async fn finish(self) -> Result<Segment, LogError> {
        self.flush().await?;
        let (from, to) = (temporary_name(self.base), log_name(self.base));
        // That removes the old one: a large file takes time.
        let renamed = self.dir.aside(move |calls| calls.rename(&from, &to)).await;
        renamed.map_err(|cause| self.failed(RENAME, cause))?;
        // By its new name: a file that is closed for want of descriptors is opened by it again.
        let name = log_name(self.base);
        let opened = self.dir.open_file(&name).await.and_then(|file| {
            file.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it was just renamed"))
        });
        let file = opened.map_err(|cause| self.segment.disk_error("open", None, cause))?;
        Ok(self.segment.moved_to(file))
    }
}

impl Recoverer {
    /// Begins to write a segment once more.
    pub(super) async fn begin_rewrite(&mut self, segment: &Segment) -> Result<Rewrite, LogError> {
        let size = segment.log().size(Patience::Wait).await;
        let size = size.map_err(|cause| segment.disk_error("measure", None, cause))?;
        let (base, interval) = (segment.base(), self.config.index_interval_bytes);
        let kept = self.kept_free_bytes;
        let begun = Rewrite::begin(&self.dir, base, interval, size, kept).await?;
        self.rewriting = Some(base);
        Ok(begun)
    }

    /// Takes away what was written of a segment that could not be put in its place.
    pub(super) async fn discard_rewrite(&mut self) {
        let Some(base) = self.rewriting.take() else {
            return;
        };
        if let Err(cause) = self.dir.discard_file(&temporary_name(base)).await {
            // The next opening removes it.
            let dir = self.dir.path().display();
            tracing::warn!(%dir, %cause, "what was written of a segment could not be removed");
        }
    }
}

fn no_room(dir: &Dir, base: Offset, bytes: u64, spare_bytes: Option<u64>) -> LogError {
    LogError::NoRoomToRewrite {
        dir: dir.path().to_owned(),
        file: log_name(base),
        bytes,
        spare_bytes,
    }
}

fn temporary_name(base: Offset) -> String {
    format!("{}{ENDING}", log_name(base))
}

fn disk_error(dir: &Dir, base: Offset, doing: &'static str, cause: io::Error) -> LogError {
    LogError::Disk {
        dir: dir.path().to_owned(),
        file: temporary_name(base),
        position: None,
        doing,
        cause,
    }
}
