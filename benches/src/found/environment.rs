//! Where a run took place.

use std::fs;
use std::path::{Path, PathBuf};

/// Words of the kernel's command line that change latencies; others may name a machine.
const KERNEL_WORDS: [&str; 18] = [
    "isolcpus",
    "nohz",
    "nohz_full",
    "rcu_nocbs",
    "irqaffinity",
    "idle",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "cpuidle.off",
    "cpuidle_haltpoll.force",
    "haltpoll.guest_halt_poll_ns",
    "intel_pstate",
    "amd_pstate",
    "mitigations",
    "nosmt",
    "preempt",
    "threadirqs",
    "transparent_hugepage",
];

/// Options of a mount that have a value and name neither a place nor a person.
const MOUNT_OPTIONS: [&str; 12] = [
    "data",
    "commit",
    "barrier",
    "stripe",
    "logbufs",
    "logbsize",
    "allocsize",
    "compress",
    "rsize",
    "wsize",
    "vers",
    "proto",
];

/// Facts of the machine that figures depend on, by name, in the order they are shown.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `("kernel", "6.18.44")` and so on.
    pub facts: Vec<(String, String)>,
}

impl Environment {
    /// This machine; `dir` is where the data lies, if it lies here. Nothing in it names the
    /// machine, a person or a place. What cannot be seen is left out.
    #[must_use]
    pub fn look(dir: Option<&Path>) -> Self {
        let dir = dir.and_then(|dir| dir.canonicalize().ok());
        Self::under(Path::new("/"), dir.as_deref())
    }

    /// The machine whose `/proc` and `/sys` lie under `root`.
    fn under(root: &Path, dir: Option<&Path>) -> Self {
        let tree = Tree(root);
        let disk = dir.and_then(|dir| Mount::of(&tree, dir));
        let facts = [
            ("kernel", tree.text("proc/sys/kernel/osrelease")),
            ("processor", tree.cpuinfo("model name")),
            ("processors", processors(&tree)),
            ("machine", kind(&tree)),
            ("SMT", smt(&tree)),
            ("NUMA nodes", numa_nodes(&tree)),
            ("frequency governor", governor(&tree)),
            ("turbo", turbo(&tree)),
            ("idling", idling(&tree)),
            ("mitigations", mitigations(&tree)),
            ("kernel command line", command_line(&tree)),
            ("clock source", tree.text(CLOCK_SOURCE)),
            ("transparent huge pages", chosen(tree.text(HUGE_PAGES))),
            ("memory", memory(&tree)),
            ("file system", disk.as_ref().map(Mount::to_text)),
            ("device", disk.and_then(|disk| disk.device(&tree))),
            ("loopback MTU", tree.text("sys/class/net/lo/mtu")),
            ("load before", load(&tree)),
            ("stolen before", stolen(&tree)),
            ("felix-bench", Some(build())),
        ];
        let facts = facts
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Self {
            facts: facts.collect(),
        }
    }

    /// The fact of that name.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&str> {
        let (_, value) = self.facts.iter().find(|(known, _)| known == name)?;
        Some(value)
    }
}

const CLOCK_SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const CPU: &str = "sys/devices/system/cpu";
const NOT_SEEN: &str = "not to be seen";

/// Where `/proc` and `/sys` are.
struct Tree<'a>(&'a Path);

impl Tree<'_> {
    /// The text of a file, trimmed; none where there is no such file, or nothing in it.
    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = fs::read_to_string(self.0.join(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn cpu(&self, path: &str) -> Option<String> {
        self.text(format!("{CPU}/{path}"))
    }

    /// A field of the first processor.
    fn cpuinfo(&self, name: &str) -> Option<String> {
        field(&self.text("proc/cpuinfo")?, name)
    }

    /// Names in a directory, sorted.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(path)).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

/// The value of a line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        (known.trim() == name).then(|| value.trim())
    })?;
    Some(value.to_owned())
}

fn processors(tree: &Tree) -> Option<String> {
    let online = tree.cpu("online")?;
    let mut text = format!("{} online ({online})", listed(&online)?);
    let status = tree.text("proc/self/status");
    if let Some(usable) = status.and_then(|status| field(&status, "Cpus_allowed_list"))
        && usable != online
    {
        text += &format!(", {usable} usable");
    }
    let limit = tree.text("sys/fs/cgroup/cpu.max");
    if let Some(limit) = limit.filter(|limit| !limit.starts_with("max")) {
        text += &format!(", limited to {limit} us");
    }
    Some(text)
}

/// How many numbers a list like `0-3,8` has.
fn listed(list: &str) -> Option<usize> {
    let mut count = 0;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count += last.checked_sub(first)? + 1;
    }
    Some(count)
}

fn kind(tree: &Tree) -> Option<String> {
    let flags = tree.cpuinfo("flags")?;
    let is_virtual = flags.split(' ').any(|flag| flag == "hypervisor");
    Some(if is_virtual { "virtual" } else { "physical" }.to_owned())
}

fn smt(tree: &Tree) -> Option<String> {
    let word = match tree.cpu("smt/active")?.as_str() {
        "0" => "off",
        _ => "on",
    };
    Some(word.to_owned())
}

fn numa_nodes(tree: &Tree) -> Option<String> {
    let online = tree.text("sys/devices/system/node/online")?;
    Some(listed(&online)?.to_string())
}

fn governor(tree: &Tree) -> Option<String> {
    let governor = tree.cpu("cpu0/cpufreq/scaling_governor");
    Some(governor.unwrap_or_else(|| NOT_SEEN.to_owned()))
}

fn turbo(tree: &Tree) -> Option<String> {
    let no_turbo = tree.cpu("intel_pstate/no_turbo").map(|no| no == "0");
    let boost = || tree.cpu("cpufreq/boost").map(|boost| boost != "0");
    Some(match no_turbo.or_else(boost) {
        Some(true) => "on".to_owned(),
        Some(false) => "off".to_owned(),
        None => NOT_SEEN.to_owned(),
    })
}

fn idling(tree: &Tree) -> Option<String> {
    let driver = tree.cpu("cpuidle/current_driver")?;
    let states = tree.names(&format!("{CPU}/cpu0/cpuidle"));
    let states = states
        .iter()
        .filter_map(|state| tree.cpu(&format!("cpu0/cpuidle/{state}/name")));
    let states: Vec<String> = states.collect();
    Some(format!("{driver} ({})", states.join(", ")))
}

/// Which flaws of the processor are worked around, and which are open; most do not apply.
fn mitigations(tree: &Tree) -> Option<String> {
    let (mut mitigated, mut vulnerable) = (Vec::new(), Vec::new());
    let names = tree.names(&format!("{CPU}/vulnerabilities"));
    for name in &names {
        let state = tree.cpu(&format!("vulnerabilities/{name}"))?;
        if state.starts_with("Mitigation") {
            mitigated.push(name.as_str());
        } else if !state.starts_with("Not affected") {
            vulnerable.push(name.as_str());
        }
    }
    let named = |what: &str, names: &[&str]| match names {
        [] => format!("{what} none"),
        names => format!("{what} {}", names.join(" ")),
    };
    (!names.is_empty()).then(|| {
        let mitigated = named("mitigated:", &mitigated);
        format!("{mitigated}; {}", named("vulnerable:", &vulnerable))
    })
}

fn command_line(tree: &Tree) -> Option<String> {
    let line = tree.text("proc/cmdline")?;
    let words = line.split_whitespace().filter(|word| {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        KERNEL_WORDS.contains(&name)
    });
    let words: Vec<&str> = words.collect();
    let none = "nothing that changes latencies".to_owned();
    Some(if words.is_empty() {
        none
    } else {
        words.join(" ")
    })
}

/// The word in brackets of a list in which the chosen one has them.
fn chosen(list: Option<String>) -> Option<String> {
    let list = list?;
    let inside = list.split_once('[').and_then(|(_, rest)| {
        let (word, _) = rest.split_once(']')?;
        Some(word.to_owned())
    });
    Some(inside.unwrap_or(list))
}

fn memory(tree: &Tree) -> Option<String> {
    let total = field(&tree.text("proc/meminfo")?, "MemTotal")?;
    let kib: u32 = total.split(' ').next()?.parse().ok()?;
    Some(format!("{:.1} GiB", f64::from(kib) / f64::from(1 << 20)))
}

fn load(tree: &Tree) -> Option<String> {
    let load = tree.text("proc/loadavg")?;
    Some(format!("{} (one minute)", load.split(' ').next()?))
}

/// What the host took since the machine started.
fn stolen(tree: &Tree) -> Option<String> {
    let stat = tree.text("proc/stat")?;
    let fields = stat.lines().next()?.split_whitespace().skip(1);
    let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is part of user.
    let all: f64 = ticks.iter().take(8).sum();
    let percent = 100.0 * ticks.get(7)? / all.max(1.0);
    Some(format!("{percent:.2} % since the machine started"))
}

fn build() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let profile = if cfg!(debug_assertions) {
        ", not optimised"
    } else {
        ""
    };
    match option_env!("FELIX_BENCH_COMMIT") {
        Some(commit) => format!("{version} (commit {commit}){profile}"),
        None => format!("{version}{profile}"),
    }
}

/// What holds a directory.
struct Mount {
    device: String,
    kind: String,
    source: String,
    options: Vec<String>,
}

impl Mount {
    /// The mount with the longest matching place; of equals the last, which covers the others.
    fn of(tree: &Tree, dir: &Path) -> Option<Self> {
        let mounts = tree.text("proc/self/mountinfo")?;
        let holding = mounts.lines().filter_map(|line| {
            // Some number of optional fields ends with a lone dash.
            let (before, after) = line.split_once(" - ")?;
            let before: Vec<&str> = before.split(' ').collect();
            let place = before.get(4)?;
            dir.starts_with(place)
                .then(|| Some((place.len(), Self::parse(&before, after)?)))?
        });
        let (_, mount) = holding.max_by_key(|(length, _)| *length)?;
        Some(mount)
    }

    fn parse(before: &[&str], after: &str) -> Option<Self> {
        let mut after = after.split(' ');
        let (kind, source) = (after.next()?, after.next()?);
        let mut options = Vec::new();
        for option in before.get(5)?.split(',').chain(after.next()?.split(',')) {
            let is_shown = option
                .split_once('=')
                .is_none_or(|(name, _)| MOUNT_OPTIONS.contains(&name));
            if is_shown && !options.iter().any(|known| known == option) {
                options.push(option.to_owned());
            }
        }
        Some(Self {
            device: (*before.get(2)?).to_owned(),
            kind: kind.to_owned(),
            source: source.to_owned(),
            options,
        })
    }

    fn to_text(&self) -> String {
        format!("{} ({})", self.kind, self.options.join(","))
    }

    /// The block device beneath, if there is just one.
    fn device(&self, tree: &Tree) -> Option<String> {
        let by_number = PathBuf::from(format!("sys/dev/block/{}", self.device));
        // File systems over several devices have numbers of their own, but name one as source.
        let name = Path::new(&self.source).file_name()?;
        let by_name = Path::new("sys/class/block").join(name);
        let place = [by_number, by_name]
            .into_iter()
            .find_map(|path| tree.0.join(path).canonicalize().ok())?;
        // A partition lies in the directory of its disk.
        let disk = [place.as_path(), place.parent()?]
            .into_iter()
            .find(|path| path.join("queue").is_dir())?;
        let mut facts = vec![disk.file_name()?.to_str()?.to_owned()];
        facts.extend(tree.text(disk.join("device/model")));
        let spins = tree.text(disk.join("queue/rotational"))? == "1";
        facts.push(
            if spins {
                "rotational"
            } else {
                "not rotational"
            }
            .to_owned(),
        );
        if let Some(scheduler) = chosen(tree.text(disk.join("queue/scheduler"))) {
            facts.push(format!("scheduler {scheduler}"));
        }
        if let Some(cache) = tree.text(disk.join("queue/write_cache")) {
            facts.push(format!("cache {cache}"));
        }
        Some(facts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn this_machine_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let seen = Environment::look(Some(dir.path()));
        for name in ["kernel", "processors", "file system", "felix-bench"] {
            assert!(seen.fact(name).is_some(), "no {name} in {seen:?}");
        }
        let text = format!("{seen:?}");
        assert!(!text.contains(dir.path().to_str().unwrap()), "{text}");
    }

    #[test]
    fn a_machine_without_facts_has_only_what_is_not_to_be_seen() {
        let root = machine(&[]);
        let seen = Environment::under(root.path(), Some(Path::new("/data")));
        let names: Vec<&str> = seen.facts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["frequency governor", "turbo", "felix-bench"]);
        assert_eq!(seen.fact("turbo"), Some(NOT_SEEN));
    }

    #[test]
    fn only_words_that_change_latencies_are_taken_from_the_command_line() {
        let root = machine(&[(
            "proc/cmdline",
            "root=UUID=12 host=secret isolcpus=2,3 nosmt mitigations=off token=abc\n",
        )]);
        let seen = Environment::under(root.path(), None);
        let line = seen.fact("kernel command line");
        assert_eq!(line, Some("isolcpus=2,3 nosmt mitigations=off"));
    }

    #[test]
    fn flaws_of_the_processor_are_one_line() {
        let flaws = "sys/devices/system/cpu/vulnerabilities";
        let root = machine(&[
            (&format!("{flaws}/meltdown"), "Not affected\n"),
            (&format!("{flaws}/spectre_v2"), "Mitigation: Retpolines\n"),
            (
                &format!("{flaws}/srso"),
                "Vulnerable: Safe RET, no microcode\n",
            ),
        ]);
        let seen = Environment::under(root.path(), None);
        let line = seen.fact("mitigations");
        assert_eq!(line, Some("mitigated: spectre_v2; vulnerable: srso"));
    }

    #[test]
    fn the_innermost_file_system_and_its_disk_are_told_without_places_or_persons() {
        let queue = "sys/class/block/sda/queue";
        let root = machine(&[
            (
                "proc/self/mountinfo",
                "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                 2 1 0:9 / /data rw,noatime shared:1 - xfs /dev/sda rw,logbsize=32k,user=bob\n\
                 3 1 0:8 / /data2 rw - tmpfs none rw\n",
            ),
            (&format!("{queue}/rotational"), "0\n"),
            (&format!("{queue}/scheduler"), "none [mq-deadline]\n"),
            (&format!("{queue}/write_cache"), "write back\n"),
        ]);
        let seen = Environment::under(root.path(), Some(Path::new("/data/felix")));
        let told = seen.fact("file system");
        assert_eq!(told, Some("xfs (rw,noatime,logbsize=32k)"));
        let told = seen.fact("device");
        let disk = "sda, not rotational, scheduler mq-deadline, cache write back";
        assert_eq!(told, Some(disk));
    }

    #[test]
    fn processors_out_of_reach_are_told_apart() {
        let root = machine(&[
            ("sys/devices/system/cpu/online", "0-3,8\n"),
            ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1\n"),
            ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
        ]);
        let seen = Environment::under(root.path(), None);
        let told = "5 online (0-3,8), 0-1 usable, limited to 150000 100000 us";
        assert_eq!(seen.fact("processors"), Some(told));
    }
}
