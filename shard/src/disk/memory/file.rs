//! A file of the disk in memory.

use super::content::Content;
use super::{MemoryDisk, broken, draw, place};
use crate::disk::Patience;
use crate::runtime::{breathe, sleep};
use bytes::Bytes;
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// An open file of the disk.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    pub(super) path: RefCell<PathBuf>,
    pub(super) content: Rc<Content>,
    pub(super) disk: Rc<MemoryDisk>,
}

impl MemoryFile {
    pub(in crate::disk) fn path(&self) -> PathBuf {
        self.path.borrow().clone()
    }

    fn asked(&self, what: &'static str) {
        self.disk.asked(self.path.borrow().parent(), what);
    }

    async fn pass_aside(&self) {
        let path = self.path();
        self.disk.held.pass_aside(path.parent()).await;
    }

    pub(in crate::disk) fn renamed(&self, path: &Path) {
        path.clone_into(&mut self.path.borrow_mut());
    }

    pub(in crate::disk) async fn size(&self, patience: Patience) -> u64 {
        match patience {
            Patience::Now => {
                let path = self.path();
                let held = &self.disk.held;
                held.on_core(path.parent(), "measure an open file");
            }
            Patience::Wait => self.pass_aside().await,
        }
        self.content.size() as u64
    }

    pub(in crate::disk) fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.asked("write");
        self.disk.opens()?;
        let start = place(position);
        if self.disk.fails(|faults| faults.write) {
            let short = draw(|random| random.usize(..=bytes.len()));
            self.content.write(&bytes[..short], start);
            return Err(broken());
        }
        let more = (start + bytes.len()).saturating_sub(self.content.size());
        let space = self.disk.space(more);
        if space < more {
            let short = (bytes.len() + space).saturating_sub(more);
            self.content.write(&bytes[..short], start);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.content.write(bytes, start);
        Ok(())
    }

    /// In two steps: a flush, or a crash, may come between them.
    pub(in crate::disk) async fn write_aside(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        breathe().await;
        self.pass_aside().await;
        self.write_at(first, position)?;
        sleep(self.disk.faults.get().slow_write).await;
        self.pass_aside().await;
        self.write_at(second, position + first.len() as u64)
    }

    pub(in crate::disk) fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.asked("truncate");
        let path = self.path();
        self.disk.held.on_core(path.parent(), "truncate");
        if self.disk.fails(|faults| faults.remove) {
            return Err(broken());
        }
        self.content.resize(place(bytes));
        Ok(())
    }

    pub(in crate::disk) async fn truncate_aside(&self, bytes: u64) -> io::Result<()> {
        self.pass_aside().await;
        self.truncate(bytes)
    }

    pub(in crate::disk) async fn extend(&self, bytes: u64) -> io::Result<u64> {
        self.asked("extend");
        breathe().await;
        self.pass_aside().await;
        let size = self.content.size() as u64 + bytes;
        if self.disk.space(place(bytes)) < place(bytes) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.content.extend(place(size));
        // They are flushed before they count.
        self.disk.wait_for_device().await;
        Ok(size)
    }

    /// What was not flushed may be on the device in any case.
    pub(in crate::disk) async fn begin_write_back(&self, position: u64, bytes: u64) {
        assert!(
            position + bytes <= self.content.size() as u64,
            "only what is written is sent ahead"
        );
        self.asked("write-back");
        breathe().await;
        self.pass_aside().await;
        self.disk.sent_bytes.set(self.disk.sent_bytes.get() + bytes);
    }

    pub(in crate::disk) async fn flush(&self) -> io::Result<()> {
        self.asked("flush");
        let path = self.path();
        self.disk.flush(path.parent(), &self.content).await
    }

    pub(in crate::disk) async fn read(
        &self,
        position: u64,
        bytes_max: usize,
        patience: Patience,
    ) -> io::Result<Bytes> {
        self.asked("read");
        if patience == Patience::Wait {
            breathe().await;
            let path = self.path();
            self.disk.held.pass(path.parent()).await;
        }
        if self.disk.fails(|faults| faults.read) {
            return Err(broken());
        }
        let cached = self.content.bytes();
        let start = place(position).min(cached.len());
        let end = start.saturating_add(bytes_max).min(cached.len());
        Ok(Bytes::copy_from_slice(&cached[start..end]))
    }
}
