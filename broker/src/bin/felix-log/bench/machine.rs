//! Where a figure was measured.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// What figures depend on. Nothing in it names the machine, a person or a place.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    processor: String,
    processors: usize,
    cpus: Vec<usize>,
    kernel: String,
    file_system: String,
    memory: String,
}

impl Machine {
    /// This one, with the files in `dir`.
    pub(crate) fn look(dir: &Path, cpus: &[usize]) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let unknown = || "not to be seen".to_owned();
        let mounts = text("/proc/self/mountinfo");
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        Self {
            processor: field(&text("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            processors: allowed().len(),
            cpus: cpus.to_vec(),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            file_system: file_system(&mounts, &dir).unwrap_or_else(unknown),
            memory: field(&text("/proc/meminfo"), "MemTotal").unwrap_or_else(unknown),
        }
    }

    /// In a line.
    pub(crate) fn words(&self) -> String {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        format!(
            "{}, {} processors usable, measured on {}; {} of memory; Linux {}; {}; {}",
            self.processor,
            self.processors,
            cpus.join(", "),
            self.memory,
            self.kernel,
            self.file_system,
            build()
        )
    }

    /// For JSON.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "type": "machine",
            "processor": self.processor,
            "processors": self.processors,
            "measured_on": self.cpus,
            "memory": self.memory,
            "kernel": self.kernel,
            "file_system": self.file_system,
            "felix_log": build(),
        })
    }
}

fn build() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match cfg!(debug_assertions) {
        true => format!("felix-log {version}, NOT OPTIMISED"),
        false => format!("felix-log {version}"),
    }
}

/// The value of a line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        (known.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Kind and options of what holds `dir`: the mount with the longest place, and of equals the last.
fn file_system(mounts: &str, dir: &Path) -> Option<String> {
    let holding = mounts.lines().filter_map(|line| {
        // Some number of optional fields ends with a lone dash.
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let (place, options) = (before.get(4)?, before.get(5)?);
        let mut after = after.split(' ');
        let (kind, own) = (after.next()?, after.nth(1).unwrap_or_default());
        // Options with a value may name a place or a person.
        let mut words: Vec<&str> = options.split(',').chain(own.split(',')).collect();
        words.retain(|word| !word.contains('='));
        words.sort_unstable();
        words.dedup();
        dir.starts_with(place)
            .then(|| (place.len(), format!("{kind} ({})", words.join(","))))
    });
    let (_, words) = holding.max_by_key(|(length, _)| *length)?;
    Some(words)
}

/// The processors that this process may use, in rising order.
pub(crate) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

/// The processors of `all` for threads beside those on `cpus`, as a broker has it: the others, or all
/// where there are no others.
pub(crate) fn beside(cpus: &[usize], all: &[usize]) -> Vec<usize> {
    let others = all.iter().copied();
    let others: Vec<usize> = others.filter(|cpu| !cpus.contains(cpu)).collect();
    match others.is_empty() {
        true => all.to_vec(),
        false => others,
    }
}

/// Keeps the calling thread on these processors.
pub(crate) fn keep_on(cpus: &[usize]) -> Result<(), String> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).map_err(|error| format!("processors {cpus:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let mounts = "24 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard,who=me\n\
                      30 24 0:5 / /data rw,noatime - xfs /dev/vdb rw\n";
        let of = |dir| file_system(mounts, Path::new(dir));
        assert_eq!(of("/data/x").as_deref(), Some("xfs (noatime,rw)"));
        assert_eq!(
            of("/database").as_deref(),
            Some("ext4 (discard,relatime,rw)")
        );
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn this_machine_is_seen_and_not_named() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::look(dir.path(), &[allowed()[0]]);
        let words = machine.words();
        assert!(
            words.contains("Linux ") && !words.contains(dir.path().to_str().unwrap()),
            "{words}"
        );
        assert!(machine.processors > 0 && !machine.kernel.is_empty());
    }
}
