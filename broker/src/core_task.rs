//! What one pinned core runs: its sockets, its shards, its connections, and a mailbox through
//! which the rest of the process reaches it.
//!
//! Everything made here lives on the core. What it is made from ([`Plan`]) is plain and crosses
//! the thread once.

use crate::blocking::{self, Heavy, HeavyThreads};
use crate::boot::Event;
use crate::clock::SystemClock;
use crate::collect::Numbers;
use crate::door::Full;
use crate::executor;
use crate::kafka_core::{KafkaCore, KafkaPlan, Surroundings};
use crate::mailbox::Inside;
use crate::prober::Ping;
use crate::quotas::{QuotaPlan, Quotas};
use crate::readiness::{FailedShard, ShardCounts};
use crate::tokens::Tokens;
use crate::troubles::{Named, Place, Troubles};
use crossbeam_channel::Sender;
use felix_core::metrics::Metrics;
use felix_core::quota::{Ask, Deal};
use felix_core::shards::ShardState;
use felix_core::stalls::{Stall, StallBounds, Work};
use felix_core::{
    Blocking, Catalog, Clock, CpuId, Generation, Monotonic, ShardId, Shards, Stalls, Stream,
};
use felix_kafka::{CatalogView, Signal};
use felix_net::Reactor;
use felix_net::tls::TlsConfig;
use felix_shard::{CoreConfig, CoreSeed, Router, ShardSpec};
use futures_util::future::{Either, select};
use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

/// What the rest of the process says to a core.
#[derive(Debug)]
pub(crate) enum Message {
    /// Tell your numbers. One at a time per HTTP request.
    Metrics(oneshot::Sender<Numbers>),
    /// Tell when you take this. One at a time.
    Ping(Ping),
    /// Tell how the shards are. One at a time per HTTP request.
    Shards(oneshot::Sender<ShardCounts>),
    /// Tell what is wrong with your shards and your disk. One at a time per HTTP request.
    Troubles(oneshot::Sender<Troubles>),
    /// A connection of another core wants through the door of the shared port. One at a time per
    /// core.
    Enter {
        /// Where it comes from.
        ip: IpAddr,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<(), Full>>,
    },
    /// A connection that was let in has closed. At most as many as were let in.
    Leave {
        /// Where it came from.
        ip: IpAddr,
    },
    /// Another core asks for its part of a tenant's budget. One at a time per core and tenant.
    Ask {
        /// Which core.
        core: CpuId,
        /// Which tenant.
        tenant: Arc<str>,
        /// What it has written and holds.
        ask: Ask,
    },
    /// The answer to that.
    Dealt {
        /// Which tenant.
        tenant: Arc<str>,
        /// What it gets.
        deal: Deal,
    },
    /// Have new connections see this certificate. One at a time per change of its files.
    Tls(TlsConfig),
    /// These tokens count from now on. As often as the token file changes.
    Tokens(Arc<Tokens>),
    /// Take no more connections, finish what those that are there have asked, and cut what is
    /// left. Answered by [`Event::CoreDrained`]. Once.
    Drain {
        /// When connections that are not done are cut.
        deadline: Monotonic,
    },
    /// Close the logs and end. Once, after every core has drained, since their connections may
    /// wait for each other's shards.
    Close,
}

impl From<Ping> for Message {
    fn from(ping: Ping) -> Self {
        Self::Ping(ping)
    }
}

/// What a core is made from.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Which of the broker's cores.
    pub(crate) core: CpuId,
    /// The processor it is pinned to.
    pub(crate) cpu: usize,
    /// Its end of the lanes to the other cores.
    pub(crate) lanes: CoreSeed,
    /// How it keeps its shards.
    pub(crate) storage: CoreConfig,
    /// Who does its heavy work.
    pub(crate) heavy: HeavyThreads,
    /// How long it looks for work before it sleeps.
    pub(crate) vigil: Duration,
    /// What counts as a stall.
    pub(crate) stalls: StallBounds,
    /// All shards of the broker.
    pub(crate) shards: Vec<ShardSpec>,
    /// What streams there are.
    pub(crate) catalog: Arc<Catalog>,
    /// What tenants may publish, if that has a bound.
    pub(crate) quota: Option<QuotaPlan>,
    /// Its Kafka listeners, if there are any.
    pub(crate) kafka: Option<KafkaPlan>,
    /// Its mailbox.
    pub(crate) inside: Inside<Message>,
    /// Where it tells how far it is.
    pub(crate) events: Sender<Event>,
}

/// Starts the core's thread.
///
/// # Errors
/// No thread can be had. What fails later arrives as [`Event::CoreFailed`].
pub(crate) fn start(plan: Plan) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(format!("felix-core-{}", plan.core))
        .spawn(move || {
            let core = plan.core;
            let events = plan.events.clone();
            let event = match run(plan) {
                Ok(unclosed) => Event::CoreEnded { core, unclosed },
                Err(fault) => Event::CoreFailed { core, fault },
            };
            // Nobody listens any more only where the process is on its way out.
            drop(events.send(event));
        })
}

fn run(plan: Plan) -> Result<Vec<ShardId>, String> {
    #[cfg(debug_assertions)]
    crate::crash::set_tripwire();
    let (core, cpu) = (plan.core, plan.cpu);
    executor::run(core, cpu, Box::pin(live(plan)))?
}

/// Runs until it is asked to end. The shards whose logs were open and are not closed.
async fn live(plan: Plan) -> Result<Vec<ShardId>, String> {
    let clock: Rc<dyn Clock> = Rc::new(SystemClock);
    let stalls = Rc::new(Stalls::new(Rc::clone(&clock), plan.stalls, log_stall));
    let reactor = Reactor::watchful(plan.vigil, Rc::clone(&clock))
        .map_err(|error| format!("no epoll set: {error}"))?;
    let watched = Rc::clone(&stalls).watch(Work::Sockets, "sockets", reactor.run());
    let sockets = executor::spawn(watched);
    let (heavy, hear) = heavy_work(plan.heavy, &stalls, reactor.clone());
    let (watch, jobs) = (Rc::clone(&stalls), Rc::clone(&heavy) as Rc<dyn Blocking>);
    let lanes = plan.lanes;
    let shards = lanes.start(plan.storage, Rc::clone(&clock), watch, jobs);
    let stirred = reactor.clone();
    shards.when_called(move || stirred.stir());
    tell_reopened(&shards, plan.events.clone());
    shards.open(plan.shards);

    let catalog = CatalogView::new(Rc::new((*plan.catalog).clone()));
    let router = shards.router();
    let quotas = plan.quota.map(|quota| quota.start(plan.core, &clock));
    let around = Surroundings {
        clock: Rc::clone(&clock),
        stalls: Rc::clone(&stalls),
        heavy,
        quotas: quotas.clone(),
    };
    let kafka = plan.kafka.map(|kafka| {
        let catalog = catalog.clone();
        KafkaCore::start(kafka, plan.core, router, catalog, around, &reactor)
    });
    let kafka = kafka.transpose();
    let kafka = kafka.map_err(|error| format!("the Kafka listener: {error}"))?;
    let core = Rc::new(Core {
        core: plan.core,
        catalog,
        router: shards.router(),
        metrics: vec![shards.metrics(), reactor.metrics(), stalls.clone()],
        clock: Rc::clone(&clock),
        quotas,
        kafka,
        events: plan.events,
        deadline: Cell::new(None),
        drain: Signal::default(),
        close: Signal::default(),
        end: Signal::default(),
    });
    let mail = Rc::clone(&core).mail(plan.inside, reactor.clone());
    let mail = executor::spawn(stalls.watch(Work::Mail, "mailbox", mail));

    let mut were_open = Vec::new();
    if let Either::Left(_) = select(pin!(shards.opened()), core.drain.raised()).await {
        let open = core.open_here();
        were_open.extend(open.iter().map(|(shard, _)| *shard));
        core.tell(Event::CoreOpened {
            core: plan.core,
            open,
        });
        core.drain.raised().await;
    }
    core.drain(&*clock).await;
    core.tell(Event::CoreDrained(plan.core));
    core.close.raised().await;
    let unclosed = core.close_shards(shards, were_open).await;
    // Searches wait for it up to here, whoever asked for them.
    drop(hear);
    core.end.raise();
    mail.await;
    reactor.stop();
    sockets.await;
    Ok(unclosed)
}

fn tell_reopened(shards: &felix_shard::Core, events: Sender<Event>) {
    shards.when_reopened(move |shard, generation| {
        // The main thread listens as long as cores run.
        drop(events.send(Event::ShardReopened { shard, generation }));
    });
}

/// What a core has with the heavy threads, and the task that hears from them.
fn heavy_work(
    threads: HeavyThreads,
    stalls: &Rc<Stalls>,
    reactor: Reactor,
) -> (Rc<Heavy>, executor::Task<()>) {
    let (heavy, done) = blocking::on_core(threads);
    let hear = Rc::clone(&heavy).hear(done, move || reactor.stir());
    let hear = Rc::clone(stalls).watch(Work::Mail, "heavy work", hear);
    (heavy, executor::spawn(hear))
}

/// The thread's name, which is in the line, says which core it was.
fn log_stall(stall: &Stall<'_>) {
    let Stall {
        work,
        name,
        took,
        left_out,
    } = stall;
    tracing::warn!(
        task = work.label(),
        name,
        // JSON has no numbers beyond 64 bits: as they are, these would be a text.
        took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        left_out = (*left_out > 0).then_some(*left_out),
        "a core was held too long"
    );
}

/// What a running core answers from.
struct Core {
    core: CpuId,
    clock: Rc<dyn Clock>,
    catalog: CatalogView,
    router: Router,
    metrics: Vec<Rc<dyn Metrics>>,
    quotas: Option<Rc<Quotas>>,
    kafka: Option<KafkaCore>,
    events: Sender<Event>,
    deadline: Cell<Option<Monotonic>>,
    drain: Signal,
    close: Signal,
    end: Signal,
}

impl Core {
    /// Answers messages until the core has nothing left that they could be about.
    async fn mail(self: Rc<Self>, mut inside: Inside<Message>, reactor: Reactor) {
        loop {
            match select(pin!(inside.next()), self.end.raised()).await {
                Either::Left((Some(message), _)) => {
                    reactor.stir();
                    self.answer(message);
                }
                Either::Left((None, _)) | Either::Right(_) => return,
            }
        }
    }

    fn answer(&self, message: Message) {
        // An answer that nobody waits for any more is none.
        match message {
            Message::Metrics(reply) => drop(reply.send(self.numbers())),
            Message::Ping(ping) => drop(ping.send(self.clock.monotonic())),
            Message::Shards(reply) => drop(reply.send(self.shard_counts())),
            Message::Troubles(reply) => drop(reply.send(Troubles {
                failures: self.router.failures(),
                full: self.router.disk_full().map(|full| full.to_string()),
            })),
            Message::Enter { ip, reply } => {
                let doors = self.kafka.as_ref().map(KafkaCore::doors);
                drop(reply.send(doors.map_or(Err(Full::Total), |doors| doors.enter_for_peer(ip))));
            }
            Message::Leave { ip } => {
                if let Some(kafka) = &self.kafka {
                    kafka.doors().leave_for_peer(ip);
                }
            }
            Message::Ask { core, tenant, ask } => {
                if let Some(quotas) = &self.quotas {
                    quotas.deal_for_peer(core, tenant, ask);
                }
            }
            Message::Dealt { tenant, deal } => {
                if let Some(quotas) = &self.quotas {
                    quotas.dealt(&tenant, deal);
                }
            }
            Message::Tls(config) => {
                if let Some(kafka) = &self.kafka {
                    kafka.renew(config);
                }
            }
            Message::Tokens(tokens) => {
                if let Some(kafka) = &self.kafka {
                    kafka.auth().replace(tokens);
                }
            }
            Message::Drain { deadline } => {
                self.deadline.set(Some(deadline));
                self.drain.raise();
            }
            Message::Close => self.close.raise(),
        }
    }

    fn numbers(&self) -> Numbers {
        let mut numbers = Numbers::default();
        let now = self.clock.monotonic();
        for metrics in &self.metrics {
            numbers.take(&**metrics, now);
        }
        numbers.failed = Some(self.named_failures());
        if let Some(kafka) = &self.kafka {
            kafka.metrics(|metrics| numbers.take(metrics, now));
        }
        numbers
    }

    /// The shards of this core that failed.
    fn named_failures(&self) -> Named {
        let mut named = Named::default();
        let mut reasons: HashMap<_, _> = self.router.first_failures().into_iter().collect();
        if reasons.is_empty() {
            return named;
        }
        for stream in self.catalog.current().streams() {
            for id in stream.shard_ids() {
                if let Some(reason) = reasons.remove(&id) {
                    let place = Place {
                        tenant: stream.tenant.clone(),
                        stream: stream.topic(),
                        shard: id.index,
                    };
                    named.add(place, &reason);
                }
            }
        }
        named
    }

    /// A shard as people know it: tenant, topic and partition.
    fn name_of(&self, shard: ShardId) -> String {
        let catalog = self.catalog.current();
        let mut streams = catalog.streams().iter();
        let stream = streams.find(|stream| stream.shard_ids().any(|id| id == shard));
        stream.map_or_else(|| shard.to_string(), |stream| name(stream, shard))
    }

    /// All shards of the broker, as this core's table has them.
    fn shard_counts(&self) -> ShardCounts {
        let mut counts = ShardCounts::default();
        for stream in self.catalog.current().streams() {
            for shard in stream.shard_ids() {
                counts.all += 1;
                match self.router.state(shard) {
                    Some(ShardState::Open(_)) => counts.open += 1,
                    Some(ShardState::Failed) => {
                        counts.failed.push(FailedShard {
                            id: shard,
                            name: name(stream, shard),
                            reason: None,
                        });
                    }
                    Some(ShardState::Opening) | None => {}
                }
            }
        }
        counts
    }

    /// The open shards that this core knows of, with the generations that clients may see.
    fn open_here(&self) -> Vec<(ShardId, Generation)> {
        let catalog = self.catalog.current();
        let shards = catalog.streams().iter().flat_map(Stream::shard_ids);
        shards
            .filter_map(|shard| match self.router.state(shard) {
                Some(ShardState::Open(generation)) => Some((shard, generation)),
                Some(ShardState::Opening | ShardState::Failed) | None => None,
            })
            .collect()
    }

    /// Closes the logs. Those of them, out of `open`, that are not closed cleanly.
    async fn close_shards(&self, shards: felix_shard::Core, open: Vec<ShardId>) -> Vec<ShardId> {
        let unclean = Box::pin(shards.close()).await;
        // A shard that has failed, were it in its last flush, is not believed what a closing would
        // claim.
        let mut unclosed = open;
        unclosed.retain(|shard| self.router.state(*shard) == Some(ShardState::Failed));
        for (shard, error) in unclean {
            unclosed.push(shard);
            let shard = self.name_of(shard);
            tracing::error!(shard, %error, "a log could not be closed cleanly; it will be recovered");
        }
        unclosed
    }

    /// No more connections; those that run finish, or are cut at the deadline.
    async fn drain(&self, clock: &dyn Clock) {
        let Some(kafka) = &self.kafka else { return };
        kafka.connections().drain();
        let deadline = self.deadline.get().unwrap_or_else(|| clock.monotonic());
        let patience = executor::pause(deadline.until(clock.monotonic()));
        let ended = kafka.connections().ended();
        if let Either::Right(_) = select(pin!(ended), pin!(patience)).await {
            let cut = kafka.connections().cut();
            tracing::warn!(core = %self.core, cut, "connections cut: the drain budget is spent");
            kafka.connections().ended().await;
        }
    }

    fn tell(&self, event: Event) {
        // The main thread listens as long as cores run.
        drop(self.events.send(event));
    }
}

fn name(stream: &Stream, shard: ShardId) -> String {
    format!("{}/{}-{}", stream.tenant, stream.topic(), shard.index)
}
