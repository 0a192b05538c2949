//! A file of the file system.

use super::descriptors::{Handle, Slot, noting_want, with_room};
use super::{Patience, is_out_of_files, regular, sys};
use crate::runtime;
use bytes::{Bytes, BytesMut};
use glommio::GlommioError;
use glommio::io::OpenOptions;
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Bytes copied in one go before other tasks may run: about 25 us of copying.
const COPY_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static DEVICE_READS: Cell<u64> = const { Cell::new(0) };
}

/// Reads that this core has asked the device for, one for each piece of a file.
pub(crate) fn device_reads() -> u64 {
    DEVICE_READS.get()
}

/// A file that is open, or opened again when it is used. Lives on the CPU core that opened it.
#[derive(Debug)]
pub(super) struct RealFile {
    slot: Rc<Slot>,
    path: RefCell<PathBuf>,
}

impl RealFile {
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// There is none, or the disk's own fault.
    pub(super) async fn open(path: PathBuf) -> io::Result<Self> {
        let file = Self {
            slot: Rc::default(),
            path: RefCell::new(path),
        };
        file.opened().await?;
        Ok(file)
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
            .open(&path);
        Ok(Self::created(path, noting_want(file)?))
    }

    /// The same on a blocking thread.
    pub(super) async fn create_aside(path: PathBuf) -> io::Result<Self> {
        let create = async || {
            let made = path.clone();
            let create = move || {
                std::fs::OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .open(made)
            };
            runtime::blocking(create).await
        };
        let file = with_room(create, is_out_of_files).await?;
        Ok(Self::created(path, file))
    }

    fn created(path: PathBuf, file: std::fs::File) -> Self {
        let slot: Rc<Slot> = Rc::default();
        slot.put(Handle::new(file));
        slot.will_grow();
        Self {
            slot,
            path: RefCell::new(path),
        }
    }

    /// Keeps it open as long as the handle is there.
    pub(super) async fn hold(&self) -> io::Result<Rc<Handle>> {
        self.opened().await
    }

    /// It will not be appended to any more.
    pub(super) fn seal(&self) {
        self.slot.seal();
    }

    /// It will not be used soon.
    pub(super) fn rest(&self) {
        self.slot.rest();
    }

    /// It has another name from now on.
    pub(super) fn renamed(&self, path: &Path) {
        path.clone_into(&mut self.path.borrow_mut());
    }

    /// The file, opened on the spot if it is not open.
    fn open_now(&self) -> io::Result<Rc<Handle>> {
        self.slot.open_now(&self.path.borrow())
    }

    /// The file, opened on the ring if it is not open.
    async fn opened(&self) -> io::Result<Rc<Handle>> {
        loop {
            if let Some(handle) = self.slot.get() {
                return Ok(handle);
            }
            let path = self.path();
            let open = async || {
                let mut options = OpenOptions::new();
                let opened = options.read(true).write(true).buffered_open(&path).await;
                opened.map_err(plain)
            };
            match with_room(open, is_out_of_files).await {
                Ok(ring) => {
                    // One that is no regular file does not keep the ring waiting: it is opened for both.
                    let handle = Handle::over(ring);
                    regular::check(handle.view.metadata()?.file_type())?;
                    return Ok(self.slot.put(handle));
                }
                // Somebody else has it open by now.
                Err(_) if self.slot.is_open() => {}
                // It has got another name since.
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.path() != path => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The file with a descriptor of its own, for a blocking thread.
    async fn held(&self) -> io::Result<std::fs::File> {
        let handle = self.opened().await?;
        with_room(async || handle.view.try_clone(), is_out_of_files).await
    }

    /// Where it lies.
    pub(super) fn path(&self) -> PathBuf {
        self.path.borrow().clone()
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// The disk's own fault.
    pub(super) async fn size(&self, patience: Patience) -> io::Result<u64> {
        match patience {
            Patience::Now => Ok(self.open_now()?.view.metadata()?.len()),
            Patience::Wait => {
                // Not on the ring: the executor asks for it by name, and it does not know the name.
                let held = self.held().await?;
                runtime::blocking(move || Ok(held.metadata()?.len())).await
            }
        }
    }

    /// Writes all of `bytes` at `position` into the page cache.
    ///
    /// # Errors
    /// The disk's own fault; part of the bytes may be there.
    pub(super) fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let handle = self.open_now()?;
        self.slot.changes();
        // Carries on after short writes and interruptions.
        handle.view.write_all_at(bytes, position)
    }

    /// Writes all of `bytes` at `position` into the page cache, on a blocking thread; on the core's own,
    /// where no descriptor is left for another.
    ///
    /// # Errors
    /// The disk's own fault; part of the bytes may be there.
    pub(super) async fn write_aside(&self, bytes: Bytes, position: u64) -> io::Result<()> {
        // Kept until it is done: nobody closes the file meanwhile, whatever a flush says of it.
        let handle = self.opened().await?;
        let duplicate = with_room(async || handle.view.try_clone(), is_out_of_files).await;
        let held = match duplicate {
            Err(error) if is_out_of_files(&error) => return self.write_at(&bytes, position),
            held => held?,
        };
        self.slot.changes();
        let written = runtime::blocking(move || write_in_pieces(&held, &bytes, position)).await;
        // A flush that began meanwhile covers a part of it.
        self.slot.changes();
        drop(handle);
        written
    }

    /// Cuts the file to `bytes`.
    ///
    /// # Errors
    /// The disk's own fault.
    pub(super) fn truncate(&self, bytes: u64) -> io::Result<()> {
        let handle = self.open_now()?;
        self.slot.changes();
        handle.view.set_len(bytes)
    }

    /// Adds zeros behind the end, durably, on a blocking thread.
    ///
    /// # Errors
    /// The disk's own fault; some of them may be there.
    pub(super) async fn extend(&self, bytes: u64) -> io::Result<u64> {
        let handle = self.opened().await?;
        // Not the name, which may have changed.
        let descriptor = handle.view.as_raw_fd();
        // A description of its own: the kernel reports a failed write-back once to each, so that this
        // flush takes no error from those who wait for theirs. And in append mode it finds the end of
        // the file while it holds the file's lock: what is written meanwhile is never written over.
        let open = async || {
            let open = move || {
                std::fs::OpenOptions::new()
                    .append(true)
                    .open(format!("/proc/self/fd/{descriptor}"))
            };
            runtime::blocking(open).await
        };
        let file = with_room(open, is_out_of_files).await?;
        drop(handle);
        runtime::blocking(move || extend(&file, bytes)).await
    }

    /// Cuts the file to `bytes`, on a blocking thread.
    ///
    /// # Errors
    /// The disk's own fault.
    pub(super) async fn truncate_aside(&self, bytes: u64) -> io::Result<()> {
        let held = self.held().await?;
        runtime::blocking(move || held.set_len(bytes)).await
    }

    /// Has the kernel begin to write these bytes to the device, on a blocking thread: it waits while
    /// the device's queue is full.
    pub(super) async fn begin_write_back(&self, position: u64, bytes: u64) {
        let Some(handle) = self.slot.get() else {
            // It is closed only once it is flushed.
            return;
        };
        let Ok(held) = handle.view.try_clone() else {
            return;
        };
        runtime::blocking(move || sys::begin_write_back(&held, position, bytes)).await;
    }

    /// Makes all that is written durable (`fdatasync` on the ring).
    ///
    /// # Errors
    /// The disk's own fault. What is then on the device is unknown, and asking again proves
    /// nothing: the kernel reports a failed write-back once.
    pub(super) async fn flush(&self) -> io::Result<()> {
        let handle = self.opened().await?;
        let covered = self.slot.changed();
        handle.ring.fdatasync().await.map_err(plain)?;
        self.slot.flushed(covered);
        Ok(())
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
        let handle = match (self.slot.get(), patience) {
            (Some(handle), _) => handle,
            (None, Patience::Now) => return Err(io::ErrorKind::WouldBlock.into()),
            (None, Patience::Wait) => self.opened().await?,
        };
        let mut into = BytesMut::with_capacity(bytes_max);
        while into.len() < bytes_max {
            let at = position + into.len() as u64;
            let wanted = (bytes_max - into.len()).min(COPY_BYTES_MAX);
            let read = match sys::read_cached(&handle.view, &mut into, at, wanted) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if patience == Patience::Now {
                        return Err(error);
                    }
                    DEVICE_READS.set(DEVICE_READS.get() + 1);
                    let cold = handle.ring.read_at(at, wanted).await.map_err(plain)?;
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

/// Bytes of a large batch that a blocking thread writes in one call. A kernel that does not preempt itself
/// lets nobody else have the processor meanwhile, and whoever prepares space in the file waits for its
/// lock.
const PIECE_BYTES: usize = 256 << 10;

/// Writes a large batch.
fn write_in_pieces(file: &std::fs::File, bytes: &[u8], mut position: u64) -> io::Result<()> {
    for piece in bytes.chunks(PIECE_BYTES) {
        file.write_all_at(piece, position)?;
        position += piece.len() as u64;
    }
    Ok(())
}

/// Zeros written in one go. While that is under way a write to the same file waits in the kernel, so it
/// is a page: eight of them made one append in a thousand wait half as long again.
static ZEROS: [u8; 4 << 10] = [0; 4 << 10];

/// Adds zeros behind the end of a file in append mode, durably.
fn extend(mut file: &std::fs::File, bytes: u64) -> io::Result<u64> {
    let mut left = usize::try_from(bytes).map_err(io::Error::other)?;
    while left > 0 {
        let zeros = ZEROS.get(..left).unwrap_or(&ZEROS);
        match file.write(zeros) {
            Ok(written) => left -= written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let size = file.metadata()?.len();
    file.sync_data()?;
    Ok(size)
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
    use super::super::descriptors;
    use super::*;
    use felix_core::{Clock, Monotonic, Timestamp};
    use futures_util::FutureExt;
    use glommio::{LocalExecutorBuilder, Placement};
    use std::future::Future;
    use std::time::Duration;

    /// A clock that is turned by hand.
    struct Turned(Cell<Duration>);

    impl Clock for Turned {
        fn wall(&self) -> Timestamp {
            unreachable!("nobody asks a disk for the time of day")
        }

        fn monotonic(&self) -> Monotonic {
            Monotonic(self.0.get())
        }
    }

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
            assert_eq!(file.size(Patience::Wait).await.unwrap(), 3_000_000);
            let cached = file.read(7, 100, Patience::Now).await.unwrap();
            assert_eq!(cached, written[7..107]);

            file.flush().await.unwrap();
            sys::evict(&file.slot.get().unwrap().view);
            let before = device_reads();
            match file.read(1_000_000, 1_000_000, Patience::Now).await {
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                // Some file systems keep everything in memory.
                Ok(bytes) => assert_eq!(bytes, written[1_000_000..2_000_000]),
            }
            assert_eq!(device_reads(), before, "nobody waited");
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
    fn zeros_are_added_behind_whatever_was_written_meanwhile() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let file = RealFile::create(dir.path().join("file")).unwrap();
            file.write_at(b"first", 0).unwrap();
            let extending = file.extend(100_000);
            // As from an append that the space comes too late for.
            let writing = async {
                let mut at = 5;
                for _ in 0..200 {
                    file.write_at(&[7; 1000], at).unwrap();
                    at += 1000;
                    runtime::breathe().await;
                }
                at
            };
            let (extended, end) = futures_util::join!(extending, writing);
            assert!(extended.unwrap() <= file.size(Patience::Wait).await.unwrap());
            assert!(file.size(Patience::Wait).await.unwrap() >= 100_005);
            let all = file.read(0, 1 << 20, Patience::Wait).await.unwrap();
            let end = usize::try_from(end).unwrap();
            assert!(all[..5] == b"first"[..] && all[5..end].iter().all(|byte| *byte == 7));
            assert!(all[end..].iter().all(|byte| *byte == 0));
            std::fs::rename(dir.path().join("file"), dir.path().join("other")).unwrap();
            let size = file.size(Patience::Wait).await.unwrap();
            assert_eq!(file.extend(1).await.unwrap(), size + 1);
            file.truncate_aside(end as u64).await.unwrap();
            assert_eq!(file.size(Patience::Wait).await.unwrap(), end as u64);
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

    #[test]
    fn files_that_are_not_used_are_closed_and_opened_again_and_dirty_ones_stay_open() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let before = descriptors::open_files();
            descriptors::keep_open(before + 4);
            let file = |number: usize| RealFile::create(dir.path().join(number.to_string()));
            let clean: Vec<_> = (0..16).map(|number| file(number).unwrap()).collect();
            assert!(descriptors::open_files() <= before + 4);
            for (number, file) in clean.iter().enumerate() {
                file.write_at(&[b'a'; 8], number as u64).unwrap();
            }
            // Nothing that was written is closed before it is flushed.
            assert_eq!(descriptors::open_files(), before + 16);
            // Nor is one that somebody is at, however often others are opened.
            let first = clean[0].slot.get().unwrap();
            for file in &clean {
                file.flush().await.unwrap();
            }
            let more = file(16).unwrap();
            assert!(descriptors::open_files() < before + 16);
            for file in clean.iter().cycle().take(80) {
                let bytes = file.read(15, 8, Patience::Wait).await.unwrap();
                assert_eq!(
                    bytes.len(),
                    file.size(Patience::Wait)
                        .await
                        .unwrap()
                        .saturating_sub(15)
                        .min(8) as usize
                );
            }
            assert!(Rc::ptr_eq(&first, &clean[0].slot.get().unwrap()));
            drop((first, more, clean));
            assert_eq!(descriptors::open_files(), before);
        });
    }

    #[test]
    fn where_descriptors_run_out_files_that_are_appended_to_stay_open_and_others_do_not() {
        run(async {
            let clock = Rc::new(Turned(Cell::new(Duration::from_secs(3600))));
            descriptors::keep_time(Rc::<Turned>::clone(&clock));
            let dir = tempfile::tempdir().unwrap();
            let path = |name: &str| dir.path().join(name);
            let new = RealFile::create(path("new")).unwrap();
            let sealed = RealFile::create(path("sealed")).unwrap();
            for name in ["written", "read"] {
                std::fs::write(path(name), b"abc").unwrap();
            }
            let written = RealFile::open(path("written")).await.unwrap();
            let read = RealFile::open(path("read")).await.unwrap();
            for file in [&sealed, &written] {
                file.write_at(b"abc", 0).unwrap();
                file.flush().await.unwrap();
            }
            sealed.seal();
            while descriptors::make_room() {}
            let files = [&new, &sealed, &written, &read];
            let open = || files.map(|file| file.slot.is_open());
            assert_eq!(open(), [true, false, true, false]);
            // Those that were not appended to for a while go as well, but not while they may lose something.
            let make_room_later = |seconds| {
                clock.0.set(clock.0.get() + Duration::from_secs(seconds));
                while descriptors::make_room() {}
            };
            make_room_later(59);
            assert_eq!(open(), [true, false, true, false]);
            written.write_at(b"d", 3).unwrap();
            make_room_later(1);
            assert_eq!(open(), [false, false, true, false]);
            written.flush().await.unwrap();
            make_room_later(59);
            assert_eq!(open(), [false, false, true, false]);
            make_room_later(1);
            assert_eq!(open(), [false; 4]);
            let bytes = written.read(0, 4, Patience::Wait).await.unwrap();
            assert_eq!(&bytes[..], b"abcd");
        });
    }

    #[test]
    fn a_file_that_is_only_read_is_found_behind_many_that_are_appended_to() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let create = |number: usize| RealFile::create(dir.path().join(number.to_string()));
            let files: Vec<_> = (0..200).map(|number| create(number).unwrap()).collect();
            assert!(!descriptors::make_room());
            for sealed in [199, 100] {
                files[sealed].seal();
                assert!(descriptors::make_room());
                assert!(!files[sealed].slot.is_open());
            }
            assert!(!descriptors::make_room());
            // One that is opened to be read may be appended to later.
            assert_eq!(files[100].size(Patience::Wait).await.unwrap(), 0);
            files[100].write_at(b"abc", 0).unwrap();
            files[100].flush().await.unwrap();
            assert!(!descriptors::make_room());
            let open = files.iter().filter(|file| file.slot.is_open());
            assert_eq!(open.count(), 199);
        });
    }

    #[test]
    fn of_many_files_that_were_all_just_read_one_gives_way_each_time() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let mut files = Vec::new();
            for number in 0..300 {
                let path = dir.path().join(number.to_string());
                std::fs::write(&path, b"abc").unwrap();
                files.push(RealFile::open(path).await.unwrap());
            }
            for left in (0..300).rev() {
                assert!(descriptors::make_room());
                for file in files.iter().filter(|file| file.slot.is_open()) {
                    file.read(0, 3, Patience::Now).await.unwrap();
                }
                let open = files.iter().filter(|file| file.slot.is_open());
                assert_eq!(open.count(), left);
            }
        });
    }

    #[test]
    fn many_files_that_are_opened_and_closed_again_cost_no_more_than_few() {
        run(async {
            const FILES: usize = 2000;
            let dir = tempfile::tempdir().unwrap();
            let mut files = Vec::new();
            for number in 0..FILES {
                let file = RealFile::create(dir.path().join(number.to_string())).unwrap();
                file.rest();
                files.push(file);
            }
            assert!(descriptors::swept() < 3 * FILES, "{}", descriptors::swept());
            // They are known when they are open again.
            for file in &files[..8] {
                assert_eq!(file.size(Patience::Wait).await.unwrap(), 0);
            }
            descriptors::keep_open(descriptors::open_files() - 4);
            for _ in 0..FILES {
                descriptors::make_room();
            }
            assert!(files[..8].iter().any(|file| file.slot.get().is_none()));
        });
    }

    #[test]
    fn a_file_that_gets_another_name_while_it_is_opened_is_found_by_that() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let [old, new] = ["old", "new"].map(|name| dir.path().join(name));
            std::fs::write(&old, b"abc").unwrap();
            let file = RealFile::open(old.clone()).await.unwrap();
            file.rest();
            let mut read = Box::pin(file.read(0, 3, Patience::Wait));
            assert!((&mut read).now_or_never().is_none());
            std::fs::rename(&old, &new).unwrap();
            file.renamed(&new);
            assert_eq!(&read.await.unwrap()[..], b"abc");
            // One that is gone is gone.
            file.rest();
            std::fs::remove_file(&new).unwrap();
            let error = file.read(0, 3, Patience::Wait).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        });
    }

    #[test]
    fn a_read_that_may_not_wait_opens_nothing() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            std::fs::write(&path, b"abc").unwrap();
            let file = RealFile::open(path).await.unwrap();
            let kept = descriptors::open_files();
            descriptors::keep_open(0);
            let other = RealFile::create(dir.path().join("other")).unwrap();
            // Passed over once, because it was just used.
            while descriptors::open_files() >= kept && descriptors::make_room() {}
            let refused = file.read(0, 3, Patience::Now).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
            assert_eq!(&file.read(0, 3, Patience::Wait).await.unwrap()[..], b"abc");
            drop(other);
        });
    }
}
