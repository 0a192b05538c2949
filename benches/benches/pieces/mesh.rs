//! Two cores with the lanes between them, set up as the broker sets up its own, one shard each.

use crate::batches;
use crate::executor::{self, Sockets};
use felix_bench::system_clock::SystemClock;
use felix_core::batch::Codec;
use felix_core::blocking::Here;
use felix_core::limits::WRITE_ON_CORE_BYTES_MAX;
use felix_core::shards::{Acks, Append, OffsetAnswer, OffsetQuery, OffsetSpec};
use felix_core::stalls::StallBounds;
use felix_core::{
    Clock, CpuId, Durability, Generation, Offset, ShardId, Shards, Stalls, Stream, StreamId,
    Timestamp, Timestamps, placement,
};
use felix_shard::log::LogConfig;
use felix_shard::{Core, CoreConfig, CoreSeed, DirtyBounds, Router, ShardSpec, mesh};
use futures_util::task::AtomicWaker;
use glommio::{ExecutorJoinHandle, Placement};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::task::Poll;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The shard that the asking core owns, and the one that the other core owns.
pub(crate) const OWN: u32 = 0;
pub(crate) const OTHER: u32 = 1;

/// Asked for nothing before the time counts, so that a core that had gone to sleep is awake, if it
/// is to be, and both have the way in their caches.
const WARMING: u64 = 20;

/// A broker's cores without a broker.
pub(crate) struct Pair {
    orders: Option<Sender<Order>>,
    times: Receiver<Duration>,
    cores: Vec<ExecutorJoinHandle<()>>,
    _data: TempDir,
}

/// What the first core is to ask, and how often.
struct Order {
    shard: u32,
    count: u64,
}

impl Pair {
    /// Starts both. Without work, each looks for it for `vigil` before it sleeps.
    pub(crate) fn start(cpus: [usize; 2], vigil: Duration) -> Self {
        let data = tempfile::tempdir().expect("the temporary directory can be written");
        let shards: Vec<_> = ShardSpec::of_stream(data.path(), &stream()).collect();
        let (orders, take_orders) = channel();
        let (give_times, times) = sync_channel(1);
        let ended: Arc<Ended> = Arc::default();
        let [first, second]: [CoreSeed; 2] = mesh(2)
            .try_into()
            .unwrap_or_else(|_| unreachable!("a mesh has as many seeds as cores"));
        let (specs, end) = (shards.clone(), Arc::clone(&ended));
        let asking = executor::builder(Placement::Fixed(cpus[0])).spawn(move || async move {
            let running = Running::start(first, specs, vigil).await;
            running.ask(&take_orders, &give_times).await;
            end.tell();
            running.end().await;
        });
        let answering = executor::builder(Placement::Fixed(cpus[1])).spawn(move || async move {
            let running = Running::start(second, shards, vigil).await;
            ended.told().await;
            running.end().await;
        });
        let cores = [asking, answering].map(|core| core.expect("the kernel has io_uring"));
        Self {
            orders: Some(orders),
            times,
            cores: cores.into(),
            _data: data,
        }
    }

    /// The time that the first core takes to ask the owner of a shard, so many times one after the
    /// other, where the shard ends.
    pub(crate) fn times(&self, shard: u32, count: u64) -> Duration {
        let orders = self.orders.as_ref().expect("taken when dropped");
        let order = Order { shard, count };
        orders.send(order).expect("the cores run until then");
        self.times.recv().expect("the cores run until then")
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        drop(self.orders.take());
        for core in self.cores.drain(..) {
            core.join().expect("what a core found wrong has been said");
        }
    }
}

/// One core, on its thread.
struct Running {
    core: Core,
    sockets: Sockets,
}

impl Running {
    async fn start(seed: CoreSeed, shards: Vec<ShardSpec>, vigil: Duration) -> Self {
        let clock: Rc<dyn Clock> = Rc::new(SystemClock);
        let bounds = StallBounds {
            counted: Duration::MAX,
            reported: Duration::MAX,
        };
        let stalls = Rc::new(Stalls::new(Rc::clone(&clock), bounds, |_| {}));
        let sockets = Sockets::start(vigil);
        let config = CoreConfig {
            log: LogConfig {
                segment_bytes_max: 1 << 30,
                index_interval_bytes: 4096,
            },
            flush_interval: Duration::from_millis(50),
            dirty: DirtyBounds {
                soft_bytes: 64 << 20,
                hard_bytes: 256 << 20,
            },
            retention_interval: Duration::from_secs(60),
            verify_on_open: false,
            tail_bytes_max: 1 << 20,
            space: None,
            files_max: usize::MAX,
            write_on_core_bytes_max: WRITE_ON_CORE_BYTES_MAX,
        };
        let core = seed.start(config, clock, stalls, Rc::new(Here));
        let reactor = sockets.reactor.clone();
        core.when_called(move || reactor.stir());
        core.open(shards);
        core.opened().await;
        core.settled().await;
        Self { core, sockets }
    }

    async fn end(self) {
        let unclean = self.core.close().await;
        assert!(unclean.is_empty(), "{unclean:?}");
        self.sockets.end().await;
    }

    /// Asks as it is told. Between two orders the thread waits as threads do, and the core with it:
    /// nobody needs it then.
    async fn ask(&self, orders: &Receiver<Order>, times: &SyncSender<Duration>) {
        let router = self.core.router();
        check(&router).await;
        while let Ok(Order { shard, count }) = orders.recv() {
            for _ in 0..WARMING {
                ask(&router, shard).await;
            }
            let start = Instant::now();
            for _ in 0..count {
                std::hint::black_box(ask(&router, shard).await);
            }
            times.send(start.elapsed()).expect("the bench waits for it");
        }
    }
}

/// The smallest thing there is to ask an owner.
async fn ask(router: &Router, shard: u32) -> OffsetAnswer {
    let query = OffsetQuery {
        shard: shard_id(shard),
        spec: OffsetSpec::Latest,
        generation: None,
    };
    let mut answers = router.offsets(vec![query]).await;
    let answer = answers.pop().expect("one answer a question");
    answer.expect("the shard is open")
}

/// Each shard has the owner that is meant, who knows where it ends.
async fn check(router: &Router) {
    for (shard, owner, records) in [(OWN, CpuId(0), 2), (OTHER, CpuId(1), 3)] {
        assert_eq!(placement::owner(shard_id(shard), 2), owner);
        let bytes = batches::bytes(records, Timestamp(1), Codec::None);
        let append = Append {
            shard: shard_id(shard),
            batch: batches::parsed(&bytes),
        };
        let appended = router.append(vec![append], Acks::All).await.await;
        assert!(appended.iter().all(Result::is_ok), "{appended:?}");
        let end = Offset::new(records as u64);
        assert_eq!(ask(router, shard).await.found, Some((end, None)));
    }
}

/// A stream with one shard for each core, in their order.
fn stream() -> Stream {
    let begins = |id: &u128| {
        let shard = ShardId {
            stream: StreamId(*id),
            index: 0,
        };
        placement::owner(shard, 2) == CpuId(0)
    };
    Stream {
        id: StreamId((1..).find(begins).expect("every other id is such")),
        tenant: "dev".into(),
        namespace: "default".into(),
        name: "asked".into(),
        shards: 2,
        durability: Durability::None,
        timestamps: Timestamps::Append,
        retention: felix_core::Retention::default(),
        segment_age: felix_core::limits::SEGMENT_AGE,
        generation_floor: Generation::new(0),
    }
}

fn shard_id(index: u32) -> ShardId {
    let stream = stream().id;
    ShardId { stream, index }
}

/// Tells the second core that the first has nothing more to ask.
#[derive(Default)]
struct Ended {
    told: AtomicBool,
    waiting: AtomicWaker,
}

impl Ended {
    fn tell(&self) {
        self.told.store(true, Ordering::Release);
        self.waiting.wake();
    }

    async fn told(&self) {
        poll_fn(|cx| {
            self.waiting.register(cx.waker());
            if self.told.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        // On its own core: a waker must not outlive its executor.
        drop(self.waiting.take());
    }
}
