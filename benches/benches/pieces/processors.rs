//! Two processors, for what happens between two threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::thread;

/// The first two processors on which this process may run; `None`: there is one.
pub(crate) fn two() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).expect("the kernel tells this process about itself");
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    Some([cpus.next()?, cpus.next()?])
}

/// Keeps the calling thread on a processor.
pub(crate) fn pin(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).expect("this process may run there");
}

/// Does `work` on a thread of its own that stays on a processor.
pub(crate) fn on<T: Send>(cpu: usize, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(cpu);
            work()
        });
        thread.join().expect("what it found wrong has been said")
    })
}
