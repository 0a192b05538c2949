//! The committed inputs: `corpus/<target>/<name>`.
//!
//! A name that begins with `ok-` must be accepted by its target, one that begins with `bad-` must
//! be refused; any other, as a fuzzer names what it finds, may be either.

use crate::Seed;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of the whole corpus, so that a clone stays small.
pub const BYTES_MAX: u64 = 1 << 20;

/// The folder of one target's inputs.
#[must_use]
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

/// One target's inputs, by name.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn load(target: &str) -> io::Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    for entry in fs::read_dir(folder(target))? {
        let entry = entry?;
        seeds.push(Seed {
            name: entry.file_name().to_string_lossy().into_owned(),
            bytes: fs::read(entry.path())?,
        });
    }
    seeds.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(seeds)
}

/// Writes inputs; those of the same name are replaced, others stay.
///
/// # Errors
/// The folder cannot be made or a file not be written.
pub fn save(target: &str, seeds: &[Seed]) -> io::Result<()> {
    let folder = folder(target);
    fs::create_dir_all(&folder)?;
    for seed in seeds {
        fs::write(folder.join(&seed.name), &seed.bytes)?;
    }
    Ok(())
}
