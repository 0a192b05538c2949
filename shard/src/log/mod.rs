//! One shard's log on disk: a run of segments, each with its two indexes, and beside them the
//! generation table and the checkpoint. Lives on the CPU core that owns the shard.
//!
//! Nothing here awaits while the log is borrowed: what takes time is handed out as an owned piece
//! of work ([`Flush`], [`Read`], [`Search`]) and its result is brought back.

use bytes::Bytes;
use felix_core::{Batch, Generation, Offset, PlacedBatch, Timestamp, Timestamps};
use std::path::Path;

/// How a log is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// A segment that would grow past this many bytes is sealed first.
    pub segment_bytes_max: u64,
    /// Bytes of log between two entries of the offset index.
    pub index_interval_bytes: u32,
}

/// Why a shard is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenReason {
    /// The leader it had opens it again. No batch is written for it.
    Restart,
    /// Another leader takes over, or the shard moved: a log that is not empty gets a control batch.
    Promotion,
}

/// What an opening is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Why.
    pub reason: OpenReason,
    /// The new generation is above this, and above every one in the table.
    pub generation_floor: Generation,
    /// Wall clock.
    pub now: Timestamp,
}

/// What an opening found and did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Bytes cut off at the first batch that was not whole.
    pub cut_bytes: u64,
    /// Batches read to find the end.
    pub scanned_batches: u64,
    /// Index files made anew.
    pub rebuilt_indexes: u32,
}

/// Why a log cannot be used: names shard directory, file and position.
#[derive(Debug)]
pub enum LogError {
    /// TODO(log)
    Placeholder,
}

/// One shard's log.
#[derive(Debug)]
pub struct Log {}

/// A flush to be awaited without holding the log.
#[derive(Debug)]
pub struct Flush {}

/// What a flush made durable.
#[derive(Debug)]
pub struct Flushed {}

/// A read to be done without holding the log.
#[derive(Debug)]
pub struct Read {}

/// A search by timestamp to be done without holding the log.
#[derive(Debug)]
pub struct Search {}

/// What to search for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The first record at this timestamp or later.
    AtOrAfter(Timestamp),
    /// The first record of the first batch that has the greatest timestamp.
    Greatest,
}

impl Log {
    /// Opens the log in `dir`, making it if there is none: recovers, flushes what it accepted,
    /// raises and persists the generation, and only then returns.
    ///
    /// # Errors
    /// Damage below the recovery point, a foreign file, or the disk's own fault.
    pub async fn open(_dir: &Path, _config: LogConfig, _opening: Opening) -> Result<(Self, Recovery), LogError> { todo!() }
    /// The lowest offset that can be read.
    pub fn start(&self) -> Offset { todo!() }
    /// The next offset to be assigned.
    pub fn end(&self) -> Offset { todo!() }
    /// Everything below this is on the device.
    pub fn durable_end(&self) -> Offset { todo!() }
    /// The offset after the last data record below `mark` (a high watermark).
    pub fn visible_end(&self, _mark: Offset) -> Offset { todo!() }
    /// The generation this opening has.
    pub fn generation(&self) -> Generation { todo!() }
    /// Places a batch and writes it (`pwrite`); it is then written, not durable. Rolls first where
    /// the segment is full. After an error the log is poisoned and takes nothing more.
    pub fn append(&mut self, _batch: Batch, _timestamps: Timestamps, _now: Timestamp) -> Result<PlacedBatch, LogError> { todo!() }
    /// Bytes written and not yet durable.
    pub fn dirty_bytes(&self) -> u64 { todo!() }
    /// What would make everything written so far durable; `None` where nothing is dirty.
    pub fn flush(&self) -> Option<Flush> { todo!() }
    /// Takes a finished flush back. An error poisons the log.
    pub fn flushed(&mut self, _result: Result<Flushed, LogError>) -> Result<(), LogError> { todo!() }
    /// A read of whole batches from the one that holds `from`, ending below `below` (no batch that
    /// reaches past it) and after about `bytes_max` bytes, but at least one batch. Control batches
    /// are left out. `from` lies in `start()..below`.
    pub fn read(&self, _from: Offset, _below: Offset, _bytes_max: usize) -> Read { todo!() }
    /// A search among the records below `below`.
    pub fn search(&self, _wanted: Wanted, _below: Offset) -> Search { todo!() }
    /// Flushes, trims, writes the checkpoint with everything durable.
    pub async fn close(self) -> Result<(), LogError> { todo!() }
}

impl Flush {
    /// Does it (io_uring through glommio).
    pub async fn run(self) -> Result<Flushed, LogError> { todo!() }
}

impl Read {
    /// The bytes, if all of them can be had without blocking (`preadv2(RWF_NOWAIT)`).
    pub fn try_now(&self) -> Option<Result<Vec<Bytes>, LogError>> { todo!() }
    /// The bytes, reading from the device where needed (io_uring through glommio).
    pub async fn run(self) -> Result<Vec<Bytes>, LogError> { todo!() }
}

impl Search {
    /// The record's offset, timestamp and the generation of its batch.
    pub async fn run(self) -> Result<Option<(Offset, Timestamp, Generation)>, LogError> { todo!() }
}
