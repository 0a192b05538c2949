//! What a broker costs that has nothing to do: processor time while idle, and memory of what is
//! there, as differences of resident memory. What the kernel holds for it is not among it.

use crate::broker::{FreshBroker, FreshStream};
use crate::client::{BatchMaker, answer, error_name, request};
use crate::open_files;
use crate::problem::Problem;
use crate::usage::Usage;
use felix_core::batch::Codec;
use serde::Serialize;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Shards of the broker that others are compared with.
const SHARDS_FEW: usize = 3;

/// Connections that are open while the idle broker is watched.
const CONNECTIONS_IDLE: usize = 100;

/// What comes late, such as the reading of the first message, has happened after so long.
const SETTLE: Duration = Duration::from_secs(2);

/// An idle broker answers long before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of the record that a connection appends.
const VALUE_BYTES: usize = 1 << 10;

const STREAM: &str = "idle";
const DURABILITY: &str = "periodic";

/// How much of everything is looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FootprintPlan {
    /// The processors that the broker gets.
    pub cores: Vec<usize>,
    /// Connections to open, of which each later appends a record of 1 KiB.
    pub connections: usize,
    /// Shards of the larger broker; more than 3.
    pub shards: usize,
    /// Seconds for which an idle broker is watched.
    pub idle_s: u64,
}

impl FootprintPlan {
    /// Enough of everything that single pages do not matter.
    #[must_use]
    pub fn full(cores: Vec<usize>) -> Self {
        Self {
            cores,
            connections: 4_000,
            shards: 1_000,
            idle_s: 30,
        }
    }

    /// A quarter of it.
    #[must_use]
    pub fn quick(cores: Vec<usize>) -> Self {
        Self {
            cores,
            connections: 1_000,
            shards: 250,
            idle_s: 8,
        }
    }

    fn check(&self) -> Result<(), Problem> {
        if self.connections == 0 {
            return Err(Problem::new("a footprint needs at least one connection"));
        }
        if self.shards <= SHARDS_FEW {
            return Err(Problem::new(format!(
                "a footprint needs more than {SHARDS_FEW} shards, not {}",
                self.shards
            )));
        }
        open_files::raise(self.connections.max(CONNECTIONS_IDLE))
    }
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Footprint {
    /// Processors that the broker had.
    pub cores: usize,
    /// Shards and connections of the broker that was watched while it had nothing to do.
    pub idle_shards: usize,
    /// Connections of it.
    pub idle_connections: usize,
    /// Seconds for which it was watched.
    pub idle_seconds: u64,
    /// Processor time of all its threads meanwhile, in ticks of 10 ms.
    pub idle_cpu_ticks: u64,
    /// Resident bytes of a broker with [`idle_shards`](Self::idle_shards) shards and without
    /// connections.
    pub broker_bytes: u64,
    /// Connections that the next two are means over.
    pub connections: usize,
    /// Bytes for each connection that has asked nothing yet.
    pub open_connection_bytes: u64,
    /// Bytes for each connection that has appended one record of 1 KiB, without the record.
    pub used_connection_bytes: u64,
    /// Shards that the next is a mean over.
    pub shards: usize,
    /// Bytes for each shard that is open and empty.
    pub shard_bytes: u64,
}

/// Takes the footprint of `binary`, with data under `dir`. Tells `progress` what comes next. No
/// load: it may run beside other things, as far as memory goes.
///
/// # Errors
/// The plan makes no sense, the broker does not start or refuses an append, or the system has no
/// room for so many connections.
pub fn take(
    plan: &FootprintPlan,
    binary: &Path,
    dir: &Path,
    mut progress: impl FnMut(&str),
) -> Result<Footprint, Problem> {
    plan.check()?;
    let connections_max = plan.connections.max(CONNECTIONS_IDLE).to_string();
    let settings = [("FELIX_KAFKA_MAX_CONNECTIONS".to_owned(), connections_max)];
    let start = |shards| {
        let stream = FreshStream::new(STREAM, shards, DURABILITY);
        FreshBroker::start(binary, dir, &plan.cores, &[stream], &settings)
    };
    progress("an idle broker");
    let few = start(SHARDS_FEW)?;
    let broker_bytes = settled(&few)?;
    let idle_cpu_ticks = idle_cpu_ticks(&few, plan.idle_s)?;
    drop(few);

    progress("memory of connections");
    let few = start(SHARDS_FEW)?;
    let without = settled(&few)?;
    let mut open = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        open.push(connect(&few)?);
    }
    let with_open = settled(&few)?;
    for stream in &mut open {
        append(stream)?;
    }
    let with_used = settled(&few)?;
    drop((open, few));

    // The records themselves stay in the cache of recent batches.
    progress("memory of the same records over one connection");
    let cached = start(SHARDS_FEW)?;
    let mut one = connect(&cached)?;
    for _ in 0..plan.connections {
        append(&mut one)?;
    }
    drop(one);
    let with_cached = settled(&cached)?;
    drop(cached);

    progress("memory of shards");
    let with_shards = settled(&start(plan.shards)?)?;
    Ok(Footprint {
        cores: plan.cores.len(),
        idle_shards: SHARDS_FEW,
        idle_connections: CONNECTIONS_IDLE,
        idle_seconds: plan.idle_s,
        idle_cpu_ticks,
        broker_bytes,
        connections: plan.connections,
        open_connection_bytes: each(without, with_open, plan.connections),
        used_connection_bytes: each(with_cached, with_used, plan.connections),
        shards: plan.shards,
        shard_bytes: each(broker_bytes, with_shards, plan.shards - SHARDS_FEW),
    })
}

fn idle_cpu_ticks(broker: &FreshBroker, seconds: u64) -> Result<u64, Problem> {
    let mut open = Vec::with_capacity(CONNECTIONS_IDLE);
    for _ in 0..CONNECTIONS_IDLE {
        open.push(connect(broker)?);
    }
    thread::sleep(SETTLE);
    let before = usage(broker)?.cpu_ticks;
    thread::sleep(Duration::from_secs(seconds));
    Ok(usage(broker)?.cpu_ticks - before)
}

fn settled(broker: &FreshBroker) -> Result<u64, Problem> {
    thread::sleep(SETTLE);
    Ok(usage(broker)?.resident_bytes)
}

fn usage(broker: &FreshBroker) -> Result<Usage, Problem> {
    Usage::of(broker.pid())
        .map_err(|error| Problem::new(format!("the broker cannot be looked at: {error}")))
}

fn connect(broker: &FreshBroker) -> Result<TcpStream, Problem> {
    let connected = |address: SocketAddr| -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(stream)
    };
    connected(broker.address())
        .map_err(|error| Problem::new(format!("the broker takes no connection: {error}")))
}

/// Appends one record and awaits the answer.
fn append(stream: &mut TcpStream) -> Result<(), Problem> {
    let topic = FreshStream::new(STREAM, 1, DURABILITY).topic();
    let batch = BatchMaker::new(Codec::None, 0)
        .record(None, &[7; VALUE_BYTES])
        .prepare()?;
    let mut asked = Vec::new();
    request::produce(&mut asked, 1, -1, 30_000, &topic, 0, batch.bytes());
    let exchanged = |stream: &mut TcpStream| -> io::Result<Vec<u8>> {
        stream.write_all(&asked)?;
        let mut length = [0; answer::LENGTH_BYTES];
        stream.read_exact(&mut length)?;
        let length = u64::from(u32::from_be_bytes(length));
        let mut frame = Vec::new();
        stream.take(length).read_to_end(&mut frame)?;
        Ok(frame)
    };
    let frame = exchanged(stream)
        .map_err(|error| Problem::new(format!("the broker does not answer an append: {error}")))?;
    match answer::produced(&frame)?.error {
        0 => Ok(()),
        code => Err(Problem::new(format!(
            "the broker refuses an append: {}",
            error_name(code)
        ))),
    }
}

fn each(without: u64, with: u64, count: usize) -> u64 {
    with.saturating_sub(without) / u64::try_from(count).expect("64 bits")
}

impl fmt::Display for Footprint {
    /// A table in Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | figure |")?;
        writeln!(f, "|---|---|")?;
        writeln!(
            f,
            "| processor time while idle, {} connections and {} shards open | {} ms in {} s |",
            self.idle_connections,
            self.idle_shards,
            self.idle_cpu_ticks.saturating_mul(10),
            self.idle_seconds
        )?;
        let mut row = |what: &str, bytes: u64| writeln!(f, "| {what} | {} |", Size(bytes));
        let (connections, shards) = (self.connections, self.shards);
        let broker = format!(
            "memory of a broker on {} processor(s), {} shards open and no connection",
            self.cores, self.idle_shards
        );
        row(&broker, self.broker_bytes)?;
        row(
            &format!("a connection that has asked nothing, of {connections}"),
            self.open_connection_bytes,
        )?;
        row(
            &format!("a connection that has appended once, of {connections}"),
            self.used_connection_bytes,
        )?;
        row(
            &format!("a shard that is open and empty, of {shards}"),
            self.shard_bytes,
        )
    }
}

/// Bytes with a unit that leaves a readable number.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let tenths = |unit: u64| (bytes / unit, bytes % unit * 10 / unit);
        match bytes {
            0..1_024 => write!(f, "{bytes} B"),
            1_024..1_048_576 => {
                let (whole, tenth) = tenths(1 << 10);
                write!(f, "{whole}.{tenth} KiB")
            }
            _ => {
                let (whole, tenth) = tenths(1 << 20);
                write!(f, "{whole}.{tenth} MiB")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_without_anything_to_divide_by_is_refused() {
        let plan = FootprintPlan::quick(vec![0]);
        for wrong in [
            FootprintPlan {
                connections: 0,
                ..plan.clone()
            },
            FootprintPlan {
                shards: SHARDS_FEW,
                ..plan
            },
        ] {
            wrong.check().unwrap_err();
        }
    }

    #[test]
    fn the_table_shows_each_figure_with_its_unit() {
        let footprint = Footprint {
            cores: 1,
            idle_shards: 3,
            idle_connections: 100,
            idle_seconds: 10,
            idle_cpu_ticks: 4,
            broker_bytes: 21 << 20,
            connections: 1000,
            open_connection_bytes: 1_234,
            used_connection_bytes: 1_023,
            shards: 250,
            shard_bytes: (3 << 20) + (1 << 19),
        };
        let table = footprint.to_string();
        for figure in ["40 ms in 10 s", "21.0 MiB", "1.2 KiB", "1023 B", "3.5 MiB"] {
            assert!(table.contains(figure), "{figure} in {table}");
        }
        let columns: Vec<usize> = table.lines().map(|row| row.matches('|').count()).collect();
        assert_eq!(columns, [3; 7]);
    }
}
