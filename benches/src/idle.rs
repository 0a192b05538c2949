//! What a broker uses that nobody asks anything.

use crate::broker::{Broker, Stream};
use crate::plan::Plan;
use felix_tests::Policy;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Shards of the idle broker.
pub(crate) const SHARDS: usize = 3;
/// Connections open to it.
pub(crate) const CONNECTIONS: usize = 100;

/// So long after the last connection an idle broker has settled.
const SETTLE: Duration = Duration::from_secs(2);

/// Processor time of an idle broker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    pub(crate) seconds: u64,
    /// Ticks of 10 ms, all threads.
    pub(crate) cpu_ticks: u64,
}

impl Idle {
    /// Watches one for some seconds.
    pub(crate) fn measure(plan: &Plan, binary: &Path, dir: &Path) -> Self {
        let stream = Stream {
            name: "idle",
            shards: SHARDS,
            policy: Policy::Periodic,
        };
        let broker = Broker::start(binary, dir, &[stream], &[]);
        let connect = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, broker.port()));
        let open = (0..CONNECTIONS).map(connect).collect::<Result<Vec<_>, _>>();
        let open = open.expect("the broker accepts");
        thread::sleep(SETTLE);
        let before = broker.usage().cpu_ticks;
        thread::sleep(Duration::from_secs(plan.idle_s));
        let cpu_ticks = broker.usage().cpu_ticks - before;
        drop(open);
        Self {
            seconds: plan.idle_s,
            cpu_ticks,
        }
    }
}
