//! Which processors the broker's cores are pinned to, and which are left to its side threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;

/// Physical cores from which on one of them is left to side threads and the kernel.
const PHYSICAL_CORES_TO_SPARE_ONE: usize = 4;

/// Processors by the kernel's numbers, each once, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CpuList(Vec<usize>);

impl CpuList {
    /// Reads `0,2-3`.
    ///
    /// # Errors
    /// What is wrong with the text, as the end of a sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            for cpu in Self::range(part.trim())? {
                if cpus.contains(&cpu) {
                    return Err(format!("names processor {cpu} twice"));
                }
                cpus.push(cpu);
            }
        }
        Ok(Self(cpus))
    }

    fn range(part: &str) -> Result<std::ops::RangeInclusive<usize>, String> {
        let number = |text: &str| {
            let cpu = text
                .trim()
                .parse()
                .ok()
                .filter(|cpu| *cpu < CpuSet::MAX_CPU);
            cpu.ok_or_else(|| {
                let last = CpuSet::MAX_CPU - 1;
                format!("is not a list of processors from 0 to {last}, such as 0,2-3")
            })
        };
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first <= last {
            Ok(first..=last)
        } else {
            Err(format!(
                "has the range {first}-{last}, which runs backwards"
            ))
        }
    }

    fn of(cpus: impl IntoIterator<Item = usize>) -> Self {
        Self(cpus.into_iter().collect())
    }

    /// How many there are: of each a core.
    #[must_use]
    pub(crate) fn count(&self) -> u16 {
        u16::try_from(self.0.len()).expect("a CPU list has few entries")
    }

    /// The processors.
    #[must_use]
    pub(crate) fn cpus(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

/// What the machine has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Readings {
    /// The processors this process may run on.
    pub(crate) allowed: BTreeSet<usize>,
    /// The processors of each physical core, lowest first.
    pub(crate) physical: Vec<BTreeSet<usize>>,
}

/// What the broker does with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// One pinned thread each, in the order of the broker's cores.
    pub(crate) pinned: CpuList,
    /// Where side threads run; empty: wherever the process may.
    pub(crate) side: CpuList,
    /// Why, for the log.
    pub(crate) reason: String,
}

/// Chooses processors: the ones asked for, or the default.
///
/// From four physical cores up the default leaves out the core with the lowest numbers, because
/// that is where the kernel puts interrupts and housekeeping, and takes one processor of each
/// other, because SMT siblings share a core's execution units and with them its tail latency.
/// Smaller machines have no core to spare, so every allowed processor is taken.
///
/// # Errors
/// A sentence: a processor asked for does not exist or may not be used.
pub(crate) fn choose(asked: Option<&CpuList>, readings: &Readings) -> Result<Choice, String> {
    let (pinned, reason) = match asked {
        Some(list) => {
            permitted(list, &readings.allowed)?;
            (list.clone(), "FELIX_CORES says so".to_owned())
        }
        None => default(readings),
    };
    if pinned.0.is_empty() {
        return Err("this process may run on no processor".into());
    }
    Ok(Choice {
        side: left_over(&pinned, readings),
        pinned,
        reason,
    })
}

fn permitted(list: &CpuList, allowed: &BTreeSet<usize>) -> Result<(), String> {
    match list.0.iter().find(|cpu| !allowed.contains(*cpu)) {
        None => Ok(()),
        Some(cpu) => Err(format!(
            "FELIX_CORES={list} names processor {cpu}, which this process may not run on; it may \
             run on {}",
            CpuList::of(allowed.iter().copied())
        )),
    }
}

/// The lowest allowed processor of each physical core that has one, lowest first.
fn default(readings: &Readings) -> (CpuList, String) {
    let mut first_of_each: Vec<usize> = readings
        .physical
        .iter()
        .filter_map(|core| core.intersection(&readings.allowed).next().copied())
        .collect();
    first_of_each.sort_unstable();
    if first_of_each.len() >= PHYSICAL_CORES_TO_SPARE_ONE {
        let spared = first_of_each.remove(0);
        let reason = format!(
            "one processor of each physical core, the one of processor {spared} left to side \
             threads"
        );
        return (CpuList(first_of_each), reason);
    }
    let reason = format!(
        "all allowed processors, {} physical cores",
        first_of_each.len()
    );
    (CpuList::of(readings.allowed.iter().copied()), reason)
}

/// Allowed processors that disturb no pinned one; where there is none, those that only share a
/// physical core with one.
fn left_over(pinned: &CpuList, readings: &Readings) -> CpuList {
    let pinned: BTreeSet<usize> = pinned.0.iter().copied().collect();
    let busy: BTreeSet<usize> = readings
        .physical
        .iter()
        .filter(|core| !core.is_disjoint(&pinned))
        .flatten()
        .copied()
        .collect();
    let free = |taken: &BTreeSet<usize>| {
        CpuList::of(
            readings
                .allowed
                .iter()
                .copied()
                .filter(|cpu| !pinned.contains(cpu) && !taken.contains(cpu)),
        )
    };
    let apart = free(&busy);
    if apart.0.is_empty() {
        free(&BTreeSet::new())
    } else {
        apart
    }
}

/// Reads the affinity of this process and the machine's topology.
///
/// # Errors
/// The kernel does not tell.
pub(crate) fn read() -> io::Result<Readings> {
    let affinity = sched_getaffinity(None)?;
    let allowed: BTreeSet<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| affinity.is_set(*cpu))
        .collect();
    let mut physical: Vec<BTreeSet<usize>> = Vec::new();
    for cpu in &allowed {
        let core = siblings(*cpu);
        if !physical.contains(&core) {
            physical.push(core);
        }
    }
    Ok(Readings { allowed, physical })
}

/// The processors of a physical core. Where the kernel does not say (no sysfs in a container),
/// each processor counts as a core.
fn siblings(cpu: usize) -> BTreeSet<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = fs::read_to_string(path)
        .ok()
        .and_then(|text| CpuList::parse(&text).ok());
    list.map_or_else(
        || BTreeSet::from([cpu]),
        |list| list.0.into_iter().collect(),
    )
}

/// Keeps the calling thread, and the threads it will start, on these processors. Nothing for an
/// empty list.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn confine(cpus: &CpuList) -> io::Result<()> {
    if cpus.0.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in &cpus.0 {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> CpuList {
        CpuList::parse(text).unwrap()
    }

    /// A machine whose physical cores have the given processors.
    fn machine(cores: &[&str], allowed: &str) -> Readings {
        let set = |text: &str| list(text).0.into_iter().collect();
        Readings {
            allowed: set(allowed),
            physical: cores.iter().map(|core| set(core)).collect(),
        }
    }

    #[test]
    fn a_list_keeps_its_order_and_each_processor_once() {
        assert_eq!(list("4,0, 2-3").cpus(), [4, 0, 2, 3]);
        assert_eq!(list("0-0\n").cpus(), [0]);
        for (text, fault) in [
            ("", "not a list"),
            ("0,", "not a list"),
            ("a", "not a list"),
            ("-1", "not a list"),
            ("5000", "not a list"),
            ("0-99999999999", "not a list"),
            ("3-2", "backwards"),
            ("1,0-2", "processor 1 twice"),
        ] {
            let error = CpuList::parse(text).unwrap_err();
            assert!(error.contains(fault), "{text}: {error}");
        }
    }

    #[test]
    fn four_physical_cores_spare_the_first_and_use_no_siblings() {
        let readings = machine(&["0,4", "1,5", "2,6", "3,7"], "0-7");
        let choice = choose(None, &readings).unwrap();
        assert_eq!(choice.pinned, list("1-3"));
        assert_eq!(choice.side, list("0,4"));
    }

    #[test]
    fn fewer_than_four_physical_cores_are_all_used() {
        let choice = choose(None, &machine(&["0", "1"], "0-1")).unwrap();
        assert_eq!(choice.pinned, list("0-1"));
        assert!(choice.side.cpus().is_empty());
        let choice = choose(None, &machine(&["0,1", "2,3"], "0-3")).unwrap();
        assert_eq!(choice.pinned, list("0-3"));
    }

    #[test]
    fn processors_the_process_may_not_use_are_neither_taken_nor_asked_for() {
        let cores = ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13"];
        let readings = machine(&cores, "2-5,9");
        let choice = choose(None, &readings).unwrap();
        assert_eq!(
            choice.pinned,
            list("3-5,9"),
            "processor 2 holds the first core of five"
        );
        assert_eq!(choice.side, list("2"));
        let error = choose(Some(&list("2,0")), &readings).unwrap_err();
        assert!(
            error.contains("processor 0") && error.contains("2,3,4,5,9"),
            "{error}"
        );
    }

    #[test]
    fn what_is_asked_for_is_taken_in_that_order() {
        let readings = machine(&["0", "1", "2", "3"], "0-3");
        let choice = choose(Some(&list("2,1")), &readings).unwrap();
        assert_eq!(choice.pinned, list("2,1"));
        assert_eq!(choice.side, list("0,3"));
    }

    #[test]
    fn siblings_serve_side_threads_where_nothing_else_is_left() {
        let readings = machine(&["0,2", "1,3"], "0-3");
        let choice = choose(Some(&list("0,1")), &readings).unwrap();
        assert_eq!(choice.side, list("2,3"));
    }

    #[test]
    fn this_machine_can_be_read() {
        let readings = read().unwrap();
        assert!(!readings.allowed.is_empty());
        assert!(choose(None, &readings).is_ok());
    }
}
