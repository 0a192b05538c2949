//! What a process has used and holds, as the kernel counts it.

use std::fs;

/// One look at a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Processor time of all its threads, user and system, in ticks of 10 ms.
    pub(crate) cpu_ticks: u64,
    /// Bytes of memory resident.
    pub(crate) resident_bytes: u64,
}

impl Usage {
    /// Panics if the process is gone.
    pub(crate) fn of(pid: i32) -> Self {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        // The name in parentheses may hold anything; fields are counted from behind it.
        let (_, fields) = stat
            .rsplit_once(')')
            .expect("the kernel writes the name so");
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || number(fields.next());
        let cpu_ticks = ticks() + ticks();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|line| line.trim().strip_suffix(" kB"));
        Self {
            cpu_ticks,
            resident_bytes: number(kib) << 10,
        }
    }
}

fn number(text: Option<&str>) -> u64 {
    let number = text.and_then(|text| text.trim().parse().ok());
    number.expect("the kernel writes a number there")
}
