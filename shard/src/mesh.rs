//! All lanes between the cores of a broker, made at once and then handed out, one seed a core.

use crate::cpu_core::{Core, CoreConfig};
use crate::lane::{Doorbell, Incoming, Outgoing, ring};
use crate::message::{Reply, Request};
use crate::port::PortSeed;
use felix_core::limits::LANE_CREDITS;
use felix_core::{Blocking, Clock, CpuId, Stalls};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// What a core's thread starts from. Made on any thread, moved to that of its core.
pub struct CoreSeed {
    pub(crate) core: CpuId,
    pub(crate) cores: u16,
    pub(crate) doorbell: Arc<Doorbell>,
    pub(crate) ports: Vec<PortSeed>,
}

/// Seeds for `cores` cores, in their order.
#[must_use]
pub fn mesh(cores: u16) -> Vec<CoreSeed> {
    assert!(cores > 0, "a broker has at least one core");
    let mut seeds: Vec<CoreSeed> = (0..cores)
        .map(|core| CoreSeed {
            core: CpuId(core),
            cores,
            doorbell: Arc::default(),
            ports: Vec::new(),
        })
        .collect();
    for near in 0..seeds.len() {
        for far in near + 1..seeds.len() {
            let (here, there) = pair(&seeds[near], &seeds[far]);
            seeds[near].ports.push(here);
            seeds[far].ports.push(there);
        }
    }
    seeds
}

/// The two ends of everything between two cores.
fn pair(near: &CoreSeed, far: &CoreSeed) -> (PortSeed, PortSeed) {
    let there = lane(near, far);
    let back = lane(far, near);
    (
        PortSeed {
            peer: far.core,
            requests_out: there.requests_out,
            replies_in: there.replies_in,
            requests_in: back.requests_in,
            replies_out: back.replies_out,
        },
        PortSeed {
            peer: near.core,
            requests_out: back.requests_out,
            replies_in: back.replies_in,
            requests_in: there.requests_in,
            replies_out: there.replies_out,
        },
    )
}

struct Lane {
    requests_out: Outgoing<Request>,
    requests_in: Incoming<Request>,
    replies_out: Outgoing<Reply>,
    replies_in: Incoming<Reply>,
}

/// The request ring from one core to another, and the reply ring back. Both are as large as the
/// credits: each request under way has room for itself and for one reply.
fn lane(from: &CoreSeed, to: &CoreSeed) -> Lane {
    let (requests_out, requests_in) = ring(LANE_CREDITS, &from.doorbell, &to.doorbell);
    let (replies_out, replies_in) = ring(LANE_CREDITS, &to.doorbell, &from.doorbell);
    Lane {
        requests_out,
        requests_in,
        replies_out,
        replies_in,
    }
}

impl CoreSeed {
    /// Which core it is for.
    #[must_use]
    pub fn core(&self) -> CpuId {
        self.core
    }

    /// Starts the core's tasks on the executor of the calling thread, which is to be the core's.
    /// `stalls` is told how long each of their turns takes; `heavy` does what would be too long a
    /// turn, and is to go on until the core has closed.
    #[must_use]
    pub fn start(
        self,
        config: CoreConfig,
        clock: Rc<dyn Clock>,
        stalls: Rc<Stalls>,
        heavy: Rc<dyn Blocking>,
    ) -> Core {
        Core::start(self, config, clock, stalls, heavy)
    }
}

impl fmt::Debug for CoreSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreSeed")
            .field("core", &self.core)
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}
