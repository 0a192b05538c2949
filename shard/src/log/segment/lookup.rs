//! Finding where in a segment to begin, by its indexes.
//!
//! An entry that came from a file is a hint, whether it is looked up in the file or was loaded from
//! it: the file has no checksum. It serves once the batch it points to is there; if it is not, both
//! indexes are taken from the batches.

use super::super::error::LogError;
use super::super::index::{self, Entry, Indexes, OffsetEntry, Origin, TimeEntry};
use super::super::recovery::disk_error;
use super::super::walk::{Owed, Start, Walk};
use super::{Segment, index_name, time_index_name};
use crate::disk::{File, Patience};
use felix_core::batch::{HEADER_BYTES, Header};
use felix_core::{Offset, Timestamp};
use std::cell::OnceCell;
use std::io;

/// Bytes read at once where the indexes are taken from the batches.
const REBUILDING_BYTES: usize = 256 << 10;

/// A walk, and what is known of the batches before it: their greatest timestamp, and the last
/// offset of the first that has it.
type AfterTime<'a> = (Walk<'a>, Option<(Timestamp, Offset)>);

impl Segment {
    /// A place at or before the batch that holds `offset`, to walk from.
    pub(in crate::log) async fn start_before(
        &self,
        offset: Offset,
        patience: Patience,
    ) -> Result<Start, LogError> {
        if offset <= self.base {
            return Ok(self.beginning());
        }
        let relative = offset.since(self.base);
        let in_memory = self.indexes.borrow().as_ref().map(|indexes| {
            let found = indexes.offset_before(relative);
            (found, indexes.origin(found))
        });
        let name = index_name(self.base);
        let found = match in_memory {
            Some((Some(entry), Origin::Batches)) => return Ok(self.start_at(entry)),
            Some((found, _)) => Some(found),
            None => {
                let before = |entry: &OffsetEntry| u64::from(entry.last) < relative;
                self.search_file(&self.index_file, &name, before, patience)
                    .await?
            }
        };
        match found {
            // The beginning is right for every offset.
            Some(None) => return Ok(self.beginning()),
            Some(Some(hint)) if self.has_batch(hint, patience).await? => {
                return Ok(self.start_at(hint));
            }
            Some(Some(_)) | None => self.rebuild(&name, patience).await?,
        }
        let rebuilt = self.of_batches(|indexes| indexes.offset_before(relative));
        Ok(rebuilt.map_or_else(|| self.beginning(), |entry| self.start_at(entry)))
    }

    /// What the indexes in memory say, if all of it comes from the batches.
    fn of_batches<T>(&self, find: impl FnOnce(&Indexes) -> Option<T>) -> Option<T> {
        let indexes = self.indexes.borrow();
        let indexes = indexes.as_ref().filter(|indexes| !indexes.has_hints());
        indexes.and_then(find)
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
        let read = self.log.read(position, HEADER_BYTES, patience).await;
        let bytes = read.map_err(|cause| self.disk_error("read", Some(position), cause))?;
        let range = Header::read(&bytes)
            .ok()
            .and_then(|header| header.offset_range());
        let last = self.absolute(entry.last);
        Ok(range.is_some_and(|(first, found)| first >= self.base && found == last))
    }

    /// A walk that begins after the batch of the last time entry for which `before` holds, and
    /// that entry. `before` is given timestamp and offset; where it holds, it holds for all
    /// earlier entries.
    pub(in crate::log) async fn walk_after_time(
        &self,
        before: impl Fn(Timestamp, Offset) -> bool,
        chunk_bytes: usize,
        patience: Patience,
    ) -> Result<AfterTime<'_>, LogError> {
        let name = time_index_name(self.base);
        let before = |entry: &TimeEntry| before(entry.timestamp, self.absolute(entry.last));
        let in_memory = self
            .indexes
            .borrow()
            .as_ref()
            .map(|indexes| indexes.time_before(|entry| before(&entry)));
        let found = match in_memory {
            Some(found) => Some(found),
            None => {
                self.search_file(&self.time_index_file, &name, before, patience)
                    .await?
            }
        };
        if let Some(entry) = found
            && let Some(walk) = self.walk_after(entry, chunk_bytes, patience).await?
        {
            return Ok(walk);
        }
        self.rebuild(&name, patience).await?;
        let rebuilt = self.of_batches(|indexes| indexes.time_before(|entry| before(&entry)));
        let walk = self.walk_after(rebuilt, chunk_bytes, patience).await?;
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
    ) -> Result<Option<AfterTime<'_>>, LogError> {
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
            // It would have been the entry's batch, or a greater timestamp is passed over.
            if !header.is_control() && header.max_timestamp >= entry.timestamp.0 {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Takes both indexes from the batches, into memory, because a file is not to be believed: from
    /// now on none is looked at, so this is done once; closing the log writes them anew. Where a
    /// batch is damaged the files stay: they may lead past it, and whoever walks up to it from the
    /// beginning is told.
    async fn rebuild(&self, name: &str, patience: Patience) -> Result<(), LogError> {
        if self.of_batches(|_| Some(())).is_some() {
            return Ok(());
        }
        if patience == Patience::Now {
            return Err(self.index_error(name, io::ErrorKind::WouldBlock.into()));
        }
        let mut indexes = Indexes::default();
        let mut start = self.beginning();
        loop {
            let mut walk = Walk::new(self, start, REBUILDING_BYTES, patience);
            loop {
                match walk.next().await {
                    Ok(Some((header, last))) => {
                        let noted = self.indexed(walk.position(), &header, last);
                        match walk.pass_over(&header).await {
                            Ok(()) => {}
                            Err(LogError::Damaged { .. }) => return Ok(()),
                            Err(error) => return Err(error),
                        }
                        indexes.note(noted, self.index_interval);
                        start.owed = Owed::First(last.after(1));
                    }
                    Ok(None) => break,
                    Err(LogError::Damaged { .. }) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            start.position = walk.position();
            // Batches may have been appended meanwhile.
            if start.position == self.bytes() {
                break;
            }
        }
        if self.is_sealed.get() {
            indexes.seal();
        }
        let mut held = self.indexes.borrow_mut();
        if held.as_ref().is_none_or(Indexes::has_hints) {
            tracing::warn!(
                dir = %self.dir.path().display(),
                file = name,
                "an index does not lead to a batch: it is taken from the batches, and the file \
                 written anew when the broker is stopped"
            );
            *held = Some(indexes);
            self.rebuilds.set(self.rebuilds.get() + 1);
        }
        Ok(())
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
        disk_error(&self.dir, "search", name, cause)
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
