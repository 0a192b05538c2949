//! The calls to a directory that may wait for its device. They are to be had on blocking threads only:
//! what hangs there holds up no core.

#[cfg(test)]
use super::memory::MemoryDir;
use super::real_dir::TEMPORARY;
use super::regular;
use super::sys;
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// See the module and [`super::Dir::aside`].
#[derive(Debug)]
pub struct Calls<'dir>(Kind<'dir>);

#[derive(Debug)]
enum Kind<'dir> {
    Real(&'dir Path),
    #[cfg(test)]
    Memory(&'dir MemoryDir),
}

impl<'dir> Calls<'dir> {
    pub(super) fn real(dir: &'dir Path) -> Self {
        Self(Kind::Real(dir))
    }

    #[cfg(test)]
    pub(super) fn memory(dir: &'dir MemoryDir) -> Self {
        Self(Kind::Memory(dir))
    }

    /// Where the directory lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.0 {
            Kind::Real(dir) => dir,
            #[cfg(test)]
            Kind::Memory(dir) => dir.path(),
        }
    }

    /// The names in it, in order. Temporary files that a crash left behind are removed.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn list(&self) -> io::Result<Vec<OsString>> {
        match &self.0 {
            Kind::Real(dir) => list(dir),
            #[cfg(test)]
            Kind::Memory(dir) => dir.list(),
        }
    }

    /// The size of a file in bytes; `None` where there is none of that name.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn size_of(&self, name: &str) -> io::Result<Option<u64>> {
        match &self.0 {
            Kind::Real(dir) => size_of(&dir.join(name)),
            #[cfg(test)]
            Kind::Memory(dir) => dir.size_of(name),
        }
    }

    /// The whole of a file; `None` where there is none of that name.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn load(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match &self.0 {
            Kind::Real(dir) => if_there(regular::read(&dir.join(name))),
            #[cfg(test)]
            Kind::Memory(dir) => dir.load(name),
        }
    }

    /// Makes a new file with nothing in it, and does not open it: that takes no descriptor.
    ///
    /// # Errors
    /// It exists already, or the disk's own fault.
    pub fn mark(&self, name: &str) -> io::Result<()> {
        match &self.0 {
            Kind::Real(dir) => mark(&dir.join(name)),
            #[cfg(test)]
            Kind::Memory(dir) => dir.mark(name),
        }
    }

    /// Removes a file, if it is there. It is gone for good after [`super::Dir::sync`].
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match &self.0 {
            Kind::Real(dir) => if_there(std::fs::remove_file(dir.join(name))).map(drop),
            #[cfg(test)]
            Kind::Memory(dir) => dir.remove_file(name),
        }
    }

    /// Gives a file that nobody has open another name, in the place of the one that has it, if one
    /// does. It has it for good after [`super::Dir::sync`].
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match &self.0 {
            Kind::Real(dir) => std::fs::rename(dir.join(from), dir.join(to)),
            #[cfg(test)]
            Kind::Memory(dir) => dir.rename(from, to),
        }
    }
}

fn list(dir: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        if name.as_encoded_bytes().ends_with(TEMPORARY.as_bytes()) {
            remove_temporary(&dir.join(&name))?;
        } else {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn mark(path: &Path) -> io::Result<()> {
    match sys::make_empty(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Not every file system can.
        Err(_) => std::fs::File::create_new(path).map(drop),
        Ok(()) => Ok(()),
    }
}

/// Removes what a crash left behind. Where that cannot be (it is a directory), the error names it.
fn remove_temporary(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path).map_err(|error| {
        let name = path.file_name().unwrap_or_default().display();
        io::Error::new(
            error.kind(),
            format!("{name} could not be removed: {error}"),
        )
    })
}

pub(super) fn size_of(path: &Path) -> io::Result<Option<u64>> {
    let Some(found) = if_there(std::fs::metadata(path))? else {
        return Ok(None);
    };
    regular::check(found.file_type())?;
    Ok(Some(found.len()))
}

/// `None`: there is no such file.
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_made_once() {
        let root = tempfile::tempdir().unwrap();
        let calls = Calls::real(root.path());
        calls.mark("failed").unwrap();
        let found = std::fs::metadata(root.path().join("failed")).unwrap();
        assert!(found.is_file() && found.len() == 0);
        let again = calls.mark("failed").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
