//! A disk that is soon full.

use crate::is_strict;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Which file system it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// ext4 in a file, by a loop device: as on a disk, space is given out when it is written to the
    /// page cache, and names take space too.
    Ext4,
    /// In memory.
    Tmpfs,
}

/// A small file system that is mounted until it is dropped, and a file in it that takes up space.
#[derive(Debug)]
pub struct SmallDisk {
    mount: PathBuf,
    // Last: it is removed once nothing is mounted in it.
    _dir: TempDir,
}

impl SmallDisk {
    /// Mounts an empty one of so many MiB.
    ///
    /// # Errors
    /// Why it cannot be done here: no right to mount, no loop device, no `mkfs.ext4`.
    pub fn mount(kind: FileSystem, mib: u64) -> Result<Self, String> {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let root = dir.path().canonicalize().expect("it was just made");
        let mount = root.join("mount");
        fs::create_dir(&mount).expect("it is ours");
        match kind {
            FileSystem::Ext4 => {
                let image = root.join("image");
                let file = File::create(&image).expect("it is ours");
                file.set_len(mib << 20).expect("it is ours");
                run(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
                let mut command = Command::new("mount");
                run(command.args(["-o", "loop"]).arg(&image).arg(&mount))?;
            }
            FileSystem::Tmpfs => {
                let mut command = Command::new("mount");
                command.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]);
                run(command.arg(&mount))?;
            }
        }
        Ok(Self { mount, _dir: dir })
    }

    /// The same for a test that cannot go without: where it cannot be done, says that `what` was
    /// not checked, or panics where that must not pass ([`is_strict`]).
    #[must_use]
    pub fn mount_for(what: &str, kind: FileSystem, mib: u64) -> Option<Self> {
        match Self::mount(kind, mib) {
            Ok(disk) => Some(disk),
            Err(reason) => {
                assert!(!is_strict(), "{reason}");
                // Past the harness, which swallows what a passed test prints.
                let warning = format!("\nNOT CHECKED: {what}: {reason}\n");
                drop(io::stderr().write_all(warning.as_bytes()));
                None
            }
        }
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// Bytes free on it, for whoever is not root.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.mount).expect("it is mounted");
        found.f_bavail * found.f_frsize
    }

    /// Takes up all that is free but `left` bytes, or all there is, with what is for root.
    pub fn fill(&self, left: u64) {
        let mut filler = File::options()
            .append(true)
            .create(true)
            .open(self.filler())
            .expect("there is a file or room for its name");
        let block = [1_u8; 4096];
        let mut taken = 1;
        // What is written is only promised. Once it is on the device the promises for what goes
        // with it end, and there may be more.
        while taken > 0 {
            taken = 0;
            while left == 0 || self.free_bytes() > left {
                match filler.write(&block) {
                    Ok(bytes) => taken += bytes,
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
            filler.sync_all().expect("it took what it promised");
        }
    }

    /// Frees what [`SmallDisk::fill`] took.
    pub fn make_room(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.mount.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // At once, whoever still has files open on it: they go with the process.
        drop(run(Command::new("umount").arg("-l").arg(&self.mount)));
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let ended = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    Err(format!(
        "{command:?}: {}",
        String::from_utf8_lossy(&ended.stderr).trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_disk_is_full_when_it_is_filled_and_not_any_more_when_room_is_made() {
        for kind in [FileSystem::Ext4, FileSystem::Tmpfs] {
            let Some(disk) = SmallDisk::mount_for("small disks", kind, 16) else {
                return;
            };
            let file = disk.path().join("file");
            fs::write(&file, [0; 100]).expect("there is room");
            disk.fill(1 << 20);
            assert!(disk.free_bytes() <= 1 << 20 && disk.free_bytes() > 0);
            disk.fill(0);
            // ext4 keeps something for the first block of a file.
            let other = disk.path().join("other");
            let full = fs::write(&other, [0; 1 << 16]).expect_err("it is full");
            assert_eq!(full.kind(), io::ErrorKind::StorageFull);
            disk.make_room();
            fs::write(&file, [0; 1 << 20]).expect("there is room again");
        }
    }
}
