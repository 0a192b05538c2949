//! What tests of one core on virtual time share.

use super::Rig;
use crate::disk::memory::Faults;
use crate::runtime::simulated::{Simulation, current};
use felix_core::ShardId;
use std::rc::Rc;
use std::time::Duration;

pub(super) fn shards(rig: Rig) -> Vec<ShardId> {
    rig.stream().shard_ids().collect()
}

fn simulation() -> Rc<Simulation> {
    current().expect("the test runs in a simulation")
}

pub(super) fn now() -> Duration {
    simulation().now()
}

pub(super) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(super) fn set_faults(faults: Faults) {
    simulation().disk().set_faults(faults);
}

/// Every flush takes so long.
pub(super) fn slow(flush: Duration) -> Faults {
    Faults {
        stall: 10_000,
        slow: flush,
        ..Faults::default()
    }
}
