//! A segment: a file of batches and its two indexes.

use super::error::{Fault, LogError};
use super::index::{self, Entry, Indexed, Indexes, OffsetEntry, TimeEntry};
use super::walk::{Owed, Start, Walk};
use crate::disk::{Dir, File, Patience};
use felix_core::batch::Header;
use felix_core::limits::SEGMENT_SPAN_MAX;
use felix_core::{Offset, Timestamp};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;

/// Bytes read at once where the indexes are taken from the batches.
const REBUILDING_BYTES: usize = 256 << 10;

/// Bytes between two entries of an index that was taken from the batches: few enough to walk for
/// every read, and so many that the entries of a gigabyte take little memory.
const REBUILT_INTERVAL: u32 = 64 << 10;

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
    /// The offset after the last batch.
    end: Cell<Offset>,
    greatest: Cell<Option<TimeEntry>>,
    /// While the segment grows, and until its index files are written; then they serve, unless one
    /// turned out to be wrong.
    indexes: RefCell<Option<Indexes>>,
    index_file: OnceCell<File>,
    time_index_file: OnceCell<File>,
}

impl Segment {
    fn over(dir: Rc<Dir>, base: Offset, log: File) -> Self {
        Self {
            dir,
            base,
            log,
            bytes: Cell::new(0),
            end: Cell::new(base),
            greatest: Cell::new(None),
            indexes: RefCell::new(Some(Indexes::default())),
            index_file: OnceCell::new(),
            time_index_file: OnceCell::new(),
        }
    }

    /// Makes a new segment that begins at `base`. Its directory is to be synced.
    pub(super) fn create(dir: &Rc<Dir>, base: Offset) -> Result<Self, LogError> {
        let name = log_name(base);
        match dir.create_file(&name) {
            Ok(log) => Ok(Self::over(Rc::clone(dir), base, log)),
            Err(cause) => Err(LogError::Disk {
                dir: dir.path().to_owned(),
                file: name,
                position: None,
                doing: "create",
                cause,
            }),
        }
    }

    /// Opens the file of a segment and believes nothing of it yet: it has no batch until
    /// recovery has noted them.
    pub(super) async fn open(dir: &Rc<Dir>, base: Offset) -> Result<Self, LogError> {
        let name = log_name(base);
        let opened = dir.open_file(&name).await.and_then(|file| {
            file.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it was listed before"))
        });
        match opened {
            Ok(log) => Ok(Self::over(Rc::clone(dir), base, log)),
            Err(cause) => Err(LogError::Disk {
                dir: dir.path().to_owned(),
                file: name,
                position: None,
                doing: "open",
                cause,
            }),
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
    pub(super) fn note(&self, header: &Header, last: Offset, interval_bytes: u32) {
        let size = header.size() as u64;
        let noted = self.indexed(self.bytes.get(), header, last);
        let mut indexes = self.indexes.borrow_mut();
        let indexes = indexes
            .as_mut()
            .expect("a segment that grows has its indexes in memory");
        indexes.note(noted, interval_bytes);
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
        *self.indexes.borrow_mut() = indexes;
    }

    /// Completes the indexes: no batch follows.
    pub(super) fn seal(&self) {
        if let Some(indexes) = self.indexes.borrow_mut().as_mut() {
            indexes.seal();
        }
    }

    /// The bytes of both index files, if they are still to be written.
    pub(super) fn index_bytes(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let indexes = self.indexes.borrow();
        indexes
            .as_ref()
            .map(|indexes| (indexes.offset_bytes(), indexes.time_bytes()))
    }

    /// Writes both index files, durably.
    pub(super) async fn save_indexes(&self) -> Result<(), LogError> {
        let Some((offsets, times)) = self.index_bytes() else {
            return Ok(());
        };
        for (name, bytes) in [
            (index_name(self.base), offsets),
            (time_index_name(self.base), times),
        ] {
            self.dir
                .replace(&name, bytes)
                .await
                .map_err(|cause| LogError::Disk {
                    dir: self.dir.path().to_owned(),
                    file: name,
                    position: None,
                    doing: "replace",
                    cause,
                })?;
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
            .map_err(|cause| self.disk_error("flush", None, cause))
    }

    /// A place at or before the batch that holds `offset`, to walk from.
    pub(super) async fn start_before(
        &self,
        offset: Offset,
        patience: Patience,
    ) -> Result<Start, LogError> {
        if offset <= self.base {
            return Ok(self.beginning());
        }
        let relative = offset.since(self.base);
        if let Some(start) = self.start_in_memory(relative) {
            return Ok(start);
        }
        let before = |entry: &OffsetEntry| u64::from(entry.last) < relative;
        let name = index_name(self.base);
        match self
            .search_file(&self.index_file, &name, before, patience)
            .await?
        {
            Some(None) => return Ok(self.beginning()),
            Some(Some(entry)) if self.has_batch(entry, patience).await? => {
                return Ok(self.start_at(entry));
            }
            Some(Some(_)) | None => {}
        }
        self.rebuild(&name, patience).await?;
        let start = self.start_in_memory(relative);
        Ok(start.unwrap_or_else(|| self.beginning()))
    }

    fn start_in_memory(&self, relative: u64) -> Option<Start> {
        let indexes = self.indexes.borrow();
        let found = indexes.as_ref()?.offset_before(relative);
        Some(found.map_or_else(|| self.beginning(), |entry| self.start_at(entry)))
    }

    fn beginning(&self) -> Start {
        Start {
            position: 0,
            owed: Owed::First(self.base),
        }
    }

    fn start_at(&self, entry: OffsetEntry) -> Start {
        Start {
            position: u64::from(entry.position),
            owed: Owed::Last(self.absolute(entry.last)),
        }
    }

    async fn has_batch(&self, entry: OffsetEntry, patience: Patience) -> Result<bool, LogError> {
        let position = u64::from(entry.position);
        let read = self
            .log
            .read(position, felix_core::batch::HEADER_BYTES, patience)
            .await;
        let bytes = read.map_err(|cause| self.disk_error("read", Some(position), cause))?;
        let range = Header::read(&bytes)
            .ok()
            .and_then(|header| header.offset_range());
        Ok(range.is_some_and(|(_, found)| found == self.absolute(entry.last)))
    }

    /// A walk that begins after the batch of the last time entry for which `before` holds, and
    /// that entry. `before` is given timestamp and offset; where it holds, it holds for all
    /// earlier entries.
    pub(super) async fn walk_after_time(
        &self,
        before: impl Fn(Timestamp, Offset) -> bool,
        chunk_bytes: usize,
        patience: Patience,
    ) -> Result<(Walk<'_>, Option<(Timestamp, Offset)>), LogError> {
        let name = time_index_name(self.base);
        let before = |entry: &TimeEntry| before(entry.timestamp, self.absolute(entry.last));
        if self.indexes.borrow().is_none() {
            let found = self
                .search_file(&self.time_index_file, &name, before, patience)
                .await?;
            let walk = match found {
                Some(entry) => self.walk_after(entry, chunk_bytes, patience).await?,
                None => None,
            };
            if let Some(walk) = walk {
                return Ok(walk);
            }
            self.rebuild(&name, patience).await?;
        }
        let found = self
            .indexes
            .borrow()
            .as_ref()
            .and_then(|indexes| indexes.time_before(|entry| before(&entry)));
        let walk = self.walk_after(found, chunk_bytes, patience).await?;
        Ok(walk.unwrap_or_else(|| {
            let walk = Walk::new(self, self.beginning(), chunk_bytes, patience);
            (walk, None)
        }))
    }

    /// The walk that begins after the batch of a time entry, or at the beginning where there is no
    /// entry; `None`: no batch is as the entry says.
    async fn walk_after(
        &self,
        entry: Option<TimeEntry>,
        chunk_bytes: usize,
        patience: Patience,
    ) -> Result<Option<(Walk<'_>, Option<(Timestamp, Offset)>)>, LogError> {
        let Some(entry) = entry else {
            let walk = Walk::new(self, self.beginning(), chunk_bytes, patience);
            return Ok(Some((walk, None)));
        };
        let last = self.absolute(entry.last);
        let start = self.start_before(last, patience).await?;
        let mut walk = Walk::new(self, start, chunk_bytes, patience);
        while let Some((header, found)) = walk.next().await? {
            walk.skip(&header);
            if found >= last {
                let agrees = found == last && header.max_timestamp == entry.timestamp.0;
                return Ok(agrees.then_some((walk, Some((entry.timestamp, last)))));
            }
        }
        Ok(None)
    }

    /// Searches an index file; `None` where there is none.
    async fn search_file<E: Entry>(
        &self,
        cell: &OnceCell<File>,
        name: &str,
        before: impl Fn(&E) -> bool,
        patience: Patience,
    ) -> Result<Option<Option<E>>, LogError> {
        let searching = async {
            let file = self.on_demand(cell, name, patience).await?;
            index::search(file, before, patience).await
        };
        match searching.await {
            Ok(found) => Ok(Some(found)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(self.index_error(name, cause)),
        }
    }

    fn index_error(&self, name: &str, cause: io::Error) -> LogError {
        LogError::Disk {
            dir: self.dir.path().to_owned(),
            file: name.to_owned(),
            position: None,
            doing: "search",
            cause,
        }
    }

    /// Takes both indexes from the batches, into memory, because a file is not to be believed: from
    /// now on no file is looked at, so this is done once. Where a batch is damaged the files stay:
    /// they may lead past it, and whoever walks up to it from the beginning is told.
    async fn rebuild(&self, name: &str, patience: Patience) -> Result<(), LogError> {
        if patience == Patience::Now {
            return Err(self.index_error(name, io::ErrorKind::WouldBlock.into()));
        }
        let mut indexes = Indexes::default();
        let mut walk = Walk::new(self, self.beginning(), REBUILDING_BYTES, patience);
        loop {
            match walk.next().await {
                Ok(Some((header, last))) => {
                    indexes.note(
                        self.indexed(walk.position(), &header, last),
                        REBUILT_INTERVAL,
                    );
                    walk.skip(&header);
                }
                Ok(None) => break,
                Err(LogError::Damaged { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        indexes.seal();
        if self.indexes.borrow().is_none() {
            tracing::warn!(
                dir = %self.dir.path().display(),
                file = name,
                "an index does not lead to a batch: until the next start it is kept in memory; \
                 remove the file, and that start makes it anew"
            );
            *self.indexes.borrow_mut() = Some(indexes);
        }
        Ok(())
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

    /// Index files are opened when first needed, so that a shard with many segments holds one
    /// descriptor for each and not three.
    async fn on_demand<'a>(
        &self,
        cell: &'a OnceCell<File>,
        name: &str,
        patience: Patience,
    ) -> io::Result<&'a File> {
        if let Some(file) = cell.get() {
            return Ok(file);
        }
        if patience == Patience::Now {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let opened = self
            .dir
            .open_file(name)
            .await?
            .ok_or(io::ErrorKind::NotFound)?;
        // Another read may have been faster; then this one's file is closed again.
        Ok(cell.get_or_init(|| opened))
    }
}
