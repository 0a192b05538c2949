//! What a log knows of its idempotent producers, and the file beside the segments that saves the
//! next opening from reading the headers of all batches. Drawn in `docs/log-format.md`.

use super::error::LogError;
use super::recovery::disk_error;
use super::segment::Segment;
use super::table::{self, Frame};
use super::walk::Walk;
use crate::disk::{Calls, Dir, Patience, breathe};
#[cfg(test)]
use crate::runtime::broken::{self, Broken};
use bytes::Bytes;
use felix_core::batch::Header;
use felix_core::limits::PRODUCERS_PER_SHARD_MAX;
use felix_core::producers::{Loading, Producers, Refusal, Sequenced, SnapshotError, Verdict};
use felix_core::{Offset, Timestamp};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The file's name.
pub(super) const NAME: &str = "producers";
pub(super) const MAGIC: [u8; 4] = *b"FLXP";

/// Producers copied to a snapshot, or read from one, in one go: some 80 KiB.
const PRODUCERS_AT_ONCE: usize = 64;

/// Batches that are noted in one go.
const BATCHES_AT_ONCE: usize = 256;

/// Bytes read at once where only headers are wanted.
const CHUNK_BYTES: usize = 64 << 10;

/// The table of a log. Shared, within its CPU core, by the log and by the snapshot under way.
#[derive(Clone, Debug)]
pub(super) struct ProducerTable(Rc<RefCell<Producers>>);

impl ProducerTable {
    pub(super) fn new(table: Producers) -> Self {
        Self(Rc::new(RefCell::new(table)))
    }

    pub(super) fn of_nobody(start: Offset) -> Self {
        Self::new(nobody(start))
    }

    pub(super) fn judge(&self, batch: &Sequenced) -> Result<Verdict, Refusal> {
        self.0.borrow().judge(batch)
    }

    /// Takes down what has been written, if an idempotent producer made it.
    pub(super) fn note(&self, header: &Header, base_offset: Offset) {
        if let Some(batch) = Sequenced::of(header) {
            let time = header
                .is_append_time()
                .then_some(Timestamp(header.max_timestamp));
            self.0.borrow_mut().note(&batch, base_offset, time);
        }
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Producers) -> T) -> T {
        look(&mut self.0.borrow_mut())
    }

    /// From here on the table as it is now, where the log ends at `end`, may be written: see
    /// [`ProducerTable::snapshot`]. Not while a snapshot is being written.
    pub(super) fn mark(&self, end: Offset) {
        self.0.borrow_mut().begin_copy(end);
    }

    /// Whether a state that was marked waits to be written, or is.
    pub(super) fn is_marked(&self) -> bool {
        self.0.borrow().copy_end().is_some()
    }

    /// The state that was marked, to be written; `None` where none is, or a record that it knows is
    /// not durable yet: a snapshot must never know what the log may lose.
    pub(super) fn snapshot(&self, durable_end: Offset) -> Option<Snapshot> {
        let end = self.0.borrow().copy_end()?;
        (end <= durable_end).then(|| Snapshot {
            table: self.clone(),
            end,
            is_copied: Cell::new(false),
        })
    }
}

pub(super) fn nobody(start: Offset) -> Producers {
    Producers::new(start, PRODUCERS_PER_SHARD_MAX)
}

/// A snapshot to be written without holding the log.
#[derive(Debug)]
#[must_use]
pub(super) struct Snapshot {
    table: ProducerTable,
    end: Offset,
    is_copied: Cell<bool>,
}

impl Drop for Snapshot {
    /// What was copied in part is of no use to the next.
    fn drop(&mut self) {
        if !self.is_copied.get() {
            self.table.with(Producers::give_up_copy);
        }
    }
}

impl Snapshot {
    /// Puts it in the place of the one in `dir`, durably; the log end that it describes.
    ///
    /// In steps: a large table is more than a core may be held for.
    pub(super) async fn save(&self, dir: &Dir) -> Result<Offset, LogError> {
        let mut frame = Frame::new(MAGIC, self.table.with(|table| table.copy_bytes()));
        loop {
            let done = frame.put(|out| {
                self.table
                    .with(|table| table.copy_step(out, PRODUCERS_AT_ONCE))
            });
            if done {
                break;
            }
            breathe().await;
        }
        self.is_copied.set(true);
        table::replace(dir, NAME, frame.into_bytes()).await?;
        Ok(self.end)
    }
}

/// A snapshot as it stands in its file.
pub(super) enum Loaded {
    Payload(Bytes),
    /// Why it is not to be believed.
    Damaged(String),
    Nothing,
}

/// Reads the one in a directory.
pub(super) fn load(calls: &Calls<'_>) -> Result<Loaded, LogError> {
    match table::load(calls, NAME, MAGIC) {
        Ok(Some(payload)) => Ok(Loaded::Payload(payload)),
        Ok(None) => Ok(Loaded::Nothing),
        Err(LogError::Damaged { fault, .. }) => Ok(Loaded::Damaged(fault.to_string())),
        Err(error) => Err(error),
    }
}

/// Makes the table of a log while that is recovered, from the snapshot if there is one and from the
/// headers of the batches that it does not know.
pub(super) struct Replay {
    table: ProducerTable,
    start: Offset,
    /// Batches from here on are to be noted.
    from: Offset,
    /// The end of the snapshot.
    snapshot: Option<Offset>,
    /// A batch lies across the end of the snapshot, so it is not one of this log.
    is_foreign: bool,
}

impl Replay {
    /// Begins with a snapshot, for a log in `dir` that begins at `start`. One that is damaged is told
    /// and does no harm.
    pub(super) async fn begin(dir: &Dir, snapshot: Loaded, start: Offset) -> Self {
        let loaded = match snapshot {
            Loaded::Payload(payload) => read(&payload, start)
                .await
                .map_err(|error| error.to_string()),
            Loaded::Damaged(reason) => Err(reason),
            Loaded::Nothing => return Self::from_log(start),
        };
        match loaded {
            Ok((table, end)) => Self {
                table: ProducerTable::new(table),
                start,
                from: end.max(start),
                snapshot: Some(end),
                is_foreign: false,
            },
            Err(reason) => {
                tell(dir, &reason);
                Self::from_log(start)
            }
        }
    }

    /// Begins with nothing.
    pub(super) fn from_log(start: Offset) -> Self {
        Self {
            table: ProducerTable::of_nobody(start),
            start,
            from: start,
            snapshot: None,
            is_foreign: false,
        }
    }

    /// Takes down a batch that was read.
    pub(super) fn note(&mut self, header: &Header, base_offset: Offset, last: Offset) {
        if base_offset >= self.from {
            self.table.note(header, base_offset);
        } else if last >= self.from && base_offset >= self.start {
            self.is_foreign = true;
        }
    }

    /// Takes down the batches of a segment that was not read whole.
    pub(super) async fn read(&mut self, segment: &Segment) -> Result<(), LogError> {
        if segment.end() <= self.from {
            return Ok(());
        }
        let start = segment.start_before(self.from, Patience::Wait).await?;
        let mut walk = Walk::new(segment, start, CHUNK_BYTES, Patience::Wait);
        let mut read = 0;
        while let Some((header, last)) = walk.next().await? {
            walk.skip(&header);
            if let Some((base_offset, _)) = header.offset_range() {
                self.note(&header, base_offset, last);
            }
            read += 1;
            if read % BATCHES_AT_ONCE == 0 {
                breathe().await;
            }
        }
        Ok(())
    }

    /// The table of the log, which consists of these segments and ends at `end`, and the end of the
    /// snapshot that it rests on.
    pub(super) async fn finish(
        mut self,
        dir: &Dir,
        segments: &[Rc<Segment>],
        end: Offset,
    ) -> Result<(ProducerTable, Option<Offset>), LogError> {
        if self.is_foreign || self.snapshot > Some(end) {
            tell(dir, "it describes another log end than there was");
            self = Self::from_log(self.start);
            for segment in segments {
                self.read(segment).await?;
            }
        }
        #[cfg(test)]
        if broken::is(Broken::ProducersForgotten) {
            return Ok((ProducerTable::of_nobody(self.start), self.snapshot));
        }
        Ok((self.table, self.snapshot))
    }
}

/// Removes the snapshot in `dir`, if there is one, durably: the log is empty and knows nothing of it,
/// and would believe it once it has grown to the end that it describes.
pub(super) async fn remove(dir: &Dir) -> Result<(), LogError> {
    let failed = |doing, file, cause| disk_error(dir, doing, file, cause);
    let found = dir.aside(|calls| calls.size_of(NAME)).await;
    if found.map_err(|e| failed("measure", NAME, e))?.is_none() {
        return Ok(());
    }
    let removed = dir.discard_file(NAME).await;
    removed.map_err(|e| failed("remove", NAME, e))?;
    let synced = dir.sync().await;
    synced.map_err(|e| failed("sync the directory", "", e))
}

fn tell(dir: &Dir, reason: &str) {
    tracing::warn!(
        dir = %dir.path().display(),
        file = NAME,
        reason,
        "what was known of producers is taken from the batches: their file is not to be believed"
    );
}

async fn read(payload: &[u8], start: Offset) -> Result<(Producers, Offset), SnapshotError> {
    let mut loading = Loading::new(payload, nobody(start))?;
    let at_once = u32::try_from(PRODUCERS_AT_ONCE).unwrap_or(u32::MAX);
    while !loading.step(at_once)? {
        breathe().await;
    }
    let end = loading.end();
    let mut table = loading.into_table();
    table.forget_below(start);
    Ok((table, end))
}
