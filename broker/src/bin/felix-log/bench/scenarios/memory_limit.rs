//! A bound on the memory of this process and on the page cache that it brings about.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Where the kernel shows control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// This process under a bound, for as long as this lives.
#[derive(Debug)]
pub(super) struct MemoryLimit {
    group: PathBuf,
    /// The group it came from.
    before: PathBuf,
}

impl MemoryLimit {
    /// Puts this process into a new control group with that bound.
    ///
    /// # Errors
    /// Why that cannot be done here.
    pub(super) fn enter(bytes: u64) -> Result<Self, String> {
        let groups = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let (before, above, file) = place(&groups).ok_or("no control groups for memory")?;
        let group = above.join(format!("felix-log-bench-{}", std::process::id()));
        let said = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir(&group).map_err(|error| said(&group, error))?;
        let limit = Self { group, before };
        for (file, text) in [
            (file, bytes.to_string()),
            ("cgroup.procs", std::process::id().to_string()),
        ] {
            let path = limit.group.join(file);
            fs::write(&path, text).map_err(|error| said(&path, error))?;
        }
        Ok(limit)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let process = std::process::id().to_string();
        // If it cannot go back it stays where it is until it ends.
        drop(fs::write(self.before.join("cgroup.procs"), process));
        drop(fs::remove_dir(&self.group));
    }
}

/// The group that this process is in, the one to make another in, and the file with the bound.
fn place(groups: &str) -> Option<(PathBuf, PathBuf, &'static str)> {
    let of = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            controllers
                .split(',')
                .any(|name| name == wanted)
                .then(|| path.trim_start_matches('/').to_owned())
        })
    };
    if let Some(path) = of("memory") {
        let own = Path::new(GROUPS).join("memory").join(path);
        return Some((own.clone(), own, "memory.limit_in_bytes"));
    }
    // In version 2 a group with processes has no groups that are bounded below it.
    let own = Path::new(GROUPS).join(of("")?);
    let above = if own == Path::new(GROUPS) {
        own.clone()
    } else {
        own.parent()?.to_owned()
    };
    Some((own, above, "memory.max"))
}

/// Fills the page cache of the group with a file that nobody needs.
pub(super) fn fill(dir: &Path, bytes: u64) -> io::Result<()> {
    let path = dir.join("filling");
    let mut chunk = vec![1; 1 << 20];
    let mut file = File::create_new(&path)?;
    for _ in 0..bytes >> 20 {
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    let mut file = File::open(&path)?;
    while file.read(&mut chunk)? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_in_both_versions() {
        let old = "4:cpu,memory:/a/b\n0::/c\n";
        let (own, above, file) = place(old).unwrap();
        assert_eq!((own.clone(), file), (above, "memory.limit_in_bytes"));
        assert_eq!(own, Path::new("/sys/fs/cgroup/memory/a/b"));
        let (own, above, file) = place("0::/a/b\n").unwrap();
        assert_eq!(file, "memory.max");
        assert_eq!(own, Path::new("/sys/fs/cgroup/a/b"));
        assert_eq!(above, Path::new("/sys/fs/cgroup/a"));
        assert_eq!(place(""), None);
    }
}
