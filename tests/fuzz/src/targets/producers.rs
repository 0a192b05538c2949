//! The producer snapshot of a log that is otherwise whole, as a crash, a failing disk or a stranger
//! may have left it.

use super::log::{CONFIG, SEALED, opening, run_on_executor, seal_table, temporary};
use crate::memory::bounded;
use bytes::{Buf, Bytes};
use felix_core::batch::{BatchBuilder, Header};
use felix_core::limits::PRODUCERS_PER_SHARD_MAX;
use felix_core::producers::{Loading, Producers, Sequenced};
use felix_core::{Batch, Offset, PlacedBatch, Timestamp, Timestamps};
use felix_shard::log::{Log, OpenReason};
use std::fs;
use std::path::Path;

/// The file's name.
pub(crate) const NAME: &str = "producers";

const TIME: i64 = 1_600_000_000_000;

/// A producer has so many bytes in a snapshot at least, with the one batch it must have.
const PRODUCER_BYTES_MIN: usize = 39;

/// What a producer takes in memory for each that it has in a snapshot, and more than an opening takes
/// for all else.
const EXPANSION_MAX: usize = 32;
const OPENING_BYTES_MAX: usize = 4 << 20;

thread_local! {
    static KILLED: Killed = run_on_executor(Killed::make());
}

/// A log that was killed some batches behind its snapshot.
#[derive(Debug)]
pub(crate) struct Killed {
    /// Its files, but for the snapshot.
    files: Vec<(String, Vec<u8>)>,
    /// The snapshot that it had.
    pub(crate) snapshot: Vec<u8>,
    /// What was acknowledged, in order.
    batches: Vec<PlacedBatch>,
}

impl Killed {
    async fn make() -> Self {
        let dir = temporary();
        let mut log = open(dir.path()).await;
        let mut batches = Vec::new();
        for number in 0..14 {
            batches.push(append(&mut log, number));
            if number == 8 {
                let flushed = log.flush().expect("it is dirty").run().await;
                log.flushed(flushed).expect("the disk takes it");
                let kept_up = log.upkeep().expect("it has rolled").run().await;
                log.kept_up(kept_up).expect("the disk takes it");
            }
        }
        drop(log);
        let entries = fs::read_dir(dir.path()).expect("the directory is ours");
        let mut files: Vec<(String, Vec<u8>)> = entries
            .map(|entry| entry.expect("it can be read").path())
            .map(|path| {
                let name = path.file_name().expect("it has a name").to_string_lossy();
                (name.into_owned(), fs::read(&path).expect("it can be read"))
            })
            .collect();
        let snapshot = files.iter().position(|(name, _)| name == NAME);
        let snapshot = files.swap_remove(snapshot.expect("the upkeep wrote it")).1;
        Self {
            files,
            snapshot,
            batches,
        }
    }

    fn end(&self) -> Offset {
        self.batches.last().expect("there are some").next_offset()
    }

    /// What an opening knows that begins with `known` of the batches below `end`.
    fn replayed(&self, mut known: Producers, end: Offset) -> Producers {
        for batch in self
            .batches
            .iter()
            .filter(|batch| batch.base_offset() >= end)
        {
            if let Some(sequenced) = Sequenced::of(batch.header()) {
                let time = Some(batch.max_timestamp());
                known.note(&sequenced, batch.base_offset(), time);
            }
        }
        known
    }

    /// Whether a log of these batches can have ended there.
    fn ends_at(&self, end: Offset) -> bool {
        let is_inside =
            |batch: &PlacedBatch| batch.base_offset() < end && end < batch.next_offset();
        end <= self.end() && !self.batches.iter().any(is_inside)
    }
}

/// Two idempotent producers, one of which begins anew, and one that is not.
fn append(log: &mut Log, number: i32) -> PlacedBatch {
    let mut builder = BatchBuilder::new();
    for record in 0..1 + number % 3 {
        let time = Timestamp(TIME + i64::from(number + record));
        builder = builder.record(time, None, Some(&[b'v'; 100]));
    }
    builder = match number % 3 {
        // One record each.
        0 => builder.producer(
            9,
            i16::from(number > 5),
            if number > 5 {
                number / 3 - 2
            } else {
                number / 3
            },
        ),
        // Two.
        1 => builder.producer(4000, 3, number / 3 * 2),
        _ => builder,
    };
    let batch = Batch::parse(builder.build()).expect("a producer made it");
    let now = Timestamp(TIME + i64::from(number));
    log.append(batch, Timestamps::Append, now)
        .expect("a healthy log takes it")
}

/// What the snapshot says, read by itself: the table and the log end that it describes.
fn parse(mut file: &[u8]) -> Option<(Producers, Offset)> {
    let covered = file.len().checked_sub(4)?;
    let sum = u32::from_be_bytes(file[covered..].try_into().expect("four bytes"));
    file = &file[..covered];
    if sum != crc32c::crc32c(file) || file.len() < 8 || file[..4] != *b"FLXP" {
        return None;
    }
    file.advance(4);
    if file.get_u32() != 1 {
        return None;
    }
    let mut loading = Loading::new(file, nobody()).ok()?;
    while !loading.step(7).ok()? {}
    let end = loading.end();
    Some((loading.into_table(), end))
}

fn nobody() -> Producers {
    Producers::new(Offset::ZERO, PRODUCERS_PER_SHARD_MAX)
}

async fn open(dir: &Path) -> Log {
    let opened = Log::open(dir, CONFIG, opening(OpenReason::Restart)).await;
    opened.expect("no snapshot is in the way of an opening").0
}

/// The first byte says whether the checksum is made right, the rest is the file.
/// Accepted: it is believed.
///
/// Whatever it is, the log opens, with all that was acknowledged and in bounded memory. A snapshot
/// that is not believed leaves what the headers say; one that is believed is known as it says, with
/// the batches behind it. A closing writes one that says the same.
pub fn run(data: &[u8]) -> bool {
    let Some((flags, file)) = data.split_first() else {
        return false;
    };
    let mut file = file.to_vec();
    if flags & SEALED != 0 {
        seal_table(&mut file);
    }
    KILLED.with(|killed| check(killed, &file))
}

fn check(killed: &Killed, file: &[u8]) -> bool {
    let believed = parse(file).filter(|(_, end)| killed.ends_at(*end));
    let is_believed = believed.is_some();
    let expected = match believed {
        Some((known, end)) => killed.replayed(known, end),
        None => killed.replayed(nobody(), Offset::ZERO),
    };
    let producers_max = file.len() / PRODUCER_BYTES_MIN + 2;
    assert!(expected.known() <= producers_max);

    let dir = temporary();
    for (name, bytes) in &killed.files {
        fs::write(dir.path().join(name), bytes).expect("the directory is ours");
    }
    fs::write(dir.path().join(NAME), file).expect("the directory is ours");
    let bytes_max = OPENING_BYTES_MAX + EXPANSION_MAX * file.len();
    let log = bounded(bytes_max, || run_on_executor(open(dir.path())));
    run_on_executor(async {
        assert_holds(&log, &killed.batches, &expected).await;
        let mut log = log;
        let mut batches = killed.batches.clone();
        batches.push(append(&mut log, 14));
        log.close().await.expect("a healthy log closes");
        assert_holds(&open(dir.path()).await, &batches, &expected).await;
    });
    is_believed
}

/// Everything is there, and of producers it knows what it should.
async fn assert_holds(log: &Log, batches: &[PlacedBatch], expected: &Producers) {
    let read = log.read(log.start(), log.end(), 1 << 20).run().await;
    let read = read.expect("the batches are whole").concat();
    let written: Vec<&Bytes> = batches.iter().map(PlacedBatch::bytes).collect();
    let written: Vec<u8> = written.into_iter().flatten().copied().collect();
    assert!(read == written, "what was acknowledged is not there");
    log.with_producers(|known| assert_eq!(known.list(), expected.list()));
    for batch in batches {
        let header: &Header = batch.header();
        if let Some(sequenced) = Sequenced::of(header) {
            let (found, said) = (log.judge(header), expected.judge(&sequenced));
            assert_eq!(found, said, "{sequenced:?}");
        }
    }
}

/// The snapshot that the log had.
pub(crate) fn intact() -> Vec<u8> {
    KILLED.with(|killed| killed.snapshot.clone())
}
