//! What this machine does at least: the same bytes written by the bare system call into a file of
//! zeros, and flushed by it where the policy asks for that, on a thread pinned alike.

use super::batches::Batches;
use super::load::{Load, Setup};
use super::machine;
use super::pace::{self, Pace};
use super::round::Round;
use felix_core::Durability;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The file is no larger; the writes begin at its beginning again.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Zeros written at a time.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What the bare loop does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bare {
    /// What the load's policy needs at least: writes, and for `on_commit` one flush for all that
    /// became due meanwhile.
    AsNeeded,
    /// Writes, and every interval a flush by another thread.
    FlushedAside,
}

/// One round of it in `dir`. One file for each core, however many shards there are.
pub(crate) fn measure(load: &Load, setup: &Setup, dir: &Path, bare: Bare) -> Result<Round, String> {
    let mut all = Round::default();
    let results: Vec<Result<Round, String>> = thread::scope(|scope| {
        let cores = setup.cpus.iter().enumerate();
        let threads: Vec<_> = cores
            .map(|(number, cpu)| {
                let path = dir.join(format!("floor-{number}"));
                scope.spawn(move || {
                    machine::keep_on(&[*cpu])?;
                    on_core(load, setup, &path, bare)
                        .map_err(|error| format!("{}: {error}", path.display()))
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|result| result.expect("what it found wrong has been said"))
            .collect()
    });
    for result in results {
        all.add(&result?);
    }
    Ok(all)
}

fn on_core(load: &Load, setup: &Setup, path: &Path, bare: Bare) -> io::Result<Round> {
    let batches = Batches::of(load.batch_bytes);
    let bytes = batches.bytes();
    let size = byte_count(bytes.len());
    let (waiters, rate) = load.share(setup.cpus.len());
    let file_bytes = file_bytes(size, rate, setup);
    let file = zeros(path, file_bytes)?;
    let flushes_each = load.durability == Durability::OnCommit;
    let ended = Arc::new(AtomicBool::new(false));
    let aside = match bare {
        Bare::FlushedAside if !flushes_each => Some(flush_aside(&file, setup, &ended)?),
        Bare::FlushedAside | Bare::AsNeeded => None,
    };
    let mut writer = Writer {
        file,
        file_bytes,
        bytes,
        position: 0,
    };
    let pace = Pace::begin(rate, setup.warm_up, setup.span).watched(setup.lead);
    let round = writer.run(pace, if flushes_each { waiters } else { 1 }, flushes_each);
    ended.store(true, Ordering::Relaxed);
    if let Some(aside) = aside {
        aside.join().expect("what it found wrong has been said")?;
    }
    round
}

struct Writer<'bytes> {
    file: File,
    file_bytes: u64,
    bytes: &'bytes [u8],
    position: u64,
}

impl Writer<'_> {
    fn run(&mut self, mut pace: Pace, at_once: usize, flushes: bool) -> io::Result<Round> {
        let mut round = Round::default();
        let mut flushed = 0;
        let mut dues = Vec::with_capacity(at_once);
        let mut now = Instant::now();
        while let Some(first) = pace.due(now) {
            pace::wait(first, pace.lead);
            now = Instant::now();
            while dues.len() < at_once
                && let Some(due) = pace.due(now).filter(|due| *due <= now)
            {
                self.write()?;
                pace.issued(due);
                dues.push(due);
            }
            if flushes {
                self.file.sync_data()?;
                flushed += u64::from(dues.iter().any(|due| pace.counts(*due)));
            }
            now = Instant::now();
            for due in dues.drain(..).filter(|due| pace.counts(*due)) {
                round.record(now - due);
            }
        }
        round.end(pace.counted(now), flushed);
        Ok(round)
    }

    fn write(&mut self) -> io::Result<()> {
        let size = byte_count(self.bytes.len());
        if self.position + size > self.file_bytes {
            self.position = 0;
        }
        self.file.write_all_at(self.bytes, self.position)?;
        self.position += size;
        Ok(())
    }
}

/// Room for all that a round writes, if that is not too much. The sizes of a closed loop are not known.
fn file_bytes(batch_bytes: u64, rate: Option<f64>, setup: &Setup) -> u64 {
    let seconds = (setup.warm_up + setup.span).as_secs_f64();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what is too much is cut"
    )]
    let appends = rate.map_or(u64::MAX, |rate| (rate * seconds) as u64 + 1);
    let all = appends.saturating_mul(batch_bytes);
    all.clamp(batch_bytes, FILE_BYTES_MAX.max(batch_bytes))
}

/// A file of zeros that are on the device.
fn zeros(path: &Path, bytes: u64) -> io::Result<File> {
    let mut file = File::create(path)?;
    let mut left = bytes;
    while left > 0 {
        let step = left.min(byte_count(ZEROS.len()));
        let step = usize::try_from(step).expect("at most what there is of zeros");
        file.write_all(&ZEROS[..step])?;
        left -= byte_count(step);
    }
    file.sync_all()?;
    Ok(file)
}

/// Flushes every interval until `ended`, on a thread beside those that are measured.
fn flush_aside(
    file: &File,
    setup: &Setup,
    ended: &Arc<AtomicBool>,
) -> io::Result<thread::JoinHandle<io::Result<()>>> {
    let (file, ended, interval) = (file.try_clone()?, Arc::clone(ended), setup.flush_interval);
    let cpus = setup.aside();
    thread::Builder::new()
        .name("flushes".into())
        .spawn(move || {
            machine::keep_on(&cpus).map_err(io::Error::other)?;
            while !ended.load(Ordering::Relaxed) {
                thread::sleep(interval.min(Duration::from_secs(1)));
                file.sync_data()?;
            }
            Ok(())
        })
}

fn byte_count(size: usize) -> u64 {
    u64::try_from(size).expect("a size fits 64 bits")
}
