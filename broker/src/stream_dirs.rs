//! The directories of streams in the data directory. The broker makes one before the stream is
//! served for the first time, never again after that, and never removes it.

use crate::data_dir::{self, DataDir};
use crate::file_fault::FileFault;
use felix_core::{Catalog, Stream};
use felix_shard::log;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

/// What a file system may have of its own at its root.
const LOST_FOUND: &str = "lost+found";

/// Logs that are founded at a time: each is a few flushes, one after the other, and a device shares
/// those of several.
const FOUNDERS: usize = 8;

/// How the name of a file ends that the next opening of a log removes.
const TEMPORARY: &str = ".tmp";

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

/// Whether logs of any stream are there.
///
/// # Errors
/// It cannot be told.
pub(crate) fn has_any(data: &DataDir) -> Result<bool, FileFault> {
    Ok(!tenants(data)?.is_empty())
}

/// Whether the directory of a shard is there, and not only a link to a disk that is not mounted.
pub(crate) fn has_shard(data: &DataDir, stream: &Stream, index: u32) -> bool {
    felix_shard::directory(data.path(), stream, index).is_dir()
}

/// Makes the place for the logs of streams, durably.
///
/// # Errors
/// It cannot be made.
pub(crate) fn make_root(data: &DataDir) -> Result<(), FileFault> {
    data_dir::make(&root(data))
}

/// Founds logs of shards that were never served, durably, several at a time. Those that now have
/// all that a founded log has: one that somebody has put there without that is left as it is, and
/// one that cannot be made is warned of, since its opening will fail of the same.
pub(crate) fn found_all(data: &DataDir, stream: &Stream, shards: &BTreeSet<u32>) -> BTreeSet<u32> {
    let shards: Vec<u32> = shards.iter().copied().collect();
    let part = shards.len().div_ceil(FOUNDERS).max(1);
    let found_part = |part: &[u32]| -> Vec<u32> {
        let is_whole = |index: &u32| {
            found(data, stream, *index).unwrap_or_else(|fault| {
                tracing::warn!(topic = stream.topic(), index, %fault, "a log was not founded");
                false
            })
        };
        part.iter().copied().filter(is_whole).collect()
    };
    thread::scope(|scope| {
        let parts = shards.chunks(part);
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| found_part(part))).collect();
        let founded = threads.into_iter().flat_map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        founded.collect()
    })
}

/// Whether the log then has all that a founded log has.
fn found(data: &DataDir, stream: &Stream, index: u32) -> Result<bool, FileFault> {
    let directory = felix_shard::directory(data.path(), stream, index);
    data_dir::make(&directory)?;
    let entries = entries(&directory)?;
    if entries
        .iter()
        .any(|path| path.extension() == Some(OsStr::new("log")))
    {
        return Ok(log::what_is_missing(&directory).is_none());
    }
    for (name, bytes) in log::founding_files() {
        // A start that was cut short may have made one of them.
        let path = directory.join(name);
        if !entries.contains(&path) {
            data_dir::put(&path, TEMPORARY, &bytes)?;
        }
    }
    data_dir::sync(&directory)?;
    Ok(true)
}

/// How many streams are there that the catalog does not have.
///
/// # Errors
/// It cannot be told.
pub(crate) fn unlisted(data: &DataDir, catalog: &Catalog) -> Result<usize, FileFault> {
    let listed: HashSet<PathBuf> = catalog
        .streams()
        .iter()
        .map(|stream| of(data, stream))
        .collect();
    let mut count = 0;
    for tenant in tenants(data)? {
        let streams = entries(&tenant)?;
        count += streams
            .iter()
            .filter(|stream| !listed.contains(*stream))
            .count();
    }
    Ok(count)
}

/// The directories of tenants.
fn tenants(data: &DataDir) -> Result<Vec<PathBuf>, FileFault> {
    let mut tenants = entries(&root(data))?;
    tenants.retain(|path| path.file_name() != Some(OsStr::new(LOST_FOUND)));
    Ok(tenants)
}

/// What lies in a directory; nothing in one that is not there or is none.
fn entries(path: &Path) -> Result<Vec<PathBuf>, FileFault> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(path)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    };
    match read() {
        Err(cause) => match cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(Vec::new()),
            _ => Err(FileFault::new("read the directory", path, cause)),
        },
        Ok(entries) => Ok(entries),
    }
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
            retention: felix_core::Retention::default(),
            segment_age: felix_core::limits::SEGMENT_AGE,
            generation_floor: Generation::new(0),
        }
    }

    #[test]
    fn streams_on_disk_are_told_from_those_in_the_catalog() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        assert!(!has_any(&data).unwrap());
        make_root(&data).unwrap();
        fs::create_dir_all(temp.path().join("streams/lost+found/1")).unwrap();
        assert!(!has_any(&data).unwrap());

        let (here, gone) = (stream(7), stream(8));
        assert!(found(&data, &here, 0).unwrap());
        assert!(has_any(&data).unwrap());
        assert!(has_shard(&data, &here, 0) && !has_shard(&data, &gone, 0));
        let count = |streams| unlisted(&data, &Catalog::new(streams).unwrap()).unwrap();
        assert_eq!(count(vec![here, gone.clone()]), 0);
        assert_eq!(count(vec![gone]), 1);
        assert_eq!(count(Vec::new()), 1);
    }

    #[test]
    fn a_log_is_founded_once_and_one_cut_short_is_completed() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let clicks = stream(7);
        let directory = felix_shard::directory(data.path(), &clicks, 0);
        for _ in 0..2 {
            assert!(found(&data, &clicks, 0).unwrap());
            assert_eq!(log::what_is_missing(&directory), None);
            fs::remove_file(directory.join("generations")).unwrap();
        }
        fs::write(directory.join("generations"), "as it was").unwrap();
        assert!(found(&data, &clicks, 0).unwrap());
        let kept = fs::read_to_string(directory.join("generations")).unwrap();
        assert_eq!(kept, "as it was");
    }

    #[test]
    fn a_log_that_somebody_has_put_there_gets_no_files_of_an_empty_one() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let clicks = stream(7);
        let directory = felix_shard::directory(data.path(), &clicks, 0);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("00000000000000000000.log"), "").unwrap();
        assert!(!found(&data, &clicks, 0).unwrap());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_no_shard() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let path = felix_shard::directory(data.path(), &stream(7), 0);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/not mounted", path).unwrap();
        assert!(!has_shard(&data, &stream(7), 0));
    }
}
