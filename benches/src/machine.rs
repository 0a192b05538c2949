//! The machine that the figures hold for.

use std::fs;
use std::path::Path;

/// What a reader needs to know to compare; nothing that names the machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    /// Whether it runs under a hypervisor, whose other guests disturb.
    pub(crate) is_virtual: bool,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
    /// How the kernel chooses the frequency; unknown where the hypervisor does.
    pub(crate) governor: Option<String>,
    /// Runnable tasks, averaged over the minute before the run.
    pub(crate) load_before: String,
}

impl Machine {
    /// This machine, and the file system of `dir`.
    pub(crate) fn look(dir: &Path) -> Self {
        let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let unknown = || "unknown".to_owned();
        let load = text("/proc/loadavg").unwrap_or_default();
        Self {
            processor: field("model name").unwrap_or_else(unknown),
            processors: cpuinfo
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count(),
            is_virtual: field("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            kernel: text("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            file_system: file_system(dir).unwrap_or_else(unknown),
            governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_before: load.split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

/// The type of the file system that holds `dir`.
fn file_system(dir: &Path) -> Option<String> {
    let dir = dir.canonicalize().ok()?;
    let mounts = text("/proc/self/mounts")?;
    let holding = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        dir.starts_with(point).then_some((point.len(), kind))
    });
    holding.max().map(|(_, kind)| kind.to_owned())
}

fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// The processors' time since the start of the machine, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// Now.
    pub(crate) fn now() -> Self {
        let stat = text("/proc/stat").expect("this is Linux");
        let line = stat.lines().next().expect("the first line counts all");
        let fields = line.split_whitespace().skip(1);
        let fields: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is part of user.
        Self {
            all: fields.iter().take(8).sum(),
            stolen: fields.get(7).copied().unwrap_or_default(),
        }
    }

    /// The part of the processors' time since `before` that the hypervisor gave to others, in
    /// percent.
    pub(crate) fn stolen_percent_since(&self, before: &Self) -> f64 {
        let part = |ticks: u64| f64::from(u32::try_from(ticks).unwrap_or(u32::MAX));
        let all = part(self.all - before.all).max(1.0);
        100.0 * part(self.stolen - before.stolen) / all
    }
}
