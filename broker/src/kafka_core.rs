//! The Kafka listener on one core: what its connections share, and its part of the doors.

use crate::blocking::Heavy;
use crate::core_task::Message;
use crate::door::{Bounds, Door};
use crate::executor::CoreTimer;
use crate::handshakes::Handshakes;
use crate::identity::{self, RANDOM};
use crate::listeners::{Listeners, OfCore};
use crate::mailbox::Outside;
use crate::quotas::Quotas;
use crate::serve::{Connections, Doors, Node, SharedDoor};
use crate::settings::Kafka;
use crate::sweep::Timeouts;
use crate::token_auth::TokenAuth;
use crate::tokens::Tokens;
use felix_core::metrics::Metrics;
use felix_core::topology::Topology;
use felix_core::{Auth, BrokerId, Clock, CpuId, Memory, ProducerIds, PublishQuota, Stalls};
use felix_kafka::{CatalogView, Context, KafkaMetrics, ProtocolLog, Signal};
use felix_net::Reactor;
use felix_net::tls::TlsConfig;
use felix_shard::Router;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// The core that keeps the door of the shared port: the controller of Metadata, so that there is
/// one special core and not two.
const DOOR_KEEPER: CpuId = CpuId(0);

/// What lets connections in, as it is at the start.
#[derive(Clone, Debug)]
pub(crate) struct Security {
    /// How they are encrypted, if they are.
    pub(crate) tls: Option<TlsConfig>,
    /// The tokens that count, if any can.
    pub(crate) tokens: Option<Arc<Tokens>>,
}

/// What one core's Kafka listener is made from: plain, to cross the thread.
#[derive(Debug)]
pub(crate) struct KafkaPlan {
    settings: Kafka,
    listeners: OfCore,
    topology: Arc<Topology>,
    cluster_id: String,
    security: Security,
    memory_bytes_max: usize,
    door_keeper: Outside<Message>,
    producer_ids: ProducerIds,
}

impl KafkaPlan {
    /// The plans of all cores, in their order. `keeper` is the mailbox of core 0.
    ///
    /// # Errors
    /// A sentence: no randomness can be read.
    pub(crate) fn of_cores(
        listeners: Listeners,
        settings: &Kafka,
        broker: BrokerId,
        memory_bytes_max: usize,
        security: &Security,
        keeper: &Outside<Message>,
    ) -> Result<Vec<Self>, String> {
        let topology = Arc::new(listeners.topology);
        let of_cores = listeners.of_cores.into_iter();
        of_cores
            .map(|listeners| {
                Ok(Self {
                    settings: settings.clone(),
                    listeners,
                    topology: Arc::clone(&topology),
                    // One broker is a cluster of its own until brokers know of each other.
                    cluster_id: format!("felix-{broker}"),
                    security: security.clone(),
                    memory_bytes_max,
                    door_keeper: keeper.clone(),
                    producer_ids: producer_ids()?,
                })
            })
            .collect()
    }
}

/// The producer ids of one core.
fn producer_ids() -> Result<ProducerIds, String> {
    let drawn = identity::draw_number().map_err(|error| {
        format!(
            "no ids of producers can be drawn: could not read {RANDOM}: {error}; the broker needs \
             that device"
        )
    })?;
    Ok(ProducerIds::from_drawn(drawn))
}

impl KafkaPlan {
    fn timeouts(&self) -> Timeouts {
        Timeouts {
            idle: self.settings.idle_timeout,
            auth: self.settings.auth_timeout,
        }
    }

    fn auth(&self) -> Rc<TokenAuth> {
        let anonymous = self.settings.anonymous_tenant.as_deref().map(Rc::from);
        let bind_subject = self.settings.bind_subject;
        Rc::new(TokenAuth::new(
            anonymous,
            bind_subject,
            self.security.tokens.clone(),
        ))
    }
}

/// What the core has beside its listener.
pub(crate) struct Surroundings {
    /// What time it is.
    pub(crate) clock: Rc<dyn Clock>,
    /// Who holds the core for too long.
    pub(crate) stalls: Rc<Stalls>,
    /// Where work goes that would.
    pub(crate) heavy: Rc<Heavy>,
    /// Where tenants are charged for what they publish, if they are.
    pub(crate) quotas: Option<Rc<Quotas>>,
}

/// The running listener. Lives on its core.
#[derive(Debug)]
pub(crate) struct KafkaCore {
    doors: Rc<Doors>,
    connections: Rc<Connections<Router>>,
    handshakes: Option<Rc<Handshakes>>,
    metrics: Rc<KafkaMetrics>,
    memory: Memory,
    log: ProtocolLog,
    auth: Rc<TokenAuth>,
}

fn doors(core: CpuId, settings: &Kafka, keeper: Outside<Message>) -> Doors {
    let bounds = Bounds {
        connections_max: settings.connections_max,
        per_ip_max: settings.connections_per_ip_max,
    };
    let shared = if core == DOOR_KEEPER {
        SharedDoor::Here(RefCell::new(Door::new(bounds)))
    } else {
        SharedDoor::There(keeper)
    };
    Doors::new(Door::new(bounds), shared)
}

impl KafkaCore {
    /// Accepts from here on.
    ///
    /// # Errors
    /// A bound socket cannot join the core.
    pub(crate) fn start(
        plan: KafkaPlan,
        core: CpuId,
        router: Router,
        catalog: CatalogView,
        surroundings: Surroundings,
        reactor: &Reactor,
    ) -> io::Result<Self> {
        let timeouts = plan.timeouts();
        let auth = plan.auth();
        let shared = plan.listeners.shared.adopt(reactor)?;
        let own = plan.listeners.own.map(|own| own.adopt(reactor));
        let own = own.transpose()?;
        let doors = Rc::new(doors(core, &plan.settings, plan.door_keeper));
        let metrics = Rc::new(KafkaMetrics::new(core));
        let memory = Memory::new(plan.memory_bytes_max);
        let Surroundings {
            clock,
            stalls,
            heavy,
            quotas,
        } = surroundings;
        let log = ProtocolLog::new(Rc::clone(&clock));
        let handshakes = plan.security.tls.map(|config| {
            let (beside, clock) = (Rc::new(heavy.strangers()), Rc::clone(&clock));
            Rc::new(Handshakes::new(config, timeouts.auth, beside, clock))
        });
        let context = Context {
            shards: router,
            catalog,
            topology: Rc::new((*plan.topology).clone()),
            auth: Rc::clone(&auth) as Rc<dyn Auth>,
            log: log.clone(),
            blocking: heavy,
            stalls,
            quota: quotas.map(|quotas| quotas as Rc<dyn PublishQuota>),
            producer_ids: plan.producer_ids,
            clock,
            timer: Rc::new(CoreTimer),
            settings: felix_kafka::Settings {
                default_namespace: plan.settings.default_namespace,
                cluster_id: plan.cluster_id,
            },
            memory: memory.clone(),
            metrics: Rc::clone(&metrics),
            drain: Signal::default(),
        };
        let connections = Rc::new(Connections::new(
            Rc::new(context),
            Rc::clone(&doors),
            handshakes.clone(),
            timeouts,
        ));
        connections.accept_on(shared, Node::Shared);
        if let Some(own) = own {
            connections.accept_on(own, Node::Own);
        }
        Ok(Self {
            doors,
            connections,
            handshakes,
            metrics,
            memory,
            log,
            auth,
        })
    }

    /// Who may do what there.
    #[must_use]
    pub(crate) fn auth(&self) -> &TokenAuth {
        &self.auth
    }

    /// Its doors.
    #[must_use]
    pub(crate) fn doors(&self) -> &Doors {
        &self.doors
    }

    /// Its connections.
    #[must_use]
    pub(crate) fn connections(&self) -> &Connections<Router> {
        &self.connections
    }

    /// Has new connections see another certificate, where they see any.
    pub(crate) fn renew(&self, config: TlsConfig) {
        if let Some(handshakes) = &self.handshakes {
            handshakes.renew(config);
        }
    }

    /// Hands its numbers to `take`.
    pub(crate) fn metrics(&self, mut take: impl FnMut(&dyn Metrics)) {
        take(&*self.metrics);
        take(&self.memory);
        take(&self.log);
        if let Some(handshakes) = &self.handshakes {
            take(&**handshakes);
            take(&*handshakes.metrics());
        }
    }
}
