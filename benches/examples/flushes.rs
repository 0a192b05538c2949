//! What flushes of a device cost, by system calls alone: how many at once are worth it, and whether
//! it helps to have the kernel begin to write before them. `docs/decisions/` has what was found.
//!
//!     cargo run --release -p felix-bench --example flushes -- DIRECTORY

#![expect(clippy::print_stdout, reason = "it is a program for people")]
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement owns its clock and its pauses"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Shards that are dirty at once.
const FILES: usize = 1000;

/// The interval of periodic flushes.
const INTERVAL: Duration = Duration::from_millis(50);

/// Intervals of one turn.
const INTERVALS: usize = 20;

/// Bytes of one write.
const WRITE_BYTES: usize = 16 << 10;

/// Unflushed bytes after which the kernel is asked to begin.
const EARLY_BYTES: usize = 1 << 20;

/// Turns of each side; the median is shown.
const TURNS: usize = 5;

fn main() -> io::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| ".".into());
    let directory = PathBuf::from(directory).join("flushes.tmp");
    std::fs::create_dir(&directory)?;
    let measured = depths(&directory).and_then(|()| early(&directory));
    std::fs::remove_dir_all(&directory)?;
    measured
}

/// A file with so many zeros on the device.
fn prepared(path: &Path, bytes: usize) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    let zeros = vec![0; bytes.min(1 << 20)];
    for _ in 0..bytes / zeros.len() {
        (&file).write_all(&zeros)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Flushes of many files that have a kilobyte each, so many at a time.
fn depths(directory: &Path) -> io::Result<()> {
    let name = |number: usize| directory.join(number.to_string());
    let files: io::Result<Vec<File>> = (0..FILES)
        .map(|number| prepared(&name(number), 64 << 10))
        .collect();
    let files = files?;
    let depths = [1, 4, 8, 16, 32, 64];
    let mut took = vec![Vec::new(); depths.len()];
    for turn in 0..TURNS {
        for (depth, took) in depths.iter().zip(&mut took) {
            for file in &files {
                file.write_all_at(&[1; 1024], 1024 * turn as u64)?;
            }
            let begun = Instant::now();
            let part = FILES.div_ceil(*depth);
            thread::scope(|scope| {
                let threads: Vec<_> = files
                    .chunks(part)
                    .map(|files| scope.spawn(move || files.iter().try_for_each(File::sync_data)))
                    .collect();
                threads
                    .into_iter()
                    .try_for_each(|thread| thread.join().expect("a flush does not panic"))
            })?;
            took.push(begun.elapsed());
        }
    }
    println!("{FILES} files with 1 KiB each, flushed so many at a time:");
    for (depth, took) in depths.iter().zip(&mut took) {
        println!("  {depth:>2}: {:>7.1} ms", median(took).as_secs_f64() * 1e3);
    }
    Ok(())
}

fn median(values: &mut [Duration]) -> Duration {
    values.sort();
    values[values.len() / 2]
}

/// How a turn of writing went.
struct Turn {
    writes: Vec<Duration>,
    flushes: Vec<Duration>,
}

/// What is written in an interval is flushed at its end by another thread, and, where `early`, the
/// kernel was asked to begin to write after each mebibyte.
fn turn(path: &Path, bytes: usize, early: bool) -> io::Result<Turn> {
    let file = prepared(path, bytes * (INTERVALS + 1))?;
    let (ask, asked) = mpsc::channel::<Option<(usize, usize)>>();
    let (tell, told) = mpsc::channel();
    let mut writes = Vec::new();
    thread::scope(|scope| -> io::Result<()> {
        let flushed = &file;
        scope.spawn(move || {
            for work in asked {
                match work {
                    Some((from, length)) => begin_write_back(flushed, from, length),
                    None => {
                        let begun = Instant::now();
                        let result = flushed.sync_data();
                        tell.send((begun.elapsed(), result))
                            .expect("somebody counts");
                    }
                }
            }
        });
        let batch = vec![7; WRITE_BYTES];
        let count = bytes / WRITE_BYTES;
        let mut position = 0;
        let mut begun_at = 0;
        let start = Instant::now();
        for interval in 0..INTERVALS {
            for number in 0..count {
                let part = f64::from(u32::try_from(number).expect("few")) / count as f64;
                let due = INTERVAL.mul_f64(interval as f64 + part);
                while start.elapsed() < due {
                    std::hint::spin_loop();
                }
                let begun = Instant::now();
                file.write_all_at(&batch, position as u64)?;
                writes.push(begun.elapsed());
                position += WRITE_BYTES;
                if early && position - begun_at >= EARLY_BYTES {
                    ask.send(Some((begun_at, position - begun_at)))
                        .expect("it is there");
                    begun_at = position;
                }
            }
            ask.send(None).expect("it is there");
            begun_at = position;
        }
        drop(ask);
        Ok(())
    })?;
    let mut flushes = Vec::new();
    for (took, result) in told {
        result?;
        flushes.push(took);
    }
    std::fs::remove_file(path)?;
    Ok(Turn { writes, flushes })
}

fn early(directory: &Path) -> io::Result<()> {
    let path = directory.join("segment");
    println!("write-back begun after each MiB, or not, at 16 KiB a write; us, medians of {TURNS}:");
    println!(
        "  MiB an interval | early | flush p50 | flush max | write p50 |   p99 | p99.9 |   max"
    );
    for mebibytes in [2, 8, 16] {
        let mut turns = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            for (early, turns) in [false, true].into_iter().zip(&mut turns) {
                turns.push(turn(&path, mebibytes << 20, early)?);
            }
        }
        for (early, turns) in [false, true].into_iter().zip(&mut turns) {
            let mut at = |of: fn(&mut Turn) -> &mut Vec<Duration>, quantile: f64| {
                let values = turns.iter_mut().map(|turn| {
                    let values = of(turn);
                    values.sort();
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a place in a short list"
                    )]
                    let place = ((values.len() - 1) as f64 * quantile) as usize;
                    values[place]
                });
                median(&mut values.collect::<Vec<_>>()).as_micros()
            };
            println!(
                "  {mebibytes:>15} | {early:>5} | {:>9} | {:>9} | {:>9} | {:>5} | {:>5} | {:>5}",
                at(|turn| &mut turn.flushes, 0.5),
                at(|turn| &mut turn.flushes, 1.0),
                at(|turn| &mut turn.writes, 0.5),
                at(|turn| &mut turn.writes, 0.99),
                at(|turn| &mut turn.writes, 0.999),
                at(|turn| &mut turn.writes, 1.0),
            );
        }
    }
    Ok(())
}

/// Has the kernel begin to write a part of the file to the device, and waits for nothing but a place
/// in the device's queue.
fn begin_write_back(file: &File, from: usize, bytes: usize) {
    let place = |number: usize| libc::off64_t::try_from(number).expect("files are small");
    #[expect(unsafe_code, reason = "sync_file_range has no safe wrapper in std")]
    // SAFETY: the descriptor is open as long as `file` is borrowed; no memory is passed.
    let result = unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            place(from),
            place(bytes),
            libc::SYNC_FILE_RANGE_WRITE,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}
