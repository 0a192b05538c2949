//! Logs made by hand, as a killed broker would have left them.

use crate::bench::batches::Batches;
use felix_core::batch::Place;
use felix_core::{Generation, Offset, Timestamp};
use felix_shard::log;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Written in one go.
const AT_ONCE_BYTES: usize = 1 << 20;

/// A log whose batches are all equally large.
#[derive(Clone, Debug)]
pub(super) struct Crafted {
    /// Bytes of a batch.
    pub(super) batch_bytes: u64,
    /// Its records.
    pub(super) records: u64,
    /// Bytes in all.
    pub(super) bytes: u64,
    segments: Vec<PathBuf>,
}

impl Crafted {
    /// Makes one of about so many bytes in `dir`, which is new; nothing of it is known to be
    /// durable. It is on the device all the same.
    pub(super) fn write(
        dir: &Path,
        bytes: u64,
        segment_bytes: u64,
        batches: &Batches,
    ) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        found(dir)?;
        let batch_bytes = batches.bytes().len() as u64;
        let records = batches.records() as u64;
        let mut crafted = Self {
            batch_bytes,
            records,
            bytes: 0,
            segments: Vec::new(),
        };
        let mut offset = 0;
        while crafted.bytes < bytes {
            let path = dir.join(format!("{offset:020}.log"));
            let mut file = BufWriter::with_capacity(AT_ONCE_BYTES, File::create_new(&path)?);
            let room = segment_bytes.min(bytes - crafted.bytes);
            for _ in 0..(room / batch_bytes).max(1) {
                let placed = batches.batch().place(Place {
                    base_offset: Offset::new(offset),
                    generation: Generation::new(1),
                    append_time: Some(Timestamp(1)),
                });
                file.write_all(placed.bytes())?;
                offset += records;
                crafted.bytes += batch_bytes;
            }
            file.into_inner()
                .map_err(io::IntoInnerError::into_error)?
                .sync_all()?;
            crafted.segments.push(path);
        }
        Ok(crafted)
    }

    /// Moves its segments into another new directory, where it is as it was.
    pub(super) fn again(&mut self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        found(dir)?;
        for path in &mut self.segments {
            let name = path.file_name().expect("a segment has a name");
            let moved = dir.join(name);
            fs::rename(&*path, &moved)?;
            *path = moved;
        }
        Ok(())
    }

    /// Its segments, in order.
    pub(super) fn segments(&self) -> &[PathBuf] {
        &self.segments
    }
}

fn found(dir: &Path) -> io::Result<()> {
    for (name, bytes) in log::founding_files() {
        fs::write(dir.join(name), bytes)?;
    }
    Ok(())
}
