//! A broker's Kafka side on a bench: a catalog, shards, connections, and a turn at a time.

use crate::client::Client;
use crate::model::{APPEND_TIME, Event, GENERATION, Log, ModelClock, ModelShards, Timed};
use crate::pipe::{BrokerEnd, Peer};
use felix_core::auth::{Action, Auth, Principal};
use felix_core::blocking::Here;
use felix_core::catalog::{Durability, Timestamps};
use felix_core::metrics::{Metrics, Sample};
use felix_core::shards::{Append, ShardState};
use felix_core::stalls::{Stall, StallBounds};
use felix_core::topology::{Address, Topology};
use felix_core::{
    Batch, Blocking, BrokerId, Catalog, Clock, CpuId, Credentials, Generation, Memory, ProducerIds,
    PublishQuota, Rejection, ShardId, Stalls, Stream, StreamId,
};
use felix_core::{Timestamp, batch::BatchBuilder};
use felix_kafka::{CatalogView, Context, KafkaMetrics, ProtocolLog, Settings, Signal, serve};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// More than any test needs that is not about it.
const MEMORY_BYTES_MAX: usize = 1 << 40;

/// The clock stands still while a connection has its turn.
const STALL_BOUNDS: StallBounds = StallBounds {
    counted: Duration::ZERO,
    reported: Duration::ZERO,
};

/// The first id that a producer is given.
pub(crate) const PRODUCER_ID: u64 = 4242;

pub(crate) const TENANT: &str = "dev";
pub(crate) const CLICKS: StreamId = StreamId(0xc11c);
pub(crate) const OWN_CLOCK: StreamId = StreamId(0x0c);
pub(crate) const READ_ONLY: StreamId = StreamId(0x10);
pub(crate) const WRITE_ONLY: StreamId = StreamId(0x20);
pub(crate) const HIDDEN: StreamId = StreamId(0x30);
pub(crate) const FOREIGN: StreamId = StreamId(0x40);

/// The token of [`TENANT`], and that of another one.
pub(crate) const TOKEN: &str = "the token";
pub(crate) const FOREIGN_TOKEN: &str = "the other token";

/// Streams named for what the tenant may do with them.
struct ByName(bool);

impl Auth for ByName {
    fn anonymous(&self) -> Option<Principal> {
        self.0.then(|| Principal::anonymous(TENANT.into()))
    }

    fn authenticate(
        &self,
        credentials: Credentials<'_>,
        _now: Timestamp,
    ) -> Result<Principal, Rejection> {
        let tenant = match credentials.token {
            TOKEN => TENANT,
            FOREIGN_TOKEN => "other",
            _ => return Err(Rejection::Unknown),
        };
        if credentials.tenant != tenant {
            return Err(Rejection::WrongTenant);
        }
        Ok(Principal::anonymous(tenant.into()))
    }

    fn allows(&self, _principal: &Principal, action: Action, stream: &Stream) -> bool {
        match stream.id {
            READ_ONLY => action == Action::Subscribe,
            WRITE_ONLY => action == Action::Publish,
            HIDDEN => false,
            _ => true,
        }
    }
}

pub(crate) struct Bench {
    pub(crate) shards: ModelShards,
    pub(crate) clock: Rc<ModelClock>,
    pub(crate) context: Rc<Context<Timed>>,
    tasks: FuturesUnordered<LocalBoxFuture<'static, ()>>,
}

fn stream(tenant: &str, name: &str, id: StreamId) -> Stream {
    Stream {
        id,
        tenant: tenant.into(),
        namespace: "default".into(),
        name: name.into(),
        shards: 3,
        durability: Durability::Periodic,
        timestamps: if id == OWN_CLOCK {
            Timestamps::Create
        } else {
            Timestamps::Append
        },
        retention: felix_core::Retention::default(),
        segment_age: felix_core::limits::SEGMENT_AGE,
        generation_floor: Generation::new(0),
    }
}

pub(crate) fn clicks(index: u32) -> ShardId {
    ShardId {
        stream: CLICKS,
        index,
    }
}

/// A batch of these values, as a producer sends it.
pub(crate) fn batch_bytes(values: &[&str]) -> bytes::BytesMut {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder = builder.record(Timestamp(1), None, Some(value.as_bytes()));
    }
    builder.build()
}

impl Bench {
    /// Anonymous connections speak for the tenant.
    pub(crate) fn new() -> Self {
        Self::with_anonymous(true)
    }

    pub(crate) fn with_anonymous(anonymous: bool) -> Self {
        Self::with(anonymous, MEMORY_BYTES_MAX)
    }

    /// Anonymous connections speak for the tenant, and the core has this much memory.
    pub(crate) fn with_memory(bytes_max: usize) -> Self {
        Self::with(true, bytes_max)
    }

    fn with(anonymous: bool, memory_bytes_max: usize) -> Self {
        let streams = vec![
            stream(TENANT, "clicks", CLICKS),
            stream(TENANT, "own-clock", OWN_CLOCK),
            stream(TENANT, "read-only", READ_ONLY),
            stream(TENANT, "write-only", WRITE_ONLY),
            stream(TENANT, "hidden", HIDDEN),
            stream("other", "foreign", FOREIGN),
        ];
        let shards = ModelShards::default();
        for shard in streams.iter().flat_map(Stream::shard_ids) {
            let append_time = (shard.stream != OWN_CLOCK).then_some(APPEND_TIME);
            let state = Some(ShardState::Open(GENERATION));
            let log = Log {
                append_time,
                state,
                ..Log::default()
            };
            shards.0.borrow_mut().logs.insert(shard, log);
        }
        let clock = Rc::new(ModelClock::default());
        let addresses = (0..2)
            .map(|core| Address {
                host: "127.0.0.1".into(),
                port: 9100 + core,
            })
            .collect();
        let context = Context {
            shards: Timed {
                shards: shards.clone(),
                clock: Rc::clone(&clock),
            },
            catalog: CatalogView::new(Rc::new(Catalog::new(streams).unwrap())),
            topology: Rc::new(Topology::new(BrokerId(1), 2, addresses, Some("rack-a"))),
            auth: Rc::new(ByName(anonymous)),
            quota: None,
            producer_ids: ProducerIds::from_drawn(PRODUCER_ID),
            clock: Rc::clone(&clock) as Rc<dyn Clock>,
            timer: Rc::new(Timed {
                shards: shards.clone(),
                clock: Rc::clone(&clock),
            }),
            settings: Settings {
                default_namespace: Some("default".into()),
                cluster_id: "felix-test".into(),
            },
            memory: Memory::new(memory_bytes_max),
            metrics: Rc::new(KafkaMetrics::new(CpuId(0))),
            log: ProtocolLog::new(Rc::clone(&clock) as Rc<dyn Clock>),
            blocking: Rc::new(Here),
            stalls: Rc::new(Stalls::new(
                Rc::clone(&clock) as Rc<dyn Clock>,
                STALL_BOUNDS,
                |_| {},
            )),
            drain: Signal::default(),
        };
        Self {
            shards,
            clock,
            context: Rc::new(context),
            tasks: FuturesUnordered::new(),
        }
    }

    /// With threads for heavy work that are the test's.
    pub(crate) fn with_blocking(blocking: Rc<dyn Blocking>) -> Self {
        let mut bench = Self::new();
        let context = Rc::get_mut(&mut bench.context).expect("nobody is connected yet");
        context.blocking = blocking;
        bench
    }

    /// With somebody else who decides who may do what.
    pub(crate) fn with_auth(auth: Rc<dyn Auth>) -> Self {
        let mut bench = Self::new();
        let context = Rc::get_mut(&mut bench.context).expect("nobody is connected yet");
        context.auth = auth;
        bench
    }

    /// With tenants that may publish so much.
    pub(crate) fn with_quota(make: impl FnOnce(Rc<ModelClock>) -> Rc<dyn PublishQuota>) -> Self {
        let mut bench = Self::new();
        let context = Rc::get_mut(&mut bench.context).expect("nobody is connected yet");
        context.quota = Some(make(Rc::clone(&bench.clock)));
        bench
    }

    /// With connections whose turns this clock measures, and `report` told of each.
    pub(crate) fn watched(clock: Rc<dyn Clock>, report: impl Fn(&Stall<'_>) + 'static) -> Self {
        let mut bench = Self::new();
        let context = Rc::get_mut(&mut bench.context).expect("nobody is connected yet");
        context.stalls = Rc::new(Stalls::new(clock, STALL_BOUNDS, report));
        bench
    }

    /// A new connection.
    pub(crate) fn connect(&mut self) -> Client {
        self.connect_with(|context, stream, peer| Box::pin(serve(context, stream, peer)))
    }

    /// A new connection that is served in another way.
    pub(crate) fn connect_with(
        &mut self,
        serve: impl FnOnce(Rc<Context<Timed>>, BrokerEnd, String) -> LocalBoxFuture<'static, ()>,
    ) -> Client {
        let peer = Peer::default();
        let served = serve(
            Rc::clone(&self.context),
            peer.broker_end(),
            "192.0.2.1:5555".to_owned(),
        );
        self.tasks.push(served);
        self.turn();
        Client::new(peer)
    }

    /// Lets every task that was woken run until none has anything to do. A task that missed its
    /// wake-up does not run.
    pub(crate) fn turn(&mut self) {
        self.polls(2000);
    }

    /// Every connection that can go on does so, about so often.
    pub(crate) fn polls(&mut self, times: usize) {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..times {
            let _served = self.tasks.poll_next_unpin(&mut cx);
        }
    }

    /// Connections that are still served.
    pub(crate) fn served(&self) -> usize {
        self.tasks.len()
    }

    /// Time passes.
    pub(crate) fn wait(&mut self, wait: Duration) {
        self.clock.now.set(self.clock.now.get() + wait);
        self.shards.0.borrow_mut().change();
        self.turn();
    }

    /// A batch arrives from elsewhere.
    pub(crate) fn publish(&mut self, shard: ShardId, values: &[&str]) {
        let batch = Batch::parse(batch_bytes(values)).unwrap();
        self.shards.0.borrow_mut().publish(Append { shard, batch });
        self.turn();
    }

    /// The catalog gains this many streams of 1024 shards, which are not open yet.
    pub(crate) fn widen_catalog(&self, count: u128) {
        self.grow_catalog(TENANT, felix_core::limits::SHARDS_PER_STREAM_MAX, count);
    }

    /// The catalog gains this many streams of a tenant.
    pub(crate) fn grow_catalog(&self, tenant: &str, shards: u32, count: u128) {
        let mut streams = self.context.catalog.current().streams().to_vec();
        for number in 0..count {
            let id = StreamId(0x1000 + number);
            streams.push(Stream {
                shards,
                ..stream(tenant, &format!("wide-{number}"), id)
            });
        }
        self.context
            .catalog
            .replace(Rc::new(Catalog::new(streams).unwrap()));
    }

    /// Requests of an API that were begun.
    pub(crate) fn requests(&self, api: &str) -> f64 {
        self.counted("felix_kafka_requests_total", &[("api", api)])
    }

    /// What all series of a metric that have these labels come to.
    pub(crate) fn counted(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let mut value = 0.0;
        self.context.metrics.collect(&mut |sample: Sample| {
            let has = |(key, value): &(&str, &str)| {
                let mut own = sample.labels.iter();
                own.any(|(known, text)| known == key && text == value)
            };
            if sample.name == name && labels.iter().all(has) {
                value += sample.value;
            }
        });
        value
    }

    /// From now on batches wait for the signal before they are committed.
    pub(crate) fn hold_commits(&self) -> Signal {
        let gate = Signal::default();
        self.shards.0.borrow_mut().commit_gate = Some(gate.clone());
        gate
    }

    /// From now on batches wait for the signal before they are queued.
    pub(crate) fn hold_queues(&self) -> Signal {
        let gate = Signal::default();
        self.shards.0.borrow_mut().queue_gate = Some(gate.clone());
        gate
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        std::mem::take(&mut self.shards.0.borrow_mut().events)
    }

    pub(crate) fn log<T>(&self, shard: ShardId, change: impl FnOnce(&mut Log) -> T) -> T {
        change(RefCell::borrow_mut(&self.shards.0).log(shard))
    }
}
