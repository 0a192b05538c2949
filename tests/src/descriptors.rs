//! What a process holds open.

use std::fs;
use std::path::Path;

/// The open files and connections of a process at one moment.
#[derive(Debug)]
pub struct Descriptors {
    /// Number and what the kernel says it is.
    open: Vec<(i32, String)>,
    /// Of each TCP connection of this machine: both ports as seen from one end, and that end's
    /// inode.
    connections: Vec<(u16, u16, String)>,
}

impl Descriptors {
    /// Those of the process.
    #[must_use]
    pub fn of(pid: i32) -> Self {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is ours");
        let open = entries.filter_map(|entry| {
            let path = entry.expect("the folder can be read").path();
            let number = path.file_name()?.to_str()?.parse().ok()?;
            // One may be closed while we look.
            let link = fs::read_link(&path).ok()?;
            Some((number, link.to_string_lossy().into_owned()))
        });
        let open = open.collect();
        let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("this is Linux");
        let port = |address: &str| u16::from_str_radix(address.split_once(':')?.1, 16).ok();
        let connections = table.lines().skip(1).filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (near, far, inode) = (fields.get(1)?, fields.get(2)?, fields.get(9)?);
            Some((port(near)?, port(far)?, format!("socket:[{inode}]")))
        });
        Self {
            open,
            connections: connections.collect(),
        }
    }

    fn named(&self, name: &str) -> i32 {
        let mut found = self.open.iter().filter(|(_, found)| found == name);
        let (number, _) = found.next().unwrap_or_else(|| panic!("{name} is not open"));
        assert_eq!(found.next(), None, "{name} is open once");
        *number
    }

    /// The number of an open file.
    #[must_use]
    pub fn file(&self, path: &Path) -> i32 {
        self.named(path.to_str().expect("our names are text"))
    }

    /// The number of the connection between two ports, the process's own first.
    #[must_use]
    pub fn connection(&self, near: u16, far: u16) -> i32 {
        let found = self
            .connections
            .iter()
            .find(|connection| (connection.0, connection.1) == (near, far));
        let (.., inode) = found.unwrap_or_else(|| panic!("no connection from {far} to {near}"));
        self.named(inode)
    }
}
