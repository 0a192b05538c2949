//! The directory of one shard's log.

#[cfg(test)]
use super::memory::{MemoryDir, MemoryFile};
use super::real_dir::RealDir;
use super::real_file::RealFile;
use super::{File, Free};
use crate::event::Credits;
use felix_core::limits::FILE_WORK_PER_SHARD_MAX;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::rc::Rc;

/// A directory that is there for good. Lives on the CPU core that opened it.
#[derive(Debug)]
pub struct Dir {
    kind: Kind,
    /// What is done in it on blocking threads, which others need, too.
    aside: Rc<Credits>,
}

#[derive(Debug)]
enum Kind {
    Real(RealDir),
    #[cfg(test)]
    Memory(MemoryDir),
}

/// Why a small file was not put in its place for good.
#[derive(Debug)]
pub enum ReplaceError {
    /// The old one is still there.
    Unwritten(io::Error),
    /// The new one is there, and its directory could not be synced: names that appeared or went may
    /// not be durable, whatever the kernel says the next time.
    Unsynced(io::Error),
}

impl Dir {
    /// Opens the directory, making it and those above it where they are missing, all of them
    /// durably: one that is there may have been made by a process that was killed before it synced.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn open(path: &Path) -> io::Result<Self> {
        #[cfg(test)]
        if let Some(disk) = super::memory::current() {
            return Ok(Self::over(Kind::Memory(disk.open_dir(path).await?)));
        }
        Ok(Self::over(Kind::Real(RealDir::open(path).await?)))
    }

    fn over(kind: Kind) -> Self {
        Self {
            kind,
            aside: Rc::new(Credits::new(FILE_WORK_PER_SHARD_MAX)),
        }
    }

    fn real(&self, file: RealFile) -> File {
        File::real(file, &self.aside)
    }

    #[cfg(test)]
    fn memory(&self, file: MemoryFile) -> File {
        File::memory(file, &self.aside)
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.kind {
            Kind::Real(dir) => dir.path(),
            #[cfg(test)]
            Kind::Memory(dir) => dir.path(),
        }
    }

    /// The file system that it lies on, as `stat` tells it.
    #[must_use]
    pub fn device(&self) -> u64 {
        match &self.kind {
            Kind::Real(dir) => dir.device(),
            #[cfg(test)]
            Kind::Memory(dir) => dir.device(),
        }
    }

    /// The names in it, in order. Temporary files that a crash left behind are removed.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn list(&self) -> io::Result<Vec<OsString>> {
        match &self.kind {
            Kind::Real(dir) => dir.list(),
            #[cfg(test)]
            Kind::Memory(dir) => dir.list(),
        }
    }

    /// Opens a file of the directory; `None` where there is none of that name.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        match &self.kind {
            Kind::Real(dir) => Ok(dir.open_file(name).await?.map(|file| self.real(file))),
            #[cfg(test)]
            Kind::Memory(dir) => Ok(dir.open_file(name)?.map(|file| self.memory(file))),
        }
    }

    /// Makes a new file. It is there for good after [`Dir::sync`].
    ///
    /// # Errors
    /// It exists already, or the disk's own fault.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        match &self.kind {
            Kind::Real(dir) => dir.create_file(name).map(|file| self.real(file)),
            #[cfg(test)]
            Kind::Memory(dir) => dir.create_file(name).map(|file| self.memory(file)),
        }
    }

    /// Makes a new file with nothing in it, and does not open it: that takes no descriptor.
    ///
    /// # Errors
    /// It exists already, or the disk's own fault.
    pub fn mark(&self, name: &str) -> io::Result<()> {
        match &self.kind {
            Kind::Real(dir) => dir.mark(name),
            #[cfg(test)]
            Kind::Memory(dir) => dir.mark(name),
        }
    }

    /// Makes a new file, on a blocking thread.
    ///
    /// # Errors
    /// It exists already, or the disk's own fault.
    pub async fn create_file_aside(&self, name: &str) -> io::Result<File> {
        let _thread = self.aside.permit().await;
        match &self.kind {
            Kind::Real(dir) => dir
                .create_file_aside(name)
                .await
                .map(|file| self.real(file)),
            #[cfg(test)]
            Kind::Memory(dir) => {
                crate::runtime::breathe().await;
                dir.pass_aside().await;
                dir.create_file(name).map(|file| self.memory(file))
            }
        }
    }

    /// Gives an open file of the directory another name, on a blocking thread. It has it for good
    /// after [`Dir::sync`].
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn rename_aside(&self, file: &File, from: &str, to: &str) -> io::Result<()> {
        let _thread = self.aside.permit().await;
        // Nobody is to open it by the old name meanwhile.
        let _open = file.hold().await?;
        match &self.kind {
            Kind::Real(dir) => dir.rename_aside(from, to).await?,
            #[cfg(test)]
            Kind::Memory(dir) => {
                crate::runtime::breathe().await;
                dir.pass_aside().await;
                dir.rename(from, to)?;
            }
        }
        file.renamed(&self.path().join(to));
        Ok(())
    }

    /// Removes a file, if it is there. It is gone for good after [`Dir::sync`].
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        match &self.kind {
            Kind::Real(dir) => dir.remove_file(name),
            #[cfg(test)]
            Kind::Memory(dir) => dir.remove_file(name),
        }
    }

    /// Removes a file, if it is there, on a blocking thread.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn discard_file(&self, name: &str) -> io::Result<()> {
        let _thread = self.aside.permit().await;
        match &self.kind {
            Kind::Real(dir) => dir.discard_file(name).await,
            #[cfg(test)]
            Kind::Memory(dir) => {
                dir.pass_aside().await;
                dir.remove_file(name)
            }
        }
    }

    /// Cuts a file that nobody has open to `bytes`, if it is there, on a blocking thread.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn cut_file(&self, name: &str, bytes: u64) -> io::Result<()> {
        let _thread = self.aside.permit().await;
        match &self.kind {
            Kind::Real(dir) => dir.cut_file(name, bytes).await,
            #[cfg(test)]
            Kind::Memory(dir) => {
                dir.pass_aside().await;
                dir.cut_file(name, bytes)
            }
        }
    }

    /// Gives a file another name, in the place of the one that has it, if one does. It has it for
    /// good after [`Dir::sync`].
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match &self.kind {
            Kind::Real(dir) => dir.rename(from, to),
            #[cfg(test)]
            Kind::Memory(dir) => dir.rename(from, to),
        }
    }

    /// Makes files that appeared or went do so durably.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn sync(&self) -> io::Result<()> {
        let _thread = self.aside.permit().await;
        match &self.kind {
            Kind::Real(dir) => dir.sync().await,
            #[cfg(test)]
            Kind::Memory(dir) => dir.sync().await,
        }
    }

    /// What is free on the file system that it lies on, asked on a blocking thread.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn free(&self) -> io::Result<Free> {
        match &self.kind {
            Kind::Real(dir) => dir.free().await,
            #[cfg(test)]
            Kind::Memory(dir) => Ok(dir.free()),
        }
    }

    /// The size of a file in bytes; `None` where there is none of that name.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn size_of(&self, name: &str) -> io::Result<Option<u64>> {
        match &self.kind {
            Kind::Real(dir) => dir.size_of(name),
            #[cfg(test)]
            Kind::Memory(dir) => dir.size_of(name),
        }
    }

    /// The whole of a small file; `None` where there is none of that name.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match &self.kind {
            Kind::Real(dir) => dir.load(name),
            #[cfg(test)]
            Kind::Memory(dir) => dir.load(name),
        }
    }

    /// Puts a small file in the place of the one of that name, durably: whatever happens, either
    /// the old one is there or the new one.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn replace(&self, name: &str, bytes: Vec<u8>) -> Result<(), ReplaceError> {
        let _thread = self.aside.permit().await;
        match &self.kind {
            Kind::Real(dir) => dir.replace(name, bytes).await,
            #[cfg(test)]
            Kind::Memory(dir) => dir.replace(name, bytes).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::simulated::Simulation;
    use crate::runtime::{sleep, spawn_local};
    use std::time::Duration;

    #[test]
    fn a_directory_that_is_stuck_takes_few_threads() {
        let simulation = Simulation::new(1);
        let disk = Rc::clone(simulation.disk());
        simulation.run(async move {
            let path = Path::new("/stuck");
            let dir = Rc::new(Dir::open(path).await.unwrap());
            let file = Rc::new(dir.create_file("log").unwrap());
            disk.held.hold(path);
            let work = |number: u8| {
                let (dir, file) = (Rc::clone(&dir), Rc::clone(&file));
                spawn_local(async move {
                    match number {
                        0 => dir.sync().await.unwrap(),
                        1 => drop(file.extend(100).await.unwrap()),
                        2 => file.begin_write_back(0, 0).await,
                        3 => dir.replace("table", vec![1]).await.unwrap(),
                        4 => drop(dir.create_file_aside("next").await.unwrap()),
                        5 => dir.rename_aside(&file, "log", "other").await.unwrap(),
                        6 => dir.cut_file("gone", 0).await.unwrap(),
                        _ => dir.discard_file("gone").await.unwrap(),
                    }
                })
            };
            let tasks: Vec<_> = (0..8).map(work).collect();
            sleep(Duration::from_secs(1)).await;
            assert_eq!(disk.held.waiting(), FILE_WORK_PER_SHARD_MAX);
            disk.held.let_go();
            for task in tasks {
                task.join().await;
            }
            assert_eq!(dir.list().unwrap(), ["next", "other", "table"]);
        });
    }
}
