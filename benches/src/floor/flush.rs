//! The floor of a record that is on the device before it is acknowledged.

use super::store::Store;
use crate::problem::Problem;
use std::path::Path;

/// Bytes of the file, after which it begins again.
const FILE_BYTES: u64 = 64 << 20;

/// Writes a batch and flushes it, on the calling thread.
#[derive(Debug)]
pub struct Flusher {
    store: Store,
    batch: Vec<u8>,
}

impl Flusher {
    /// Prepares a file of zeros in `dir`, whose file system is the one measured.
    ///
    /// # Errors
    /// No such file can be made.
    pub fn new(dir: &Path, batch: &[u8]) -> Result<Self, Problem> {
        Ok(Self {
            store: Store::new(dir, FILE_BYTES)?,
            batch: batch.to_vec(),
        })
    }

    /// Writes the batch behind the one before.
    ///
    /// # Errors
    /// The file system or the device fails, or the batch is longer than 64 MiB.
    pub fn write(&mut self) -> Result<(), Problem> {
        let written = self.store.write(&self.batch);
        written.map_err(|error| Problem::new(format!("a write failed: {error}")))
    }

    /// Returns when all that was written is on the device.
    ///
    /// # Errors
    /// The file system or the device fails.
    pub fn flush(&mut self) -> Result<(), Problem> {
        let flushed = self.store.flush();
        flushed.map_err(|error| Problem::new(format!("a flush failed: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_written_and_flushed_as_often_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        let batch = vec![1; 40 << 20];
        let mut flusher = Flusher::new(dir.path(), &batch).unwrap();
        flusher.write().unwrap();
        flusher.write().unwrap();
        flusher.flush().unwrap();
    }

    #[test]
    fn a_batch_that_does_not_fit_is_a_problem() {
        let dir = tempfile::tempdir().unwrap();
        let mut flusher = Flusher::new(dir.path(), &vec![1; (64 << 20) + 1]).unwrap();
        flusher.write().unwrap_err();
    }
}
