//! A file that requests are written to, prepared as a broker prepares its log: zeros, flushed, so
//! that writing changes neither its size nor what belongs to it.

use crate::problem::Problem;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Zeros written at a time.
const STEP_BYTES: u64 = 1 << 20;

/// The file. It has no name, so it goes with its process.
#[derive(Debug)]
pub(super) struct Store {
    file: File,
    file_bytes: u64,
    end: u64,
}

impl Store {
    /// A file of so many bytes in `dir`.
    pub(super) fn new(dir: &Path, file_bytes: u64) -> Result<Self, Problem> {
        let file = prepared(dir, file_bytes).map_err(|error| {
            let dir = dir.display();
            Problem::new(format!(
                "no file of {file_bytes} bytes can be made in {dir}: {error}"
            ))
        })?;
        Ok(Self {
            file,
            file_bytes,
            end: 0,
        })
    }

    /// Writes behind what was written last, or at the beginning if it does not fit there.
    ///
    /// # Errors
    /// The file system fails, or the file is too small.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let count = u64::try_from(bytes.len()).expect("a length fits 64 bits");
        if count > self.file_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if count > self.file_bytes - self.end {
            self.end = 0;
        }
        self.file.write_all_at(bytes, self.end)?;
        self.end += count;
        Ok(())
    }

    /// Returns when what was written is on the device.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn prepared(dir: &Path, bytes: u64) -> io::Result<File> {
    let mut file = tempfile::tempfile_in(dir)?;
    let zeros = vec![0; usize::try_from(STEP_BYTES).expect("small")];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(STEP_BYTES);
        file.write_all(&zeros[..usize::try_from(step).expect("at most a step")])?;
        left -= step;
    }
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_follow_each_other_and_begin_again_where_they_would_not_fit() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::new(dir.path(), 10).unwrap();
        for bytes in [&[1; 4][..], &[2; 4], &[3; 3]] {
            store.write(bytes).unwrap();
        }
        store.flush().unwrap();
        let mut all = [9; 11];
        assert_eq!(store.file.read_at(&mut all, 0).unwrap(), 10);
        assert_eq!(all[..10], [3, 3, 3, 1, 2, 2, 2, 2, 0, 0]);
        store.write(&[4; 10]).unwrap();
        let error = store.write(&[5; 11]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(store.file.metadata().unwrap().len(), 10);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let problem = Store::new(Path::new("/nowhere/at/all"), 1).unwrap_err();
        assert!(problem.to_string().contains("/nowhere/at/all"), "{problem}");
    }
}
