//! The executor of a core: one pinned thread, set up alike for the broker and for programs that
//! measure its engine.

use crate::device_waiters;
use crate::giving_way::giving_way;
use felix_core::limits::{OPENING_THREADS_MAX, THREADS_OF_APPENDS_MAX};
use felix_core::{CpuId, Timer};
use glommio::{LocalExecutorBuilder, Placement, PoolPlacement};
use std::ffi::CString;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Memory that glommio registers with each ring. The least it takes: our sockets do not use it,
/// and files little.
const IO_MEMORY_BYTES: usize = 64 << 10;

/// How soon a task that runs on is asked to make way. The default of 100 ms would be the tail
/// latency of everything beside it.
const PREEMPT_TIMER: Duration = Duration::from_micros(200);

/// Threads of a core for file work that is not on the ring: a sync of a directory after a roll, a
/// small file replaced. A shard has `FILE_WORK_PER_SHARD_MAX` such pieces of work under way at most, so a
/// device that is stuck under a few leaves the others threads; and what is done for appends and ahead of
/// flushes, by however many shards of a device, leaves some to what somebody waits for, and so do openings.
const BLOCKING_THREADS: usize = 40;

/// A removal on its device and one that is late, a look at what is free, and a note of a failure.
const OTHER_THREADS: usize = 4;

const _: () =
    assert!(THREADS_OF_APPENDS_MAX + OPENING_THREADS_MAX + OTHER_THREADS < BLOCKING_THREADS);

/// Runs `life` to its end on the calling thread, which is the core's from here on and is kept on
/// the processor.
///
/// # Errors
/// A sentence: there is no ring, or the processor is not to be had.
pub(crate) fn run<T>(core: CpuId, cpu: usize, life: impl Future<Output = T>) -> Result<T, String> {
    // Not `spawn`: it would name the thread with a number of its own. The blocking threads stay
    // where this thread was before it is pinned: on the processors left to side threads. They
    // inherit the name it has meanwhile, and how it is scheduled.
    device_waiters::allow().map_err(|error| format!("no io_uring: {error}"))?;
    name_this_thread("block", core)?;
    let executor = LocalExecutorBuilder::new(Placement::Fixed(cpu))
        .blocking_thread_pool_placement(PoolPlacement::Unbound(BLOCKING_THREADS))
        .io_memory(IO_MEMORY_BYTES)
        .preempt_timer(PREEMPT_TIMER);
    let executor = giving_way(|| executor.make())
        .map_err(|error| format!("no executor on processor {cpu}: {error}"))?;
    name_this_thread("core", core)?;
    Ok(executor.run(life))
}

/// A task of the core; dropping it ends it.
pub(crate) type Task<T> = glommio::Task<T>;

/// Starts a task on the calling core.
pub(crate) fn spawn<T: 'static>(work: impl Future<Output = T> + 'static) -> Task<T> {
    glommio::spawn_local(work)
}

/// Resolves after `pause`, on the calling core.
pub(crate) async fn pause(pause: Duration) {
    glommio::timer::sleep(pause).await;
}

/// [`pause`], for those who know no runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreTimer;

impl Timer for CoreTimer {
    fn sleep(&self, wait: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(pause(wait))
    }
}

fn name_this_thread(kind: &str, core: CpuId) -> Result<(), String> {
    let name = CString::new(format!("felix-{kind}-{core}")).expect("no zero byte");
    rustix::thread::set_name(&name).map_err(|error| format!("a thread cannot be named: {error}"))
}
