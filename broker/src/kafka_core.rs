//! The Kafka listener on one core: what its connections share, and its part of the doors.

use crate::core_task::Message;
use crate::door::{Bounds, Door};
use crate::executor::CoreTimer;
use crate::listeners::{Listeners, OfCore};
use crate::mailbox::Outside;
use crate::serve::{Connections, Doors, Node, SharedDoor};
use crate::settings::Kafka;
use crate::sweep::Timeouts;
use crate::token_auth::TokenAuth;
use crate::tokens::Tokens;
use felix_core::metrics::Metrics;
use felix_core::topology::Topology;
use felix_core::{Auth, Blocking, BrokerId, Clock, CpuId, Memory, Stalls};
use felix_kafka::{CatalogView, Context, KafkaMetrics, ProtocolLog, Signal};
use felix_net::Reactor;
use felix_shard::Router;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// The core that keeps the door of the shared port: the controller of Metadata, so that there is
/// one special core and not two.
const DOOR_KEEPER: CpuId = CpuId(0);

/// What one core's Kafka listener is made from: plain, to cross the thread.
#[derive(Debug)]
pub(crate) struct KafkaPlan {
    settings: Kafka,
    listeners: OfCore,
    topology: Arc<Topology>,
    cluster_id: String,
    memory_bytes_max: usize,
    tokens: Option<Arc<Tokens>>,
    door_keeper: Outside<Message>,
}

impl KafkaPlan {
    /// The plans of all cores, in their order. `keeper` is the mailbox of core 0.
    #[must_use]
    pub(crate) fn of_cores(
        listeners: Listeners,
        settings: &Kafka,
        broker: BrokerId,
        memory_bytes_max: usize,
        tokens: Option<Arc<Tokens>>,
        keeper: &Outside<Message>,
    ) -> Vec<Self> {
        let topology = Arc::new(listeners.topology);
        let of_cores = listeners.of_cores.into_iter();
        of_cores
            .map(|listeners| Self {
                settings: settings.clone(),
                listeners,
                topology: Arc::clone(&topology),
                // One broker is a cluster of its own until brokers know of each other.
                cluster_id: format!("felix-{broker}"),
                memory_bytes_max,
                tokens: tokens.clone(),
                door_keeper: keeper.clone(),
            })
            .collect()
    }
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
        Rc::new(TokenAuth::new(anonymous, bind_subject, self.tokens.clone()))
    }
}

/// What the core has beside its listener.
pub(crate) struct Surroundings {
    /// What time it is.
    pub(crate) clock: Rc<dyn Clock>,
    /// Who holds the core for too long.
    pub(crate) stalls: Rc<Stalls>,
    /// Where work goes that would.
    pub(crate) blocking: Rc<dyn Blocking>,
}

/// The running listener. Lives on its core.
#[derive(Debug)]
pub(crate) struct KafkaCore {
    doors: Rc<Doors>,
    connections: Rc<Connections<Router>>,
    metrics: Rc<KafkaMetrics>,
    memory: Memory,
    log: ProtocolLog,
    auth: Rc<TokenAuth>,
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
        let own = plan
            .listeners
            .own
            .map(|own| own.adopt(reactor))
            .transpose()?;
        let bounds = Bounds {
            connections_max: plan.settings.connections_max,
            per_ip_max: plan.settings.connections_per_ip_max,
        };
        let shared_door = if core == DOOR_KEEPER {
            SharedDoor::Here(RefCell::new(Door::new(bounds)))
        } else {
            SharedDoor::There(plan.door_keeper)
        };
        let doors = Rc::new(Doors::new(Door::new(bounds), shared_door));
        let metrics: Rc<KafkaMetrics> = Rc::default();
        let memory = Memory::new(plan.memory_bytes_max);
        let Surroundings {
            clock,
            stalls,
            blocking,
        } = surroundings;
        let log = ProtocolLog::new(Rc::clone(&clock));
        let context = Context {
            shards: router,
            catalog,
            topology: Rc::new((*plan.topology).clone()),
            auth: Rc::clone(&auth) as Rc<dyn Auth>,
            log: log.clone(),
            blocking,
            stalls,
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
            timeouts,
        ));
        connections.accept_on(shared, Node::Shared);
        if let Some(own) = own {
            connections.accept_on(own, Node::Own);
        }
        Ok(Self {
            doors,
            connections,
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

    /// Its numbers.
    #[must_use]
    pub(crate) fn metrics(&self) -> [&dyn Metrics; 3] {
        [&*self.metrics, &self.memory, &self.log]
    }
}
