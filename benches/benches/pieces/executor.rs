//! Executors set up as the broker sets up those of its cores.

use felix_bench::system_clock::SystemClock;
use felix_net::Reactor;
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};
use std::rc::Rc;
use std::time::Duration;

/// As the broker's: its memory and its timer decide what a turn of the executor costs.
pub(crate) fn builder(placement: Placement) -> LocalExecutorBuilder {
    LocalExecutorBuilder::new(placement)
        .io_memory(64 << 10)
        .preempt_timer(Duration::from_micros(200))
}

/// One for the calling thread, wherever that runs.
pub(crate) fn here() -> LocalExecutor {
    builder(Placement::Unbound)
        .make()
        .expect("the kernel has io_uring, without which there is no broker either")
}

/// A reactor without sockets, and the task that runs it: it decides how the executor waits.
pub(crate) struct Sockets {
    pub(crate) reactor: Reactor,
    task: glommio::Task<()>,
}

impl Sockets {
    /// Starts it on the calling core's executor, which then looks for work for `vigil` before it
    /// sleeps.
    pub(crate) fn start(vigil: Duration) -> Self {
        let reactor = Reactor::watchful(vigil, Rc::new(SystemClock))
            .expect("the process may open another descriptor");
        Self {
            task: glommio::spawn_local(reactor.run()),
            reactor,
        }
    }

    /// Ends it; an executor may not end before.
    pub(crate) async fn end(self) {
        self.reactor.stop();
        self.task.await;
    }
}
