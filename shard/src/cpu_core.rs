//! One CPU core's part of the broker's storage: the shards it owns, its lanes, and the tasks that
//! serve both.

use crate::device::DirtyBounds;
use crate::disk::{self, Reserve};
use crate::flusher;
use crate::keeper;
use crate::lane::Doorbell;
use crate::log::{ApplyError, LogConfig, LogError};
use crate::mesh::CoreSeed;
use crate::message::Request;
use crate::overdue;
use crate::owner::Owner;
use crate::port::Port;
use crate::rolls;
use crate::router::Router;
use crate::runtime;
use crate::spec::ShardSpec;
use bytes::Bytes;
use felix_core::metrics::Metrics;
use felix_core::stalls::Work;
use felix_core::{Blocking, Clock, CpuId, Generation, Monotonic, Offset, ShardId, Stalls};
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How a core keeps its shards.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// How each log is kept.
    pub log: LogConfig,
    /// From the first unflushed write of a periodic shard to its flush.
    pub flush_interval: Duration,
    /// How many bytes of a device may be written and not flushed, by all cores together.
    pub dirty: DirtyBounds,
    /// Between two looks for what retention by age takes.
    pub retention_interval: Duration,
    /// Every opening reads and verifies all batches.
    pub verify_on_open: bool,
    /// Memory for recent batches, in bytes, for readers at the tail.
    pub tail_bytes_max: usize,
    /// A batch that is larger is written beside the core, so that it holds up nobody else there.
    pub write_on_core_bytes_max: usize,
    /// Files of logs that are kept open; more where more have writes that are not durable.
    pub files_max: usize,
    /// What is kept free on the disk; `None`: nobody looks, and it is full when it takes no more.
    pub space: Option<SpaceConfig>,
}

/// What is kept free on the file system of the logs.
#[derive(Clone, Debug)]
pub struct SpaceConfig {
    /// The data directory.
    pub directory: PathBuf,
    /// Bytes; less where that is more than a twentieth of the file system.
    pub free_bytes_min: u64,
}

impl SpaceConfig {
    /// What is given up where the disk is full and logs are to be opened.
    #[must_use]
    pub fn reserve(&self) -> Reserve {
        Reserve::of(&self.directory)
    }
}

/// Replies, and requests, taken from one lane in one go.
const MESSAGES_AT_ONCE_MAX: usize = 32;

/// No task holds a core for longer; what is left waits for the next turn.
const DRAIN_MAX: Duration = Duration::from_micros(200);

/// See the module. Lives on its core.
#[derive(Debug)]
pub struct Core {
    owner: Rc<Owner>,
    ports: Rc<[Rc<Port>]>,
    router: Router,
    cores: u16,
    drained: Rc<Cell<bool>>,
    called: Rc<OnceCell<Called>>,
    doorbell: Arc<Doorbell>,
    drain: runtime::Task<()>,
    /// Those that flush, and those that keep.
    flushers: [runtime::Task<()>; 8],
}

impl Core {
    pub(crate) fn start(
        seed: CoreSeed,
        config: CoreConfig,
        clock: Rc<dyn Clock>,
        stalls: Rc<Stalls>,
        heavy: Rc<dyn Blocking>,
    ) -> Self {
        let CoreSeed {
            core,
            cores,
            doorbell,
            ports,
        } = seed;
        let ports: Rc<[Rc<Port>]> = ports
            .into_iter()
            .map(|port| Rc::new(Port::new(port)))
            .collect();
        disk::keep_open(config.files_max);
        disk::keep_time(Rc::clone(&clock));
        let interval = config.flush_interval;
        let retention_interval = config.retention_interval;
        let watch = Rc::clone(&stalls);
        let lanes = Rc::clone(&ports);
        let owner = Rc::new(Owner::new(core, config, clock, watch, heavy, lanes));
        let drained = Rc::new(Cell::new(false));
        let called: Rc<OnceCell<Called>> = Rc::default();
        let lanes = Lanes {
            owner: Rc::clone(&owner),
            ports: Rc::clone(&ports),
            doorbell: Arc::clone(&doorbell),
            ended: Rc::clone(&drained),
            called: Rc::clone(&called),
            first: Cell::new(0),
        };
        let on_commit = flusher::on_commit_rounds(Rc::clone(&owner));
        let periodic = flusher::periodic_rounds(Rc::clone(&owner), interval);
        let overdue = overdue::watch(Rc::clone(&owner), interval);
        let rolled = flusher::after_rolls(Rc::clone(&owner));
        let upkeep = keeper::upkeep(Rc::clone(&owner));
        let catching_up = keeper::catching_up(Rc::clone(&owner));
        let rolls = rolls::by_age(Rc::clone(&owner));
        let aging = keeper::aging(Rc::clone(&owner), retention_interval);
        let watch = || Rc::clone(&stalls);
        let flushers = [
            runtime::spawn_local(watch().watch(Work::Flush, "on_commit rounds", on_commit)),
            runtime::spawn_local(watch().watch(Work::Flush, "periodic rounds", periodic)),
            runtime::spawn_local(watch().watch(Work::Flush, "overdue flushes", overdue)),
            runtime::spawn_local(watch().watch(Work::Flush, "flushes after rolls", rolled)),
            runtime::spawn_local(watch().watch(Work::Flush, "upkeep", upkeep)),
            runtime::spawn_local(watch().watch(Work::Flush, "checkpoints", catching_up)),
            runtime::spawn_local(watch().watch(Work::Flush, "retention", aging)),
            runtime::spawn_local(watch().watch(Work::Flush, "rolls by age", rolls)),
        ];
        Self {
            router: Router::new(Rc::clone(&owner), Rc::clone(&ports), cores),
            drain: runtime::spawn_local(stalls.watch(Work::Lanes, "lanes", lanes.drain())),
            owner,
            ports,
            cores,
            drained,
            called,
            doorbell,
            flushers,
        }
    }

    /// Which core this is.
    #[must_use]
    pub fn id(&self) -> CpuId {
        self.owner.core()
    }

    /// What the core owns.
    #[cfg(test)]
    pub(crate) fn owner(&self) -> &Rc<Owner> {
        &self.owner
    }

    /// The way from this core to all shards.
    #[must_use]
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Every core is given all shards of the broker: it opens its own, and expects to hear of the
    /// others from their owners. Returns at once; those that are ready are served.
    pub fn open(&self, shards: Vec<ShardSpec>) {
        self.owner.open(shards, self.cores);
    }

    /// From now on `called` is told whenever another core may have sent something, so that whoever
    /// decides when this core sleeps knows of it. Once.
    pub fn when_called(&self, called: impl Fn() + 'static) {
        let told = self.called.set(Called(Box::new(called)));
        assert!(told.is_ok(), "one decides when a core sleeps");
    }

    /// Takes batches for a shard of this core as another log has placed them, as a follower does.
    /// The log end afterwards; they are committed as the shard's policy says.
    ///
    /// # Errors
    /// Why none of them was taken.
    pub fn apply(&self, shard: ShardId, batches: Bytes) -> Result<Offset, ApplyError> {
        self.owner.apply_batches(shard, batches)
    }

    /// From now on `told` hears of every shard of this core that failed and was opened again, and
    /// of the generation that clients see from then on. Once.
    pub fn when_reopened(&self, told: impl Fn(ShardId, Generation) + 'static) {
        self.owner.when_reopened(told);
    }

    /// Resolves when every shard of this core is open, or has failed to open.
    pub async fn opened(&self) {
        self.owner.opened().await;
    }

    /// Resolves when this core has heard of every shard of the broker that it is open or failed.
    pub async fn settled(&self) {
        self.owner.table().settled().await;
    }

    /// The numbers of this core, to be collected on it.
    #[must_use]
    pub fn metrics(&self) -> Rc<dyn Metrics> {
        let owner: Rc<Owner> = Rc::clone(&self.owner);
        owner
    }

    /// Takes nothing more, answers everybody who waits, and closes the logs; returns those that
    /// could not be closed cleanly. Other cores may still ask this one until they close, too, so
    /// it returns once all have begun to: close all cores of a mesh at the same time.
    pub async fn close(self) -> Vec<(ShardId, LogError)> {
        self.owner.begin_close();
        for flusher in self.flushers {
            flusher.join().await;
        }
        let failed = self.owner.close_logs().await;
        for port in &*self.ports {
            port.idle().await;
            port.tell(Request::Goodbye);
        }
        for port in &*self.ports {
            port.parted().await;
        }
        self.drained.set(true);
        self.doorbell.ring();
        self.drain.join().await;
        failed
    }
}

/// Whom to tell of the lanes.
struct Called(Box<dyn Fn()>);

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Called")
    }
}

/// The one task of a core that looks at its lanes.
struct Lanes {
    owner: Rc<Owner>,
    ports: Rc<[Rc<Port>]>,
    doorbell: Arc<Doorbell>,
    ended: Rc<Cell<bool>>,
    called: Rc<OnceCell<Called>>,
    /// The port that the next turn begins with.
    first: Cell<usize>,
}

impl Lanes {
    async fn drain(self) {
        poll_fn(|cx| {
            self.doorbell.register(cx.waker());
            if let Some(Called(called)) = self.called.get() {
                called();
            }
            if self.ended.get() {
                return Poll::Ready(());
            }
            if self.turn() {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await;
        self.doorbell.silence();
    }

    /// Takes what has arrived, for a while. Whether there may be more. Each turn begins with
    /// another port: the first one may use up the time, and those behind it are left one request
    /// each.
    fn turn(&self) -> bool {
        let until = self.owner.clock().monotonic().after(DRAIN_MAX);
        let mut more = false;
        let first = self.first.get();
        self.first.set((first + 1) % self.ports.len().max(1));
        let (behind, ahead) = self.ports.split_at(first);
        for port in ahead.iter().chain(behind) {
            more |= port.take_replies(MESSAGES_AT_ONCE_MAX, |watches| {
                for watch in watches {
                    self.owner.sleepers().wake(*watch);
                }
            });
            more |= self.take_requests(port, until);
            port.turn();
            if self.owner.is_closing() {
                port.turned_while_closing();
            }
        }
        more
    }

    fn take_requests(&self, port: &Rc<Port>, until: Monotonic) -> bool {
        let clock = self.owner.clock();
        let mut now = None;
        for _ in 0..MESSAGES_AT_ONCE_MAX {
            let Some(request) = port.next_request() else {
                return false;
            };
            let taken = now.unwrap_or_else(|| clock.monotonic());
            self.owner.execute(port, request, taken);
            let done = clock.monotonic();
            if done >= until {
                return true;
            }
            now = Some(done);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::mesh;
    use felix_core::blocking::Here;
    use felix_core::shards::{OffsetQuery, OffsetSpec};
    use felix_core::stalls::StallBounds;
    use felix_core::{StreamId, Timestamp};
    use futures_util::FutureExt;

    /// A clock that goes on by so much with each look at it.
    #[derive(Debug, Default)]
    struct Ticks(Cell<Duration>);

    impl Clock for Ticks {
        fn wall(&self) -> Timestamp {
            Timestamp(0)
        }

        fn monotonic(&self) -> Monotonic {
            self.0.set(self.0.get() + DRAIN_MAX / 10);
            Monotonic(self.0.get())
        }
    }

    /// The lanes of core 0 of three, and the other cores' ends of them.
    fn lanes() -> (Lanes, Vec<Rc<Port>>) {
        let mut seeds = mesh(3).into_iter();
        let seed = seeds.next().unwrap();
        let peers = seeds.map(|seed| Rc::new(Port::new(seed.ports.into_iter().next().unwrap())));
        let ports: Rc<[_]> = seed
            .ports
            .into_iter()
            .map(|port| Rc::new(Port::new(port)))
            .collect();
        let config = CoreConfig {
            log: LogConfig {
                segment_bytes_max: 1 << 20,
                index_interval_bytes: 4096,
            },
            flush_interval: Duration::from_millis(50),
            dirty: DirtyBounds {
                soft_bytes: 1 << 20,
                hard_bytes: 2 << 20,
            },
            retention_interval: Duration::from_secs(60),
            verify_on_open: false,
            tail_bytes_max: 0,
            space: None,
            files_max: usize::MAX,
            write_on_core_bytes_max: usize::MAX,
        };
        let clock: Rc<dyn Clock> = Rc::new(Ticks::default());
        let bounds = StallBounds {
            counted: Duration::MAX,
            reported: Duration::MAX,
        };
        let stalls = Rc::new(Stalls::new(Rc::clone(&clock), bounds, |_| {}));
        let owner = Owner::new(
            CpuId(0),
            config,
            clock,
            stalls,
            Rc::new(Here),
            Rc::clone(&ports),
        );
        let lanes = Lanes {
            owner: Rc::new(owner),
            ports,
            doorbell: seed.doorbell,
            ended: Rc::default(),
            called: Rc::default(),
            first: Cell::new(0),
        };
        (lanes, peers.collect())
    }

    #[test]
    fn cores_that_ask_more_than_there_is_time_for_get_equal_shares_of_it() {
        let (lanes, peers) = lanes();
        let stream = StreamId(1);
        let query = OffsetQuery {
            shard: ShardId { stream, index: 0 },
            spec: OffsetSpec::Latest,
            generation: None,
        };
        let asked = peers.iter().map(|peer| {
            let ask = |_| peer.offsets(vec![query], Monotonic(Duration::ZERO));
            (0..100).map(ask).collect::<Vec<_>>()
        });
        let mut asked: Vec<_> = asked.collect();
        for _ in 0..6 {
            assert!(lanes.turn(), "there is more");
        }
        let mut shares = Vec::new();
        for (peer, asked) in peers.iter().zip(&mut asked) {
            peer.take_replies(usize::MAX, |_| {});
            let mut answers = asked.iter_mut().map(FutureExt::now_or_never);
            shares.push(answers.by_ref().take_while(Option::is_some).count());
        }
        assert_eq!(shares[0], shares[1]);
        assert!(shares[0] > 20, "{shares:?}");
    }
}
