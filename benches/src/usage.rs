//! What a process has used and holds, as the kernel counts it, and which process serves a port.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// How long a tick is: Linux counts for programs in hundredths of a second, whatever its own
/// clock does.
pub const TICK: Duration = Duration::from_millis(10);

/// One look at a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Processor time of all its threads, user and system, in [`TICK`]s.
    pub cpu_ticks: u64,
    /// Bytes of memory resident.
    pub resident_bytes: u64,
}

impl Usage {
    /// Looks at the process with this id.
    ///
    /// # Errors
    /// There is none, or it is not ours to look at.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        Ok(Self {
            cpu_ticks: cpu_ticks(&stat).ok_or(ErrorKind::InvalidData)?,
            resident_bytes: resident_bytes(&status).ok_or(ErrorKind::InvalidData)?,
        })
    }
}

/// The name in parentheses may hold anything; fields are counted from behind it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// A process that has ended and is not yet reaped has no such line, and holds nothing.
fn resident_bytes(status: &str) -> Option<u64> {
    let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmRSS:")) else {
        return Some(0);
    };
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// The process of this machine that listens on a TCP port; none if no process does that we may
/// look at, or if several do.
#[must_use]
pub fn listener_pid(port: u16) -> Option<u32> {
    let mut sockets = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let table = fs::read_to_string(table).unwrap_or_default();
        sockets.extend(table.lines().filter_map(|line| listener(line, port)));
    }
    if sockets.is_empty() {
        return None;
    }
    let names: BTreeSet<String> = sockets
        .iter()
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let mut pids = processes().filter(|pid| holds(*pid, &names));
    let pid = pids.next()?;
    pids.next().is_none().then_some(pid)
}

/// The inode of the socket of a line of the kernel's table, if it listens on the port.
fn listener(line: &str, port: u16) -> Option<u64> {
    /// TCP_LISTEN.
    const LISTENS: &str = "0A";
    let mut fields = line.split_whitespace();
    let (_, local_port) = fields.nth(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(local_port, 16).ok()? == port;
    (is_it && fields.nth(1)? == LISTENS).then_some(())?;
    fields.nth(5)?.parse().ok()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether the process has one of these files open, as far as we may look.
fn holds(pid: u32, names: &BTreeSet<String>) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    descriptors.into_iter().flatten().flatten().any(|entry| {
        let file = fs::read_link(entry.path());
        file.is_ok_and(|file| file.to_str().is_some_and(|name| names.contains(name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Instant;

    #[test]
    fn our_own_usage_shows_the_work_done_and_the_memory_held() {
        let us = std::process::id();
        let before = Usage::of(us).unwrap();
        let held = vec![7_u8; 64 << 20];
        let begun = Instant::now();
        while begun.elapsed() < 10 * TICK {}
        let after = Usage::of(us).unwrap();
        assert!(held.iter().all(|byte| *byte == 7));
        assert!(after.cpu_ticks > before.cpu_ticks);
        assert!(after.resident_bytes >= 64 << 20);
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert_eq!(Usage::of(u32::MAX).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_move_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 20 22 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("7 (a) S"), None);
    }

    #[test]
    fn a_process_without_memory_holds_none() {
        assert_eq!(resident_bytes("Name:\tx\nState:\tZ (zombie)\n"), Some(0));
        assert_eq!(resident_bytes("VmRSS:\t  12 kB\n"), Some(12 << 10));
    }

    #[test]
    fn whoever_listens_on_a_port_is_found_on_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert_eq!(listener_pid(port), Some(std::process::id()), "{address}");
            drop(listener);
            assert_eq!(listener_pid(port), None, "{address}");
        }
    }
}
