//! One core of the storage engine with no broker around it: the same shards on the same executor,
//! without sockets, settings or catalog. `felix-log bench` measures it.

use crate::clock::SystemClock;
use crate::executor;
use crate::probe;
use felix_core::blocking::Here;
use felix_core::stalls::StallBounds;
use felix_core::{Clock, Stalls};
use felix_net::Reactor;
use felix_shard::{Core, CoreConfig, CoreSeed};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// A core's storage. Lives on that core.
pub struct Engine {
    core: Core,
    clock: Rc<dyn Clock>,
}

/// Runs a core on the calling thread, which is kept on `cpu` from here on: starts it, does `work`
/// with it, and closes its logs. All cores of a mesh have to come to their end at about the same
/// time, since each waits for the others there.
///
/// # Errors
/// A sentence: the core cannot be had, or a log could not be closed.
pub fn run<T>(
    seed: CoreSeed,
    cpu: usize,
    config: CoreConfig,
    work: impl AsyncFnOnce(&Engine) -> T,
) -> Result<T, String> {
    let core = seed.core();
    executor::run(core, cpu, Box::pin(live(seed, config, work)))?
}

async fn live<T>(
    seed: CoreSeed,
    config: CoreConfig,
    work: impl AsyncFnOnce(&Engine) -> T,
) -> Result<T, String> {
    let clock: Rc<dyn Clock> = Rc::new(SystemClock);
    let bounds = StallBounds {
        counted: Duration::MAX,
        reported: Duration::MAX,
    };
    let stalls = Rc::new(Stalls::new(Rc::clone(&clock), bounds, |_| {}));
    // Without sockets, but it decides how a core sleeps.
    let reactor = Reactor::watchful(Duration::ZERO, Rc::clone(&clock))
        .map_err(|error| format!("no epoll set: {error}"))?;
    let sockets = executor::spawn(reactor.run());
    let core = seed.start(config, Rc::clone(&clock), stalls, Rc::new(Here));
    let stirred = reactor.clone();
    core.when_called(move || stirred.stir());
    let engine = Engine { core, clock };
    let done = work(&engine).await;
    let unclosed = engine.core.close().await;
    reactor.stop();
    sockets.await;
    match unclosed.first() {
        None => Ok(done),
        Some((shard, error)) => Err(format!("{shard} could not be closed: {error}")),
    }
}

impl Engine {
    /// The shards of this core, and the way to all others.
    #[must_use]
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The clock that it keeps time by.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Resolves after `pause`; the core does other things meanwhile.
    pub async fn pause(&self, pause: Duration) {
        executor::pause(pause).await;
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("core", &self.core.id())
            .finish_non_exhaustive()
    }
}

/// Raises this process's limits as the broker raises its own; the files that it may then have open,
/// `None` for no limit.
#[must_use]
pub fn raise_limits() -> Option<u64> {
    probe::read().files
}
