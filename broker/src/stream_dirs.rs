//! The directories of streams in the data directory. One that is gone was taken away by somebody
//! on purpose: the broker makes it before it serves the stream and never removes it.

use crate::data_dir::{self, DataDir};
use felix_core::{Catalog, Stream};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Above the directories of all streams.
fn root(data: &DataDir) -> PathBuf {
    data.path().join("streams")
}

/// The directory of a stream, in which each of its shards has its own.
fn of(data: &DataDir, stream: &Stream) -> PathBuf {
    let shard = felix_shard::directory(data.path(), stream, 0);
    let stream = shard.parent().expect("shards lie in their stream's");
    stream.to_owned()
}

/// Whether there is a place for the logs of streams.
///
/// # Errors
/// It cannot be told.
pub(crate) fn has_root(data: &DataDir) -> io::Result<bool> {
    exists(&root(data))
}

/// Whether logs of any stream are there.
///
/// # Errors
/// It cannot be told.
pub(crate) fn has_any(data: &DataDir) -> io::Result<bool> {
    Ok(entries(&root(data))?.next().transpose()?.is_some())
}

/// Whether a stream's directory is there.
///
/// # Errors
/// It cannot be told.
pub(crate) fn is_there(data: &DataDir, stream: &Stream) -> io::Result<bool> {
    exists(&of(data, stream))
}

/// Makes the place for the logs of streams, durably.
///
/// # Errors
/// It cannot be made.
pub(crate) fn make_root(data: &DataDir) -> io::Result<()> {
    make(&root(data))
}

/// Makes a stream's directory, durably.
///
/// # Errors
/// It cannot be made.
pub(crate) fn make_of(data: &DataDir, stream: &Stream) -> io::Result<()> {
    make(&of(data, stream))
}

/// How many streams are there that the catalog does not have.
///
/// # Errors
/// It cannot be told.
pub(crate) fn unlisted(data: &DataDir, catalog: &Catalog) -> io::Result<usize> {
    let listed: HashSet<PathBuf> = catalog
        .streams()
        .iter()
        .map(|stream| of(data, stream))
        .collect();
    let mut count = 0;
    for tenant in entries(&root(data))? {
        for stream in entries(&tenant?)? {
            if !listed.contains(&stream?) {
                count += 1;
            }
        }
    }
    Ok(count)
}

/// What lies in a directory; nothing in one that is not there or is none.
fn entries(path: &Path) -> io::Result<impl Iterator<Item = io::Result<PathBuf>> + use<>> {
    let read = match fs::read_dir(path) {
        Ok(read) => Some(read),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => None,
            _ => return Err(at(path, &error)),
        },
    };
    let read = read.into_iter().flatten();
    Ok(read.map(|entry| entry.map(|entry| entry.path())))
}

fn exists(path: &Path) -> io::Result<bool> {
    // Not where a link leads: one to a disk that is not mounted is no stream taken away.
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(at(path, &error)),
    }
}

fn make(path: &Path) -> io::Result<()> {
    data_dir::make(path).map_err(|error| at(path, &error))
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::{Durability, Generation, StreamId, Timestamps};

    fn stream(id: u128) -> Stream {
        Stream {
            id: StreamId(id),
            tenant: "dev".into(),
            namespace: "default".into(),
            name: format!("s{id}"),
            shards: 1,
            durability: Durability::Periodic,
            timestamps: Timestamps::Append,
            generation_floor: Generation::new(0),
        }
    }

    #[test]
    fn streams_on_disk_are_told_from_those_in_the_catalog() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        assert!(!has_root(&data).unwrap() && !has_any(&data).unwrap());
        make_root(&data).unwrap();
        assert!(has_root(&data).unwrap() && !has_any(&data).unwrap());

        let (here, gone) = (stream(7), stream(8));
        make_of(&data, &here).unwrap();
        assert!(has_any(&data).unwrap());
        assert!(is_there(&data, &here).unwrap() && !is_there(&data, &gone).unwrap());
        let count = |streams| unlisted(&data, &Catalog::new(streams).unwrap()).unwrap();
        assert_eq!(count(vec![here, gone.clone()]), 0);
        assert_eq!(count(vec![gone]), 1);
        assert_eq!(count(Vec::new()), 1);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_no_stream_taken_away() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let path = of(&data, &stream(7));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/not mounted", path).unwrap();
        assert!(is_there(&data, &stream(7)).unwrap());
    }
}
