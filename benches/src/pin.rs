//! Keeping a thread on one processor.

use crate::problem::Problem;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::sync::OnceLock;

/// Processors of the process before any of its threads was pinned.
static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();

/// The processors that this process may run on, by the kernel's numbers, in rising order: those
/// that it was started with, whatever the calling thread is pinned to. Empty if the kernel does
/// not say.
pub fn allowed() -> Vec<usize> {
    ALLOWED
        .get_or_init(|| {
            let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
            (0..CpuSet::MAX_CPU)
                .filter(|cpu| set.is_set(*cpu))
                .collect()
        })
        .clone()
}

/// Keeps the calling thread on a processor from here on, and the threads and processes that it
/// starts.
///
/// # Errors
/// The processor is not one of [`allowed`].
pub fn to(cpu: usize) -> Result<(), Problem> {
    check(cpu)?;
    keep(&[cpu]).map_err(|error| Problem::new(format!("processor {cpu} cannot be used: {error}")))
}

/// Lets the calling thread run on all of [`allowed`] again.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn free() -> io::Result<()> {
    keep(&allowed())
}

/// Whether a thread could be kept there.
///
/// # Errors
/// The processor is not one of [`allowed`].
pub fn check(cpu: usize) -> Result<(), Problem> {
    let allowed = allowed();
    if allowed.contains(&cpu) {
        return Ok(());
    }
    let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
    Err(Problem::new(format!(
        "processor {cpu} is none that this program may use; there are {}",
        list.join(", ")
    )))
}

fn keep(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getcpu;
    use std::thread;

    #[test]
    fn a_thread_stays_where_it_is_pinned_until_it_is_freed() {
        let last = *allowed().last().unwrap();
        let pinned = thread::spawn(move || {
            to(last).unwrap();
            let set = sched_getaffinity(None).unwrap();
            assert_eq!((set.count(), sched_getcpu()), (1, last));
            free().unwrap();
            sched_getaffinity(None).unwrap().count()
        });
        let count = usize::try_from(pinned.join().unwrap()).unwrap();
        assert_eq!(count, allowed().len());
    }

    #[test]
    fn what_is_allowed_does_not_change_with_the_threads_that_ask() {
        let before = allowed();
        let inside = thread::spawn(|| {
            to(allowed()[0]).unwrap();
            allowed()
        });
        assert_eq!(inside.join().unwrap(), before);
    }

    #[test]
    fn a_processor_that_is_not_ours_is_named_with_those_that_are() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            let problem = to(cpu).unwrap_err().to_string();
            assert!(problem.contains(&format!("processor {cpu} ")), "{problem}");
            let first = allowed()[0].to_string();
            assert!(problem.contains(&first), "{problem}");
        }
    }
}
