//! A file of the log.

use super::descriptors::Handle;
#[cfg(test)]
use super::memory::MemoryFile;
use super::real_file::RealFile;
use crate::event::Credits;
use bytes::Bytes;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Whether a read may wait for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Only what is in the page cache, at once: the future is ready when first polled. Otherwise
    /// [`io::ErrorKind::WouldBlock`].
    Now,
    /// Waits for the device where it must, on the ring.
    Wait,
}

/// An open file. Lives on the CPU core that opened it.
#[derive(Debug)]
pub struct File {
    kind: Kind,
    /// What is done in its directory on blocking threads.
    aside: Rc<Credits>,
}

/// A file that is kept open.
pub(super) struct Held(#[expect(dead_code, reason = "it is there to be held")] Option<Rc<Handle>>);

#[derive(Debug)]
enum Kind {
    Real(RealFile),
    #[cfg(test)]
    Memory(MemoryFile),
}

impl File {
    pub(super) fn real(file: RealFile, aside: &Rc<Credits>) -> Self {
        Self {
            kind: Kind::Real(file),
            aside: Rc::clone(aside),
        }
    }

    #[cfg(test)]
    pub(super) fn memory(file: MemoryFile, aside: &Rc<Credits>) -> Self {
        Self {
            kind: Kind::Memory(file),
            aside: Rc::clone(aside),
        }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.kind {
            Kind::Real(file) => file.path(),
            #[cfg(test)]
            Kind::Memory(file) => file.path(),
        }
    }

    /// It will not be appended to any more: where descriptors run out it may be closed.
    pub(crate) fn seal(&self) {
        match &self.kind {
            Kind::Real(file) => file.seal(),
            #[cfg(test)]
            Kind::Memory(_) => {}
        }
    }

    /// It will not be used soon: it is closed, and opened again when it is, unless it has something
    /// to lose.
    pub(crate) fn rest(&self) {
        match &self.kind {
            Kind::Real(file) => file.rest(),
            #[cfg(test)]
            Kind::Memory(_) => {}
        }
    }

    /// It lies there from now on.
    pub(crate) fn renamed(&self, path: &Path) {
        match &self.kind {
            Kind::Real(file) => file.renamed(path),
            #[cfg(test)]
            Kind::Memory(file) => file.renamed(path),
        }
    }

    /// Keeps it open for as long as what is returned.
    pub(super) async fn hold(&self) -> io::Result<Held> {
        match &self.kind {
            Kind::Real(file) => file.hold().await.map(|held| Held(Some(held))),
            #[cfg(test)]
            Kind::Memory(_) => Ok(Held(None)),
        }
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn size(&self, patience: Patience) -> io::Result<u64> {
        let _thread = match patience {
            Patience::Now => None,
            Patience::Wait => Some(self.aside.permit().await),
        };
        match &self.kind {
            Kind::Real(file) => file.size(patience).await,
            #[cfg(test)]
            Kind::Memory(file) => Ok(file.size(patience).await),
        }
    }

    /// Writes all of `bytes` at `position` into the page cache.
    ///
    /// # Errors
    /// The disk's own fault; part of the bytes may be there.
    pub fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        match &self.kind {
            Kind::Real(file) => file.write_at(bytes, position),
            #[cfg(test)]
            Kind::Memory(file) => file.write_at(bytes, position),
        }
    }

    /// The same on a blocking thread. It takes no place among what is done in the directory there: a
    /// log has one such write at a time, and its appends wait for it.
    ///
    /// # Errors
    /// The disk's own fault; part of the bytes may be there.
    pub async fn write_aside(&self, bytes: Bytes, position: u64) -> io::Result<()> {
        match &self.kind {
            Kind::Real(file) => file.write_aside(bytes, position).await,
            #[cfg(test)]
            Kind::Memory(file) => file.write_aside(&bytes, position).await,
        }
    }

    /// Cuts the file to `bytes`, on the core's own thread: takes back what an append has just written.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn truncate(&self, bytes: u64) -> io::Result<()> {
        match &self.kind {
            Kind::Real(file) => file.truncate(bytes),
            #[cfg(test)]
            Kind::Memory(file) => file.truncate(bytes),
        }
    }

    /// Adds so many zeros behind the end of the file, durably, and returns how long it is then.
    /// Never touches what is there: a write that meanwhile extends the file comes before them.
    /// Errors of earlier writes that it meets are still reported to the next [`File::flush`].
    ///
    /// # Errors
    /// The disk's own fault; some of them may be there.
    pub async fn extend(&self, bytes: u64) -> io::Result<u64> {
        let _thread = self.aside.permit().await;
        match &self.kind {
            Kind::Real(file) => file.extend(bytes).await,
            #[cfg(test)]
            Kind::Memory(file) => file.extend(bytes).await,
        }
    }

    /// Cuts the file to `bytes`, aside: that may take long.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn truncate_aside(&self, bytes: u64) -> io::Result<()> {
        let _thread = self.aside.permit().await;
        match &self.kind {
            Kind::Real(file) => file.truncate_aside(bytes).await,
            #[cfg(test)]
            Kind::Memory(file) => file.truncate_aside(bytes).await,
        }
    }

    /// Has the kernel begin to write these bytes to the device, on a blocking thread. They are not
    /// durable by that. What goes wrong is told to the next [`File::flush`].
    pub async fn begin_write_back(&self, position: u64, bytes: u64) {
        let _thread = self.aside.permit().await;
        match &self.kind {
            Kind::Real(file) => file.begin_write_back(position, bytes).await,
            #[cfg(test)]
            Kind::Memory(file) => file.begin_write_back(position, bytes).await,
        }
    }

    /// Makes all that is written durable (`fdatasync` on the ring).
    ///
    /// # Errors
    /// The disk's own fault. What is then on the device is unknown, and asking again proves
    /// nothing: the kernel reports a failed write-back once.
    pub async fn flush(&self) -> io::Result<()> {
        match &self.kind {
            Kind::Real(file) => file.flush().await,
            #[cfg(test)]
            Kind::Memory(file) => file.flush().await,
        }
    }

    /// The bytes from `position` on, `bytes_max` of them or as many as there are.
    ///
    /// # Errors
    /// The disk's own fault, or [`io::ErrorKind::WouldBlock`] (see [`Patience`]).
    pub async fn read(
        &self,
        position: u64,
        bytes_max: usize,
        patience: Patience,
    ) -> io::Result<Bytes> {
        match &self.kind {
            Kind::Real(file) => file.read(position, bytes_max, patience).await,
            #[cfg(test)]
            Kind::Memory(file) => file.read(position, bytes_max, patience).await,
        }
    }
}
