//! A shard's directory as a crash, a failing disk or a stranger may have left it.

use super::producers;
use bytes::{Buf, BufMut, Bytes};
use felix_core::batch::{BatchBuilder, HEADER_BYTES};
use felix_core::{Batch, Generation, Offset, PlacedBatch, Timestamp, Timestamps};
use felix_shard::log::{Log, LogConfig, LogError, OpenReason, Opening, Wanted};
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};
use std::fmt::Write as _;
use std::fs;
use std::future::Future;
use std::path::Path;
use tempfile::TempDir;

/// Bit of the first byte of an input: checksums are made right before the log is opened, so that
/// what they protect is reached.
pub(crate) const SEALED: u8 = 1;

/// Small, so that a few batches make a few segments.
pub(crate) const CONFIG: LogConfig = LogConfig {
    segment_bytes_max: 1000,
    index_interval_bytes: 200,
};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

thread_local! {
    static EXECUTOR: LocalExecutor = LocalExecutorBuilder::new(Placement::Unbound)
        .io_memory(64 << 10)
        .make()
        .expect("the kernel has io_uring");
}

/// Runs on this thread's executor, as the log does in the broker.
pub(crate) fn run_on_executor<T>(work: impl Future<Output = T>) -> T {
    EXECUTOR.with(|executor| executor.run(work))
}

/// A directory of its own, in memory where there is such a place: flushes of a device would prove
/// nothing more, and take most of the time.
pub(crate) fn temporary() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.expect("a temporary directory can be made")
}

/// An opening as after a restart, or by another leader.
pub(crate) fn opening(reason: OpenReason) -> Opening {
    Opening {
        reason,
        generation_floor: Generation::new(0),
        is_floor_noted: false,
        now: NOW,
        verify: false,
        failed: false,
        kept_free_bytes: 0,
    }
}

/// A file of a directory: which one, and its bytes.
pub(crate) struct Part {
    /// 0 to 2: `.log`, `.index`, `.timeindex` of `base`; 3: `generations`; 4: `checkpoint`; 5:
    /// `failed`; 7: `producers`; 8: a segment that was being written once more; 9: a file for the
    /// next segment; 10: `crashes`; others: a name that is not the log's.
    pub(crate) kind: u8,
    pub(crate) base: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Part {
    fn name(&self) -> String {
        let mut name = String::new();
        let base = self.base;
        match self.kind {
            0 => write!(name, "{base:020}.log"),
            1 => write!(name, "{base:020}.index"),
            2 => write!(name, "{base:020}.timeindex"),
            3 => write!(name, "generations"),
            4 => write!(name, "checkpoint"),
            5 => write!(name, "failed"),
            6 => write!(name, "{base}.log"),
            7 => write!(name, "{}", producers::NAME),
            8 => write!(name, "{base:020}.log.new.tmp"),
            9 => write!(name, "{base:020}.next"),
            10 => write!(name, "crashes"),
            other => write!(name, "stranger-{other}"),
        }
        .expect("a string takes everything");
        name
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(self.kind);
        out.put_u32(self.base);
        out.put_u32(self.bytes.len().try_into().expect("a seed is small"));
        out.put_slice(&self.bytes);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        if from.len() < 9 {
            return None;
        }
        let (kind, base, length) = (from.get_u8(), from.get_u32(), from.get_u32());
        // A length past the end means the rest, so that cutting an input cuts a file.
        let length = usize::try_from(length).map_or(from.len(), |length| length.min(from.len()));
        let (bytes, rest) = from.split_at(length);
        *from = rest;
        Some(Self {
            kind,
            base,
            bytes: bytes.to_vec(),
        })
    }

    /// Makes the checksums right, wherever a checksum belongs.
    fn seal(&mut self) {
        match self.kind {
            0 | 9 => seal_batches(&mut self.bytes),
            3 | 4 | 7 => seal_table(&mut self.bytes),
            10 => self.bytes.chunks_exact_mut(16).for_each(seal_table),
            _ => {}
        }
    }
}

/// Makes the checksum of one of the small files right.
pub(crate) fn seal_table(bytes: &mut [u8]) {
    if let Some(covered) = bytes.len().checked_sub(4) {
        let sum = crc32c::crc32c(&bytes[..covered]);
        bytes[covered..].copy_from_slice(&sum.to_be_bytes());
    }
}

fn seal_batches(mut bytes: &mut [u8]) {
    while bytes.len() >= HEADER_BYTES {
        let length = u32::from_be_bytes(bytes[8..12].try_into().expect("four bytes"));
        let size = 12 + usize::try_from(length).expect("64 bits");
        if size < HEADER_BYTES || size > bytes.len() {
            return;
        }
        let (batch, rest) = bytes.split_at_mut(size);
        let sum = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&sum.to_be_bytes());
        bytes = rest;
    }
}

/// The first byte says whether checksums are made right, the rest are the files of a directory.
/// Accepted: the log opens.
///
/// A log that opens can be read or says what is damaged, takes a batch, and opens again with all
/// of it. A log that does not open leaves every byte of its segments where it was.
pub fn run(data: &[u8]) -> bool {
    let Some((flags, mut rest)) = data.split_first() else {
        return false;
    };
    let dir = temporary();
    while let Some(mut part) = Part::read(&mut rest) {
        if flags & SEALED != 0 {
            part.seal();
        }
        fs::write(dir.path().join(part.name()), &part.bytes).expect("the directory is ours");
    }
    run_on_executor(check(dir.path()))
}

async fn open(dir: &Path, reason: OpenReason) -> Result<Log, LogError> {
    Log::open(dir, CONFIG, opening(reason))
        .await
        .map(|(log, _)| log)
}

async fn check(dir: &Path) -> bool {
    let mut log = match open(dir, OpenReason::Promotion).await {
        Ok(log) => log,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert!(log.start() <= log.end());
    assert_eq!(log.end(), log.durable_end());
    let before = read(dir, &log).await;
    search(&log).await;
    let offsets_left = Offset::from_wire(i64::MAX - 1).is_some_and(|last| log.end() < last);
    // A segment's offsets span less than 2^31 and its base may be anything; the log owes no
    // service past the last offset there is.
    if !offsets_left {
        return true;
    }
    let batch = Batch::parse(BatchBuilder::new().record(NOW, None, Some(b"more")).build())
        .expect("a producer made it");
    let placed = log
        .append(batch, Timestamps::Append, NOW)
        .expect("a log that opened takes a batch");
    let end = log.end();
    drop(log);

    let log = open(dir, OpenReason::Restart)
        .await
        .expect("a log that opened opens again");
    assert_eq!(log.end(), end, "everything written is still there");
    if let (Some(before), Some(after)) = (before, read(dir, &log).await) {
        assert_eq!(after[..before.len()], before, "what could be read stays");
        let new: Vec<u8> = after[before.len()..].to_vec();
        assert_eq!(new, placed.bytes()[..]);
    }
    log.close().await.expect("a healthy log closes");
    true
}

/// All bytes of data, which are whole batches in order; `None` where something is damaged, as the
/// read that begins there says.
async fn read(dir: &Path, log: &Log) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    let mut owed = log.start();
    while owed < log.end() {
        let read = log.read(owed, log.end(), 1 << 20).run().await;
        let pieces = read.ok()?;
        // Only control batches follow, which are never handed out.
        if pieces.is_empty() {
            break;
        }
        for piece in &pieces {
            let mut piece: Bytes = piece.clone();
            while !piece.is_empty() {
                // Readers are given what is stored; they check it themselves.
                let batch = PlacedBatch::split_from(&mut piece).ok()?;
                assert!(batch.last_offset() >= owed, "batches come in order");
                owed = batch.next_offset();
            }
        }
        found.extend(pieces.concat());
    }
    assert!(owed <= log.end());
    assert!(found == stored(dir, log.start()), "a read is short");
    Some(found)
}

/// The data from `start` on as it lies in the files. A batch's offset is counted, not read.
fn stored(dir: &Path, start: Offset) -> Vec<u8> {
    let names = fs::read_dir(dir).expect("it is there");
    let mut names: Vec<_> = names
        .map(|entry| entry.expect("it is there").path())
        .filter(|path| path.extension().is_some_and(|found| found == "log"))
        .collect();
    names.sort();
    let mut data = Vec::new();
    for path in names {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let mut next: u64 = stem
            .and_then(|stem| stem.parse().ok())
            .expect("a log that opened has such names only");
        let mut bytes = &fs::read(&path).expect("it is there")[..];
        while bytes.len() >= HEADER_BYTES {
            let number =
                |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
            let is_control = bytes[22] & 0x20 != 0;
            next += u64::from(number(23)) + 1;
            let size = 12 + usize::try_from(number(8)).expect("64 bits");
            let Some((batch, rest)) = bytes.split_at_checked(size) else {
                break;
            };
            if !is_control && Offset::new(next) > start {
                data.extend_from_slice(batch);
            }
            bytes = rest;
        }
    }
    data
}

async fn search(log: &Log) {
    for wanted in [
        Wanted::Greatest,
        Wanted::AtOrAfter(Timestamp(0)),
        Wanted::AtOrAfter(NOW),
    ] {
        if let Ok(Some((offset, _, _))) = log.search(wanted, log.end()).run().await {
            assert!(offset < log.end());
        }
    }
}
