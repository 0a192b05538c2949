//! A segment: a file of batches and its two indexes.

mod lookup;

use super::error::{CUT, FLUSH, Fault, LogError, RENAME};
use super::index::{IndexBytes, Indexed, Indexes, TimeEntry};
use super::recovery::disk_error;
use crate::disk::{Dir, File, Patience, breathe};
use crate::event::Event;
use felix_core::batch::Header;
use felix_core::limits::SEGMENT_SPAN_MAX;
use felix_core::{Offset, PlacedBatch, Timestamp};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Name of a segment's file.
pub(super) fn log_name(base: Offset) -> String {
    format!("{:020}.log", base.get())
}

/// Name of a segment's offset index.
pub(super) fn index_name(base: Offset) -> String {
    format!("{:020}.index", base.get())
}

/// Name of a segment's time index.
pub(super) fn time_index_name(base: Offset) -> String {
    format!("{:020}.timeindex", base.get())
}

/// A run of batches in one file. Shared, within its CPU core, by the log and by the reads under
/// way: it only ever grows.
#[derive(Debug)]
pub(super) struct Segment {
    dir: Rc<Dir>,
    base: Offset,
    log: File,
    /// Valid bytes: whole batches.
    bytes: Cell<u64>,
    /// The file has zeros on the device up to here, or ends below.
    prepared: Cell<u64>,
    /// The offset after the last batch.
    end: Cell<Offset>,
    greatest: Cell<Option<TimeEntry>>,
    /// When its last batch was appended, by the broker's clock; `None`: known not to be before
    /// `greatest`.
    appended: Cell<Option<Timestamp>>,
    /// When its first batch was appended, by the broker's clock, if that is known.
    begun: Cell<Option<Timestamp>>,
    /// Bytes between two entries of the offset index.
    index_interval: u32,
    /// No batch follows.
    is_sealed: Cell<bool>,
    /// While the segment grows, and until its index files are written; then they serve, unless one
    /// turned out to be wrong.
    indexes: RefCell<Option<Indexes>>,
    /// How often they were taken from the batches instead of a file.
    rebuilds: Cell<u32>,
    /// Its index files hold what its indexes do: nothing was noted since they were loaded.
    is_indexed: Cell<bool>,
    index_file: OnceCell<File>,
    time_index_file: OnceCell<File>,
    /// The name that its file was made under, until it has its own.
    made_as: RefCell<Option<String>>,
    /// Told when the last one that looks at it lets go.
    let_go: OnceCell<Rc<Event>>,
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Some(let_go) = self.let_go.get() {
            let_go.notify();
        }
    }
}

impl Segment {
    /// One over an open file, of which nothing is believed yet.
    pub(super) fn over(dir: Rc<Dir>, base: Offset, log: File, index_interval: u32) -> Self {
        Self {
            dir,
            base,
            log,
            bytes: Cell::new(0),
            prepared: Cell::new(0),
            end: Cell::new(base),
            greatest: Cell::new(None),
            appended: Cell::new(None),
            begun: Cell::new(None),
            index_interval,
            is_sealed: Cell::new(false),
            indexes: RefCell::new(Some(Indexes::default())),
            rebuilds: Cell::new(0),
            is_indexed: Cell::new(false),
            index_file: OnceCell::new(),
            time_index_file: OnceCell::new(),
            made_as: RefCell::default(),
            let_go: OnceCell::new(),
        }
    }

    /// Its file has the name it was made under, or its own.
    pub(super) fn named(&self, made_as: Option<String>) {
        *self.made_as.borrow_mut() = made_as;
    }

    /// Whether its file has its own name.
    pub(super) fn is_named(&self) -> bool {
        self.made_as.borrow().is_none()
    }

    /// Gives its file its own name, if it has another. The directory is to be synced then.
    pub(super) async fn name(&self) -> Result<(), LogError> {
        let Some(from) = self.made_as.borrow().clone() else {
            return Ok(());
        };
        let to = log_name(self.base);
        match self.dir.rename_aside(&self.log, &from, &to).await {
            // A roll was faster.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && self.is_named() => Ok(()),
            Err(cause) => Err(self.disk_error(RENAME, None, cause)),
            Ok(()) => {
                self.named(None);
                Ok(())
            }
        }
    }

    /// The same on the spot.
    pub(super) fn name_now(&self) -> Result<(), LogError> {
        let Some(from) = self.made_as.borrow().clone() else {
            return Ok(());
        };
        let to = log_name(self.base);
        let failed = |cause| self.disk_error(RENAME, None, cause);
        match self.dir.rename(&from, &to) {
            // A flush was faster, and is not back yet.
            Err(cause)
                if cause.kind() == io::ErrorKind::NotFound
                    && self.dir.size_of(&to).map_err(failed)?.is_some() => {}
            Err(cause) => return Err(failed(cause)),
            Ok(()) => {}
        }
        self.log.renamed(&self.dir.path().join(to));
        self.named(None);
        Ok(())
    }

    /// The same in another file, with the same bytes.
    pub(super) fn moved_to(mut self, log: File) -> Self {
        self.log = log;
        self
    }

    /// Makes a new segment that begins at `base`. Its directory is to be synced.
    pub(super) fn create(
        dir: &Rc<Dir>,
        base: Offset,
        index_interval: u32,
    ) -> Result<Self, LogError> {
        let log = dir.create_file(&log_name(base));
        Self::created(dir, base, log, index_interval)
    }

    /// The same on a blocking thread.
    pub(super) async fn create_aside(
        dir: &Rc<Dir>,
        base: Offset,
        index_interval: u32,
    ) -> Result<Self, LogError> {
        let log = dir.create_file_aside(&log_name(base)).await;
        Self::created(dir, base, log, index_interval)
    }

    fn created(
        dir: &Rc<Dir>,
        base: Offset,
        log: io::Result<File>,
        index_interval: u32,
    ) -> Result<Self, LogError> {
        match log {
            Ok(log) => Ok(Self::over(Rc::clone(dir), base, log, index_interval)),
            Err(cause) => Err(disk_error(dir, "create", &log_name(base), cause)),
        }
    }

    /// Opens the file of a segment and believes nothing of it yet: it has no batch until
    /// recovery has noted them.
    pub(super) async fn open(
        dir: &Rc<Dir>,
        base: Offset,
        index_interval: u32,
    ) -> Result<Self, LogError> {
        let name = log_name(base);
        let opened = dir.open_file(&name).await.and_then(|file| {
            file.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it was listed before"))
        });
        match opened {
            Ok(log) => Ok(Self::over(Rc::clone(dir), base, log, index_interval)),
            Err(cause) => Err(disk_error(dir, "open", &name, cause)),
        }
    }

    /// The offset of its first record, which names it.
    pub(super) fn base(&self) -> Offset {
        self.base
    }

    /// The offset after its last record.
    pub(super) fn end(&self) -> Offset {
        self.end.get()
    }

    /// Valid bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Bytes of prepared space behind the last batch.
    pub(super) fn prepared_bytes(&self) -> u64 {
        self.prepared.get().saturating_sub(self.bytes.get())
    }

    /// The file is prepared up to `size`.
    pub(super) fn prepared(&self, size: u64) {
        self.prepared.set(size);
    }

    /// Adds prepared space to the file; how long it is then.
    pub(super) async fn extend(&self, bytes: u64) -> Result<u64, LogError> {
        let extended = self.log.extend(bytes).await;
        if self.is_sealed.get() {
            // It came too late, and may have come after the cut.
            self.trim().await?;
        }
        extended.map_err(|cause| self.disk_error("prepare space in", None, cause))
    }

    /// Gives back what was prepared and not used: no batch follows.
    pub(super) async fn trim(&self) -> Result<(), LogError> {
        let bytes = self.bytes.get();
        let trimmed = match self.log.size(Patience::Wait).await {
            Ok(size) if size > bytes => self.log.truncate_aside(bytes).await,
            Ok(_) => return Ok(()),
            Err(cause) => Err(cause),
        };
        self.prepared.set(bytes);
        trimmed.map_err(|cause| self.disk_error(CUT, Some(bytes), cause))
    }

    /// The file of its batches.
    pub(super) fn log(&self) -> &File {
        &self.log
    }

    /// The greatest timestamp of its data, and the last offset of the first batch that has it.
    pub(super) fn greatest(&self) -> Option<(Timestamp, Offset)> {
        self.greatest
            .get()
            .map(|entry| (entry.timestamp, self.absolute(entry.last)))
    }

    /// A batch was appended at that time.
    pub(super) fn appended(&self, now: Timestamp) {
        self.appended.set(self.appended.get().max(Some(now)));
        self.begun.set(self.begun.get().or(Some(now)));
    }

    /// A batch that another broker had placed was appended at that time, whatever its own says.
    pub(super) fn applied(&self, batch: &PlacedBatch, now: Timestamp) {
        if self.bytes.get() == batch.bytes().len() as u64 {
            self.begun.set(Some(now));
        }
        self.appended(now);
    }

    /// When its first batch was appended, and no later than now; `None`: it has none. Where it is
    /// not known, now counts from now on.
    pub(super) fn begun(&self, now: Timestamp) -> Option<Timestamp> {
        if self.bytes.get() == 0 {
            return None;
        }
        let begun = self.begun.get().map_or(now, |begun| begun.min(now));
        self.begun.set(Some(begun));
        Some(begun)
    }

    /// The same, where it is known.
    pub(super) fn known_begun(&self) -> Option<Timestamp> {
        self.begun.get()
    }

    /// Sets what an opening knows of the first append to the segment that grows. `noted`: what the
    /// checkpoint says. Without that the time of its first batch counts, if the broker set it, and
    /// that of the opening if not: what is sealed too late is not lost.
    pub(super) fn recall_begun(&self, noted: Option<Timestamp>, now: Timestamp) {
        self.begun.set(noted.or(self.begun.get()));
        self.begun(now);
    }

    /// Base and time of the last append, where that time counts as its age: its records carry
    /// none, or a later one.
    pub(super) fn own_append_time(&self) -> Option<(Offset, Timestamp)> {
        let appended = self.appended.get()?;
        let greatest = self.greatest.get().map(|entry| entry.timestamp);
        let counts = greatest.is_none_or(|greatest| greatest > appended);
        counts.then_some((self.base, appended))
    }

    /// Sets what an opening knows of the last append. `noted`: what the checkpoint says of the whole
    /// segment. Without that, records that carry no time, or a later one than now, count as appended
    /// now: what is removed too late is not lost.
    pub(super) fn recall(&self, noted: Option<Timestamp>, now: Timestamp) {
        let greatest = self.greatest.get().map(|entry| entry.timestamp);
        let is_known = self.bytes.get() == 0 || greatest.is_some_and(|greatest| greatest <= now);
        let unknown = (!is_known).then_some(now);
        self.appended.set(noted.or(unknown));
    }

    /// Whether its newest record is older than that. A record's own time counts, but no time later
    /// than its append.
    pub(super) fn is_older(&self, age: Duration, now: Timestamp) -> bool {
        let greatest = self.greatest.get().map(|entry| entry.timestamp);
        let newest = match (greatest, self.appended.get()) {
            (Some(greatest), Some(appended)) => greatest.min(appended),
            (Some(time), None) | (None, Some(time)) => time,
            (None, None) => return false,
        };
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        now.0.saturating_sub(newest.0) > age
    }

    /// Has the event told once nobody looks at the segment any more.
    pub(super) fn tell_when_let_go(&self, let_go: Rc<Event>) {
        let told = self.let_go.set(let_go);
        assert!(told.is_ok(), "a segment is let go of once");
    }

    fn absolute(&self, relative: u32) -> Offset {
        self.base.after(u64::from(relative))
    }

    /// Whether a batch of `bytes` that ends before `next` may still go here. The first always may,
    /// whatever its size.
    pub(super) fn has_room(&self, bytes: u64, next: Offset, bytes_max: u64) -> bool {
        self.bytes.get() == 0
            || (self.bytes.get() + bytes <= bytes_max.min(SEGMENT_SPAN_MAX)
                && next.since(self.base) <= SEGMENT_SPAN_MAX)
    }

    /// Takes note of the next batch, which lies in the file already.
    pub(super) fn note(&self, header: &Header, last: Offset) {
        let size = header.size() as u64;
        if self.bytes.get() == 0 && header.is_append_time() {
            self.begun.set(Some(Timestamp(header.max_timestamp)));
        }
        let noted = self.indexed(self.bytes.get(), header, last);
        let mut indexes = self.indexes.borrow_mut();
        let indexes = indexes
            .as_mut()
            .expect("a segment that grows has its indexes in memory");
        indexes.note(noted, self.index_interval);
        self.is_indexed.set(false);
        self.greatest.set(indexes.greatest());
        self.bytes.set(self.bytes.get() + size);
        self.end.set(last.after(1));
        assert!(self.bytes.get() <= SEGMENT_SPAN_MAX);
    }

    /// Sets what recovery found without noting every batch. `indexes`: only for the last segment,
    /// which goes on growing.
    pub(super) fn trust(
        &self,
        bytes: u64,
        end: Offset,
        greatest: Option<TimeEntry>,
        indexes: Option<Indexes>,
    ) {
        self.bytes.set(bytes);
        self.end.set(end);
        self.greatest.set(greatest);
        self.is_sealed.set(indexes.is_none());
        self.is_indexed.set(indexes.is_some());
        *self.indexes.borrow_mut() = indexes;
    }

    /// Completes the indexes: no batch follows.
    pub(super) fn seal(&self) {
        self.is_sealed.set(true);
        self.log.seal();
        if let Some(indexes) = self.indexes.borrow_mut().as_mut() {
            indexes.seal();
        }
    }

    /// The bytes of both index files, if they are still to be written. In steps: those of a large
    /// segment are more than a core may be held for.
    pub(super) async fn index_bytes(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut bytes = IndexBytes::default();
        let mut rebuilds = self.rebuilds.get();
        while !self.indexes.borrow().as_ref()?.write(&mut bytes) {
            breathe().await;
            // A read may have found meanwhile that they are not to be believed.
            if self.rebuilds.get() != rebuilds {
                rebuilds = self.rebuilds.get();
                bytes = IndexBytes::default();
            }
        }
        Some((bytes.offsets, bytes.times))
    }

    /// Writes both index files, durably, where they are not as they should be.
    pub(super) async fn save_indexes(&self) -> Result<(), LogError> {
        if self.is_indexed.get() && self.rebuilds.get() == 0 {
            return Ok(());
        }
        let Some((offsets, times)) = self.index_bytes().await else {
            return Ok(());
        };
        for (name, bytes) in [
            (index_name(self.base), offsets),
            (time_index_name(self.base), times),
        ] {
            self.dir
                .replace(&name, bytes)
                .await
                .map_err(|error| LogError::replacing(&self.dir, &name, error))?;
        }
        Ok(())
    }

    /// From now on the index files serve, which must be written.
    pub(super) fn forget_indexes(&self) {
        *self.indexes.borrow_mut() = None;
    }

    /// An error of the disk in the file of batches.
    pub(super) fn disk_error(
        &self,
        doing: &'static str,
        position: Option<u64>,
        cause: io::Error,
    ) -> LogError {
        LogError::Disk {
            dir: self.dir.path().to_owned(),
            file: log_name(self.base),
            position,
            doing,
            cause,
        }
    }

    /// Takes away what a write that failed has left behind the last whole batch: no later batch is
    /// to have anything of another behind it, which could be taken for the next one after a crash.
    pub(super) fn cut_back(&self) -> Result<(), LogError> {
        let bytes = self.bytes.get();
        self.prepared.set(bytes);
        self.log
            .truncate(bytes)
            .map_err(|cause| self.disk_error(CUT, Some(bytes), cause))
    }

    /// A fault in the file of batches.
    pub(super) fn damaged(&self, position: u64, fault: Fault) -> LogError {
        LogError::Damaged {
            dir: self.dir.path().to_owned(),
            file: log_name(self.base),
            position,
            fault,
        }
    }

    /// Makes all its batches durable.
    pub(super) async fn flush(&self) -> Result<(), LogError> {
        self.log
            .flush()
            .await
            .map_err(|cause| self.disk_error(FLUSH, None, cause))
    }

    /// A batch as the indexes see it.
    fn indexed(&self, position: u64, header: &Header, last: Offset) -> Indexed {
        let small = |number: u64| u32::try_from(number).expect("a segment spans less than 2^31");
        Indexed {
            position: small(position),
            bytes: small(header.size() as u64),
            last: small(last.since(self.base)),
            timestamp: (!header.is_control()).then_some(Timestamp(header.max_timestamp)),
        }
    }
}
