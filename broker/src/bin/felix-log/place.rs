//! What a path names: a file of a log, a shard's directory, or a broker's data directory.

use crate::output::{self, Trouble};
use felix_shard::log::inspect;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The shards' directories at `path`: itself, or all of a data directory.
pub(crate) fn shards(path: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let unreadable = |cause: io::Error| Trouble::unreadable(path, &cause);
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Err(Trouble::NotOurs(format!(
            "{} is a file; name a shard's directory or a data directory, or use felix-log dump",
            path.display()
        )));
    }
    if inspect::is_shard(path) {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for tenant in directories(&path.join("streams"))? {
        for stream in directories(&tenant)? {
            let shards = directories(&stream)?;
            found.extend(shards.into_iter().filter(|shard| inspect::is_shard(shard)));
        }
    }
    if found.is_empty() {
        return Err(Trouble::NotOurs(not_ours(path)));
    }
    Ok(found)
}

/// Why a directory is none of ours.
fn not_ours(path: &Path) -> String {
    let shown = path.display();
    let has = |name: &str| path.join(name).is_file();
    if has("leader-epoch-checkpoint") || has("partition.metadata") {
        return format!(
            "{shown} is a log directory of Apache Kafka; felix-log dump shows its .log and index \
             files one by one"
        );
    }
    format!(
        "{shown} is neither a shard's directory (with the files checkpoint and generations) nor a \
         data directory (with shards in streams/<tenant>/<stream id>/)"
    )
}

fn directories(path: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut paths = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<PathBuf>>>()?;
        paths.retain(|path| path.is_dir());
        paths.sort();
        Ok(paths)
    };
    list().map_err(|cause| Trouble::unreadable(path, &cause))
}

/// Whether a broker has the data directory that `path` is, or lies in; then it is told.
///
/// The kernel's own list of locks says so. Trying the lock would keep a broker that starts at that
/// moment from having it.
pub(crate) fn is_in_use(path: &Path) -> bool {
    let Ok(path) = fs::canonicalize(path) else {
        return false;
    };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let owner = path.ancestors().find_map(|above| {
        let number = fs::metadata(above).ok()?.ino();
        let holder = holder(&locks, number)?;
        Some((above.to_owned(), holder))
    });
    if let Some((above, holder)) = &owner {
        output::complain(&format_args!(
            "{} is in use by process {holder}: what it is writing is left out",
            above.display()
        ));
    }
    owner.is_some()
}

/// The process that has locked the file of that number as a broker does:
/// `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`.
fn holder(locks: &str, inode: u64) -> Option<&str> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", process, file, ..] = words[..] else {
            return None;
        };
        let number = file.rsplit(':').next()?.parse::<u64>().ok()?;
        (number == inode).then_some(process)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_by_the_number_of_the_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 34 fe:00:77 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 35 fe:00:78 0 EOF\n";
        assert_eq!(holder(locks, 77), Some("34"));
        assert_eq!(holder(locks, 78), None, "it waits");
    }
}
