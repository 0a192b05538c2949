//! Memory of what is there but does nothing, as differences of resident memory.

use crate::broker::{Broker, Stream};
use crate::connection::{Connection, Waiting};
use crate::plan::Plan;
use crate::produce;
use felix_tests::Policy;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Shards of the broker that the larger one is compared with.
pub(crate) const SHARDS_FEW: usize = 3;

/// What comes late, such as the reading of the first message, has happened after so long.
const SETTLE: Duration = Duration::from_secs(2);

/// Bytes of the broker for each of them; what the kernel holds is not among it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) connections: usize,
    /// A connection that has asked nothing yet.
    pub(crate) per_new_connection_bytes: u64,
    /// A connection that has appended one record of 1 KiB.
    pub(crate) per_used_connection_bytes: u64,
    pub(crate) shards: usize,
    /// A shard that is open and empty.
    pub(crate) per_shard_bytes: u64,
    /// A broker with [`SHARDS_FEW`] shards and no connection.
    pub(crate) broker_bytes: u64,
}

impl Memory {
    /// Measures on three brokers.
    pub(crate) fn measure(plan: &Plan, binary: &Path, dir: &Path) -> Self {
        raise_open_files();
        let few = Broker::start(binary, dir, &[stream(SHARDS_FEW)], &[]);
        let broker_bytes = settled(&few);
        let mut open = Vec::with_capacity(plan.connections);
        open.extend((0..plan.connections).map(|_| Connection::open(few.port(), Waiting::Parked)));
        let with_new = settled(&few);
        let request = produce::request(&stream(1).topic(), &produce::batch(1));
        for connection in &mut open {
            connection.append(&request);
        }
        let with_used = settled(&few);
        // The records themselves stay in the cache of recent batches.
        let cached = broker_with_cached(plan, binary, dir, &request);
        drop(open);
        drop(few);
        let many = Broker::start(binary, dir, &[stream(plan.shards)], &[]);
        let with_many = settled(&many);
        Self {
            connections: plan.connections,
            per_new_connection_bytes: each(broker_bytes, with_new, plan.connections),
            per_used_connection_bytes: each(cached, with_used, plan.connections),
            shards: plan.shards,
            per_shard_bytes: each(broker_bytes, with_many, plan.shards - SHARDS_FEW),
            broker_bytes,
        }
    }
}

/// Our ends of the connections are descriptors too.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("a process may go up to its hard limit");
}

/// Resident bytes of a broker that got the same records over a single connection.
fn broker_with_cached(plan: &Plan, binary: &Path, dir: &Path, request: &[u8]) -> u64 {
    let broker = Broker::start(binary, dir, &[stream(SHARDS_FEW)], &[]);
    let mut connection = Connection::open(broker.port(), Waiting::Parked);
    for _ in 0..plan.connections {
        connection.append(request);
    }
    drop(connection);
    settled(&broker)
}

fn stream(shards: usize) -> Stream {
    Stream {
        name: "idle",
        shards,
        policy: Policy::Periodic,
    }
}

fn settled(broker: &Broker) -> u64 {
    thread::sleep(SETTLE);
    broker.usage().resident_bytes
}

fn each(without: u64, with: u64, count: usize) -> u64 {
    with.saturating_sub(without) / u64::try_from(count).expect("64 bits")
}
