//! What all Kafka connections of one CPU core share.

use crate::log::ProtocolLog;
use crate::metrics::KafkaMetrics;
use crate::signal::Signal;
use felix_core::topology::Topology;
use felix_core::{
    Auth, Blocking, Catalog, Clock, Memory, ProducerIds, PublishQuota, Stalls, Timer,
};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// What an operator chooses for the listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The namespace meant by a topic name without a dot; `None`: such names mean nothing.
    pub default_namespace: Option<String>,
    /// How the cluster calls itself in Metadata.
    pub cluster_id: String,
}

/// The catalog in force on this CPU core. Clones see the same one; a change is seen by the next
/// request.
#[derive(Clone, Debug)]
pub struct CatalogView(Rc<RefCell<Rc<Catalog>>>);

impl CatalogView {
    /// A view that begins with this catalog.
    #[must_use]
    pub fn new(catalog: Rc<Catalog>) -> Self {
        Self(Rc::new(RefCell::new(catalog)))
    }

    /// The catalog now. It stays as it is for as long as the caller holds it.
    #[must_use]
    pub fn current(&self) -> Rc<Catalog> {
        Rc::clone(&self.0.borrow())
    }

    /// Puts another catalog in force.
    pub fn replace(&self, catalog: Rc<Catalog>) {
        *self.0.borrow_mut() = catalog;
    }
}

/// What all connections of one CPU core share. Lives on that core.
pub struct Context<S> {
    /// The shards of this broker.
    pub shards: S,
    /// What streams there are.
    pub catalog: CatalogView,
    /// The nodes clients are told of.
    pub topology: Rc<Topology>,
    /// Who may do what.
    pub auth: Rc<dyn Auth>,
    /// What tenants publish is charged here; `None`: as much as they like.
    pub quota: Option<Rc<dyn PublishQuota>>,
    /// The ids of this core's idempotent producers.
    pub producer_ids: ProducerIds,
    /// What time it is.
    pub clock: Rc<dyn Clock>,
    /// Where connections wait for a time to come.
    pub timer: Rc<dyn Timer>,
    /// What the operator chose.
    pub settings: Settings,
    /// What requests and answers may take.
    pub memory: Memory,
    /// What is counted.
    pub metrics: Rc<KafkaMetrics>,
    /// What peers do wrong.
    pub log: ProtocolLog,
    /// Where work goes that would hold the core for too long.
    pub blocking: Rc<dyn Blocking>,
    /// Who holds the core for too long.
    pub stalls: Rc<Stalls>,
    /// Raised when the broker shuts down: connections then read nothing more, end their long
    /// polls, finish what they owe and close.
    pub drain: Signal,
}

impl<S> fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("catalog", &self.catalog)
            .field("topology", &self.topology)
            .field("settings", &self.settings)
            .field("memory", &self.memory)
            .field("drain", &self.drain)
            .finish_non_exhaustive()
    }
}
