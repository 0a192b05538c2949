//! A file of the file system.

use super::{Patience, sys};
use bytes::{Bytes, BytesMut};
use glommio::GlommioError;
use glommio::io::{BufferedFile, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes copied in one go before other tasks may run: about 25 us of copying.
const COPY_BYTES_MAX: usize = 256 << 10;

/// An open file. Lives on the CPU core that opened it.
#[derive(Debug)]
pub(super) struct RealFile {
    // Before `ring`, which closes the descriptor both share.
    view: ManuallyDrop<std::fs::File>,
    ring: BufferedFile,
    path: PathBuf,
}

impl RealFile {
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// There is none, or the disk's own fault.
    pub(super) async fn open(path: PathBuf) -> io::Result<Self> {
        let ring = OpenOptions::new()
            .read(true)
            .write(true)
            .buffered_open(&path)
            .await
            .map_err(plain)?;
        Ok(Self {
            view: sys::view(&ring),
            ring,
            path,
        })
    }

    /// Makes a new, empty file. It is there for good once its directory is synced.
    ///
    /// # Errors
    /// It exists already, or the disk's own fault.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        let ring = sys::to_ring(file);
        Ok(Self {
            view: sys::view(&ring),
            ring,
            path,
        })
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// The disk's own fault.
    pub(super) fn size(&self) -> io::Result<u64> {
        Ok(self.view.metadata()?.len())
    }

    /// Writes all of `bytes` at `position` into the page cache.
    ///
    /// # Errors
    /// The disk's own fault; part of the bytes may be there.
    pub(super) fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        // Carries on after short writes and interruptions.
        self.view.write_all_at(bytes, position)
    }

    /// Cuts the file to `bytes`.
    ///
    /// # Errors
    /// The disk's own fault.
    pub(super) fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.view.set_len(bytes)
    }

    /// Makes all that is written durable (`fdatasync` on the ring).
    ///
    /// # Errors
    /// The disk's own fault. What is then on the device is unknown, and asking again proves
    /// nothing: the kernel reports a failed write-back once.
    pub(super) async fn flush(&self) -> io::Result<()> {
        self.ring.fdatasync().await.map_err(plain)
    }

    /// The bytes from `position` on, `bytes_max` of them or as many as there are.
    ///
    /// # Errors
    /// The disk's own fault, or [`io::ErrorKind::WouldBlock`] (see [`Patience`]).
    pub(super) async fn read(
        &self,
        position: u64,
        bytes_max: usize,
        patience: Patience,
    ) -> io::Result<Bytes> {
        let mut into = BytesMut::with_capacity(bytes_max);
        while into.len() < bytes_max {
            let at = position + into.len() as u64;
            let wanted = (bytes_max - into.len()).min(COPY_BYTES_MAX);
            let read = match sys::read_cached(&self.view, &mut into, at, wanted) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if patience == Patience::Now {
                        return Err(error);
                    }
                    let cold = self.ring.read_at(at, wanted).await.map_err(plain)?;
                    into.extend_from_slice(&cold);
                    cold.len()
                }
                Err(error) => return Err(error),
            };
            if read == 0 {
                break;
            }
            if patience == Patience::Wait {
                super::breathe().await;
            }
        }
        Ok(into.freeze())
    }
}

/// What the system said, and not how the executor came to ask: who shows it names the file.
fn plain(error: GlommioError<()>) -> io::Error {
    match error {
        GlommioError::EnhancedIoError { source, .. } => source,
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glommio::{LocalExecutorBuilder, Placement};
    use std::future::Future;

    fn run<T>(test: impl Future<Output = T>) -> T {
        LocalExecutorBuilder::new(Placement::Unbound)
            .io_memory(64 << 10)
            .make()
            .unwrap()
            .run(test)
    }

    #[test]
    fn what_is_not_in_the_page_cache_is_refused_at_once_or_waited_for() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let file = RealFile::create(dir.path().join("file")).unwrap();
            let written: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 253) as u8).collect();
            file.write_at(&written, 0).unwrap();
            assert_eq!(file.size().unwrap(), 3_000_000);
            let cached = file.read(7, 100, Patience::Now).await.unwrap();
            assert_eq!(cached, written[7..107]);

            file.flush().await.unwrap();
            sys::evict(&file.view);
            match file.read(1_000_000, 1_000_000, Patience::Now).await {
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                // Some file systems keep everything in memory.
                Ok(bytes) => assert_eq!(bytes, written[1_000_000..2_000_000]),
            }
            let waited = file
                .read(1_000_000, 1_000_000, Patience::Wait)
                .await
                .unwrap();
            assert_eq!(waited, written[1_000_000..2_000_000]);
            let end = file.read(2_999_990, 100, Patience::Wait).await.unwrap();
            assert_eq!(end, written[2_999_990..]);
            assert!(
                file.read(5_000_000, 10, Patience::Wait)
                    .await
                    .unwrap()
                    .is_empty()
            );
        });
    }

    #[test]
    fn what_cannot_be_opened_is_told_in_the_words_of_the_system() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let error = RealFile::open(dir.path().to_owned()).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EISDIR), "{error}");
        });
    }

    #[test]
    fn a_file_is_not_made_over_another() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            let first = RealFile::create(path.clone()).unwrap();
            first.write_at(b"kept", 0).unwrap();
            let second = RealFile::create(path.clone()).unwrap_err();
            assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
            let again = RealFile::open(path).await.unwrap();
            assert_eq!(again.read(0, 10, Patience::Now).await.unwrap(), b"kept"[..]);
        });
    }
}
