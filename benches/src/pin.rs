//! A thread kept on one processor for a while.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The calling thread stays on one processor for as long as this lives. What it starts meanwhile
/// stays there too, so processes are started outside of it.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Panics if the processor is not ours.
    pub(crate) fn to(cpu: usize) -> Self {
        let before = sched_getaffinity(None).expect("a thread may ask where it may run");
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one)
            .unwrap_or_else(|error| panic!("processor {cpu} is not to be had: {error}"));
        Self { before }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        sched_setaffinity(None, &self.before).expect("it was allowed before");
    }
}
