//! What is there, asked by whoever is not to make it.

#[cfg(test)]
use super::memory;
use crate::runtime;
use std::io;
use std::path::Path;

/// Has `job` ask after what is in `dir`, on a blocking thread.
pub(crate) async fn ask<T: Send + 'static>(
    dir: &Path,
    job: impl FnOnce(&Path) -> T + Send + 'static,
) -> T {
    #[cfg(test)]
    if let Some(disk) = memory::current() {
        runtime::breathe().await;
        disk.held.pass_aside(Some(dir)).await;
        return job(dir);
    }
    let dir = dir.to_owned();
    runtime::blocking(move || job(&dir)).await
}

/// Whether there is no such file or directory. One that may not be looked at may be there.
pub(crate) fn is_gone(path: &Path) -> bool {
    #[cfg(test)]
    if let Some(disk) = memory::current() {
        return disk.is_gone(path);
    }
    std::fs::metadata(path).is_err_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
    })
}

/// Whether a directory is known to hold nothing.
pub(crate) fn is_empty(dir: &Path) -> bool {
    #[cfg(test)]
    if let Some(disk) = memory::current() {
        return disk.is_empty(dir);
    }
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}
