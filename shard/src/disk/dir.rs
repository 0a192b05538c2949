//! The directory of one shard's log.

#[cfg(test)]
use super::memory::{MemoryDir, MemoryFile};
use super::real_dir::RealDir;
use super::real_file::RealFile;
use super::{Calls, File, Free};
use crate::event::Credits;
use crate::runtime;
use felix_core::limits::FILE_WORK_PER_SHARD_MAX;
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

    /// Has `job` do what may wait for the device, on a blocking thread: one thread for several calls.
    pub async fn aside<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Calls<'_>) -> T + Send + 'static,
    ) -> T {
        let _thread = self.aside.permit().await;
        match &self.kind {
            Kind::Real(dir) => {
                let path = dir.path().to_owned();
                runtime::blocking(move || job(&Calls::real(&path))).await
            }
            #[cfg(test)]
            Kind::Memory(dir) => {
                runtime::breathe().await;
                dir.pass_aside().await;
                job(&Calls::memory(dir))
            }
        }
    }

    /// Makes a new file with nothing in it, on a blocking thread that has the work once this was polled,
    /// however much of the log's other work hangs.
    ///
    /// # Errors
    /// It exists already, or the disk's own fault.
    pub async fn mark(&self, name: &'static str) -> io::Result<()> {
        match &self.kind {
            Kind::Real(dir) => {
                let path = dir.path().to_owned();
                runtime::blocking(move || Calls::real(&path).mark(name)).await
            }
            #[cfg(test)]
            Kind::Memory(dir) => {
                dir.pass_aside().await;
                dir.mark(name)
            }
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
            Kind::Memory(dir) => Ok(dir.open_file(name).await?.map(|file| self.memory(file))),
        }
    }

    /// Makes a new file, on the core's own thread: for a roll that nobody has prepared. It is there for
    /// good after [`Dir::sync`].
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
                runtime::breathe().await;
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
                runtime::breathe().await;
                dir.pass_aside().await;
                dir.rename(from, to)?;
            }
        }
        file.renamed(&self.path().join(to));
        Ok(())
    }

    /// Removes a file, if it is there, on a blocking thread.
    ///
    /// # Errors
    /// The disk's own fault.
    pub async fn discard_file(&self, name: &str) -> io::Result<()> {
        let name = name.to_owned();
        self.aside(move |calls| calls.remove(&name)).await
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

    /// Gives a file another name, on the core's own thread: for a roll that waits for it. It has it for
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

    /// The size of a file in bytes, asked on the core's own thread: for a roll whose file has its name
    /// already. `None` where there is none of that name.
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
            let names = dir.aside(|calls| calls.list()).await.unwrap();
            assert_eq!(names, ["next", "other", "table"]);
        });
    }
}
