//! The Kafka listeners of all cores, bound before any core runs, and what clients are told of
//! them.

use crate::ports;
use crate::settings::{Kafka, Settings};
use felix_core::topology::{Address, Topology};
use felix_net::Bound;
use std::io;
use std::net::SocketAddr;

/// The listeners of one core.
#[derive(Debug)]
pub(crate) struct OfCore {
    /// Its part of the shared port: the kernel spreads connections over the cores.
    pub(crate) shared: Bound,
    /// The port that is its own, where core ports are on.
    pub(crate) own: Option<Bound>,
}

/// All Kafka listeners.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// By core.
    pub(crate) of_cores: Vec<OfCore>,
    /// What clients are told.
    pub(crate) topology: Topology,
    /// The address of the shared port.
    pub(crate) shared: SocketAddr,
}

impl Listeners {
    /// Binds them all.
    ///
    /// # Errors
    /// A sentence that names the address and the cure.
    pub(crate) fn bind(kafka: &Kafka, settings: &Settings, cores: u16) -> Result<Self, String> {
        let group = Bound::group(kafka.listen, usize::from(cores))
            .map_err(|error| refusal(&error, "FELIX_KAFKA_LISTEN"))?;
        let shared = group
            .first()
            .expect("there is at least one core")
            .local_addr();
        let mut own = Vec::new();
        for core in 0..cores {
            let Some(address) = ports::of_core(kafka, shared.ip(), core)? else {
                break;
            };
            let group = Bound::group(address, 1)
                .map_err(|error| refusal(&error, "FELIX_KAFKA_CORE_PORT_BASE"))?;
            own.extend(group);
        }
        let topology = topology(kafka, settings, cores, shared, &own);
        let mut own = own.into_iter();
        let of_cores = group
            .into_iter()
            .map(|shared| OfCore {
                shared,
                own: own.next(),
            })
            .collect();
        Ok(Self {
            of_cores,
            topology,
            shared,
        })
    }
}

fn topology(
    kafka: &Kafka,
    settings: &Settings,
    cores: u16,
    shared: SocketAddr,
    own: &[Bound],
) -> Topology {
    let advertised = kafka.advertise.clone().unwrap_or_else(|| Address {
        host: shared.ip().to_string(),
        port: shared.port(),
    });
    let addresses = if own.is_empty() {
        vec![advertised]
    } else {
        let port = |bound: &Bound| bound.local_addr().port();
        own.iter()
            .map(|bound| Address {
                host: advertised.host.clone(),
                port: port(bound),
            })
            .collect()
    };
    Topology::new(settings.broker, cores, addresses, settings.rack.as_deref())
}

/// Why an address cannot be listened on, with the setting to change.
pub(crate) fn refusal(error: &io::Error, variable: &str) -> String {
    let cure = match error.kind() {
        io::ErrorKind::AddrInUse => "stop what listens there, or choose another address",
        io::ErrorKind::AddrNotAvailable => "choose an address that this machine has",
        io::ErrorKind::PermissionDenied => "choose a port from 1024 up, or allow this one",
        _ => "choose another address",
    };
    format!("{error}; {cure} ({variable})")
}
