//! What a core asks of its executor: tasks, pauses, and work aside. Behind it stands glommio; where
//! the thread runs a simulation, an executor on virtual time.

#[cfg(test)]
pub(crate) mod broken;
#[cfg(test)]
pub(crate) mod simulated;

use crate::suspect::carry;
use felix_core::limits::AGE_SECONDS_MAX;
use std::future::Future;
use std::time::Duration;

/// A task of this core. Awaiting it brings its result; dropping it ends it.
#[derive(Debug)]
pub(crate) enum Task<T> {
    Real(glommio::Task<T>),
    #[cfg(test)]
    Simulated(simulated::Task<T>),
}

impl<T> Task<T> {
    /// Lets it run to its end by itself.
    pub(crate) fn detach(self) {
        match self {
            Self::Real(task) => {
                drop(task.detach());
            }
            #[cfg(test)]
            Self::Simulated(task) => task.detach(),
        }
    }

    /// Its result.
    pub(crate) async fn join(self) -> T {
        match self {
            Self::Real(task) => task.await,
            #[cfg(test)]
            Self::Simulated(task) => task.await,
        }
    }
}

/// Starts a task on this core.
pub(crate) fn spawn_local<T: 'static>(work: impl Future<Output = T> + 'static) -> Task<T> {
    #[cfg(test)]
    if let Some(simulation) = simulated::current() {
        return Task::Simulated(simulation.spawn(work));
    }
    Task::Real(glommio::spawn_local(work))
}

/// What is due later than this, some centuries, is due then: the executor's clock cannot tell of all
/// times that can be asked for.
const PAUSE_MAX: Duration = Duration::from_secs(AGE_SECONDS_MAX);

/// Resolves after `pause`.
pub(crate) async fn sleep(pause: Duration) {
    #[cfg(test)]
    if let Some(simulation) = simulated::current() {
        return simulation.sleep(pause).await;
    }
    glommio::timer::sleep(pause.min(PAUSE_MAX)).await;
}

/// Does what blocks on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    #[cfg(test)]
    if simulated::current().is_some() {
        crate::event::step_aside().await;
        return work();
    }
    glommio::executor().spawn_blocking(carry(work)).await
}

/// Lets other tasks of this core run, if this one has used up its share.
pub async fn breathe() {
    #[cfg(test)]
    if simulated::current().is_some() {
        return crate::event::step_aside().await;
    }
    glommio::yield_if_needed().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use glommio::{LocalExecutorBuilder, Placement};

    #[test]
    fn a_sleep_beyond_what_the_clock_can_tell_is_a_long_one() {
        let executor = LocalExecutorBuilder::new(Placement::Unbound).io_memory(64 << 10);
        let executor = executor.make().expect("there is a ring");
        let slept = executor.run(async { sleep(Duration::MAX).now_or_never() });
        assert_eq!(slept, None);
    }
}
