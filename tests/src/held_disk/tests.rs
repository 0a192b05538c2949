//! The disk itself, before any broker trusts it.

use super::HeldDisk;
use crate::process::{Finished, Process};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const WAIT: Duration = Duration::from_secs(20);

/// A process that flushes a file or directory, as no thread of ours may wait for that.
fn flusher(path: &Path) -> Process {
    Process::start("sync", Command::new("sync").arg(path), None)
}

fn finish(flusher: Process) -> Finished {
    flusher.finish(WAIT)
}

fn assert_done(flusher: Process) {
    drop(finish(flusher).ok());
}

fn assert_failed(flusher: Process) {
    let finished = finish(flusher);
    assert!(!finished.status.success());
    assert!(
        finished.stderr.contains("Input/output error"),
        "{}",
        finished.stderr
    );
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let path = path.to_str().unwrap();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(path))
}

/// Whether it waits in the kernel for what no signal ends.
fn is_blocked(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().any(|line| line.starts_with("State:\tD"))
}

fn named(name: &'static str) -> impl Fn(&Path) -> bool + Send + 'static {
    move |path| path == Path::new(name)
}

#[test]
fn files_are_what_they_are_on_any_disk() {
    let Some(disk) = HeldDisk::mount_for("files on a disk of ours") else {
        return;
    };
    let path = disk.path().join("file");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let file = File::create_new(&path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::read(disk.backing().join("file")).unwrap(), bytes);
    assert_eq!(file.metadata().unwrap().len(), 3_000_000);
    let again = File::create_new(&path).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);

    // Cut through the descriptor, grown again by the path, a hole between.
    file.set_len(10).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes[..10]);
    let by_path = OpenOptions::new().write(true).open(&path).unwrap();
    by_path.set_len(20).unwrap();
    by_path.write_all_at(b"end", 20).unwrap();
    let expected = [&bytes[..10], &[0; 10], b"end"].concat();
    assert_eq!(fs::read(&path).unwrap(), expected);
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 100).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 100);

    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
    file.set_modified(time).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    let beneath = fs::metadata(disk.backing().join("file")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o640);
    assert_eq!(metadata.modified().unwrap(), time);
    assert_eq!(metadata.ino(), beneath.ino());
    assert_eq!(metadata.blocks(), beneath.blocks());
}

#[test]
fn names_are_what_they_are_on_any_disk() {
    let Some(disk) = HeldDisk::mount_for("names on a disk of ours") else {
        return;
    };
    let root = disk.path();
    fs::create_dir_all(root.join("a/b")).unwrap();
    let moved = root.join("a/b/moved");
    let open = File::create(root.join("file")).unwrap();
    open.write_all_at(b"bytes", 0).unwrap();
    fs::rename(root.join("file"), &moved).unwrap();
    assert_eq!(
        fs::metadata(root.join("file")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(fs::read(&moved).unwrap(), b"bytes");
    // What is open stays what it is, under its new name and over an older file.
    fs::write(root.join("old"), b"old").unwrap();
    fs::rename(&moved, root.join("old")).unwrap();
    open.write_all_at(b"B", 0).unwrap();
    assert_eq!(fs::read(root.join("old")).unwrap(), b"Bytes");

    fs::write(root.join("kept"), b"kept").unwrap();
    let (from, to) = (root.join("old"), root.join("kept"));
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    let refused = rustix::fs::renameat_with(rustix::fs::CWD, &from, rustix::fs::CWD, &to, flags);
    assert_eq!(refused.unwrap_err(), rustix::io::Errno::EXIST);

    fs::hard_link(&to, root.join("linked")).unwrap();
    assert_eq!(fs::metadata(&to).unwrap().nlink(), 2);
    std::os::unix::fs::symlink("kept", root.join("symlink")).unwrap();
    assert_eq!(
        fs::read_link(root.join("symlink")).unwrap(),
        Path::new("kept")
    );
    assert_eq!(fs::read(root.join("symlink")).unwrap(), b"kept");

    let full = fs::remove_dir(root.join("a")).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::DirectoryNotEmpty);
    fs::remove_dir(root.join("a/b")).unwrap();
    fs::remove_file(&from).unwrap();
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    let mut names: Vec<_> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "kept", "linked", "symlink"]);
    assert!(rustix::fs::statvfs(root).unwrap().f_blocks > 0);
}

#[test]
fn a_directory_of_many_names_is_listed_whole() {
    let Some(disk) = HeldDisk::mount_for("many names on a disk of ours") else {
        return;
    };
    for number in 0..1000 {
        fs::write(
            disk.path().join(format!("a file with number {number}")),
            b"",
        )
        .unwrap();
    }
    let listed = fs::read_dir(disk.path()).unwrap();
    let names: std::collections::HashSet<_> =
        listed.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1000);
}

#[test]
fn a_held_flush_ends_when_released_and_not_before_and_others_go_through() {
    let Some(disk) = HeldDisk::mount_for("a held flush") else {
        return;
    };
    let (held, free) = (disk.path().join("held"), disk.path().join("free"));
    fs::write(&held, b"bytes").unwrap();
    fs::write(&free, b"bytes").unwrap();
    let hold = disk.hold_flushes(named("held"));
    let mut waiting = flusher(&held);
    assert_eq!(hold.await_one(WAIT), Path::new("held"));
    assert_eq!(disk.held(), [Path::new("held")]);
    // Everything else goes on: another file's flush, a directory's, reads of the file itself.
    let other = OpenOptions::new().append(true).open(&free).unwrap();
    other.sync_all().unwrap();
    other.sync_data().unwrap();
    File::open(disk.path()).unwrap().sync_all().unwrap();
    assert_eq!(fs::read(&held).unwrap(), b"bytes");
    assert_done(flusher(&free));
    assert!(!waiting.has_ended());
    hold.release();
    assert_done(waiting);
    assert!(hold.held().is_empty());

    // It holds the next one too, until it is dropped.
    let waiting = flusher(&held);
    hold.await_one(WAIT);
    drop(hold);
    assert_done(waiting);
    assert_done(flusher(&held));
}

#[test]
fn a_write_to_a_file_whose_flush_is_held_waits_in_the_kernel() {
    let Some(disk) = HeldDisk::mount_for("a write beside a held flush") else {
        return;
    };
    let path = disk.path().join("file");
    fs::write(&path, b"bytes").unwrap();
    let hold = disk.hold_flushes(named("file"));
    let waiting = flusher(&path);
    hold.await_one(WAIT);
    let script = "echo ready; echo more >> \"$0\"; echo written";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(&path);
    let mut writer = Process::start("sh", &mut shell, None);
    writer.wait_until("readiness", WAIT, |out, _| out.starts_with(b"ready\n"));
    let deadline = Instant::now() + WAIT;
    while !is_blocked(writer.pid()) {
        assert!(Instant::now() < deadline, "it does not wait");
        // Where another process is can only be looked at.
        thread::sleep(Duration::from_millis(1));
    }
    fs::write(disk.path().join("other"), b"not in the way").unwrap();
    assert_eq!(writer.stdout(), b"ready\n");
    hold.release();
    assert_done(waiting);
    assert_eq!(finish(writer).ok().stdout, b"ready\nwritten\n");
    assert_eq!(fs::read(&path).unwrap(), b"bytesmore\n");
}

#[test]
fn flushes_of_directories_are_held_apart_from_those_of_files() {
    let Some(disk) = HeldDisk::mount_for("a held flush of a directory") else {
        return;
    };
    let dir = disk.path().join("dir");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("file"), b"bytes").unwrap();
    let hold = disk.hold_dir_flushes(|path| path.starts_with("dir"));
    assert_done(flusher(&dir.join("file")));
    let mut waiting = flusher(&dir);
    assert_eq!(hold.await_one(WAIT), Path::new("dir"));
    assert!(!waiting.has_ended());
    hold.fail();
    assert_failed(waiting);
    drop(hold);

    let failing = disk.fail_dir_flushes(|path| path == Path::new(""));
    let error = File::open(disk.path()).unwrap().sync_all().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    failing.await_count(1, WAIT);
    File::open(&dir).unwrap().sync_all().unwrap();
}

#[test]
fn flushes_fail_for_matching_paths_as_long_as_asked() {
    let Some(disk) = HeldDisk::mount_for("failing flushes") else {
        return;
    };
    let file = File::create(disk.path().join("file")).unwrap();
    let other = File::create(disk.path().join("other")).unwrap();
    let failing = disk.fail_flushes(named("file"));
    for flush in [File::sync_all, File::sync_data] {
        let error = flush(&file).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        flush(&other).unwrap();
    }
    assert_eq!(failing.count(), 2);
    // The path is the one it has now.
    fs::rename(disk.path().join("file"), disk.path().join("renamed")).unwrap();
    file.sync_all().unwrap();
    fs::rename(disk.path().join("renamed"), disk.path().join("file")).unwrap();
    file.sync_all().unwrap_err();
    drop(failing);
    file.sync_all().unwrap();
}

#[test]
fn writes_fail_for_matching_paths_with_the_error_asked_for() {
    let Some(disk) = HeldDisk::mount_for("failing writes") else {
        return;
    };
    let file = File::create(disk.path().join("file")).unwrap();
    let other = File::create(disk.path().join("other")).unwrap();
    file.write_all_at(b"before", 0).unwrap();
    let error = |result: io::Result<()>| result.unwrap_err().raw_os_error();
    let failing = disk.fail_writes(named("file"));
    assert_eq!(error(file.write_all_at(b"lost", 6)), Some(libc::EIO));
    let full = disk.refuse_space(named("file"));
    assert_eq!(error(file.write_all_at(b"lost", 6)), Some(libc::ENOSPC));
    other.write_all_at(b"kept", 0).unwrap();
    let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 100);
    assert_eq!(allocated.unwrap_err(), rustix::io::Errno::NOSPC);
    assert_eq!((failing.count(), full.count()), (1, 2));
    assert_eq!(fs::read(disk.path().join("file")).unwrap(), b"before");
    drop(full);
    drop(failing);
    file.write_all_at(b" and after", 6).unwrap();
    assert_eq!(
        fs::read(disk.backing().join("file")).unwrap(),
        b"before and after"
    );
}

#[test]
fn dropping_the_disk_unmounts_it_and_fails_the_flushes_it_holds() {
    let Some(disk) = HeldDisk::mount_for("the end of a disk") else {
        return;
    };
    let mount = disk.path().to_owned();
    assert!(is_mounted(&mount));
    let path = mount.join("file");
    let file = File::create(&path).unwrap();
    let hold = disk.hold_flushes(|_| true);
    let waiting = flusher(&path);
    hold.await_one(WAIT);
    drop(disk);
    assert_failed(waiting);
    assert!(!is_mounted(&mount));
    assert!(!mount.exists(), "nothing is left behind");
    // The file was open all the time; it is nobody's now.
    file.write_all_at(b"late", 0).unwrap_err();
    assert!(hold.held().is_empty());
}

#[test]
fn a_killed_process_is_gone_once_its_held_flush_has_failed() {
    let Some(disk) = HeldDisk::mount_for("kill -9 during a held flush") else {
        return;
    };
    let path = disk.path().join("file");
    fs::write(&path, b"bytes").unwrap();
    let hold = disk.hold_flushes(|_| true);
    let mut waiting = flusher(&path);
    hold.await_one(WAIT);
    waiting.signal(crate::SIGKILL);
    hold.fail();
    assert!(!finish(waiting).status.success());
}
