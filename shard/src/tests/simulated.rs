//! A whole core on virtual time and a disk in memory.

use super::{Rig, batch};
use crate::runtime::simulated::{SimulatedClock, Simulation};
use crate::{Core, Router, mesh};
use felix_core::blocking::Here;
use felix_core::shards::{Acks, Append};
use felix_core::{Clock, Durability, Offset, ShardId, Shards, Stalls};
use std::path::Path;
use std::rc::Rc;

/// Starts a core over whatever the disk of the simulation holds, does `scenario` with it, and lets
/// the process end there without a word.
pub(super) fn life<F: Future<Output = ()> + 'static>(
    simulation: &Rc<Simulation>,
    rig: Rig,
    scenario: impl FnOnce(Router, ShardId) -> F + 'static,
) {
    let clock: Rc<dyn Clock> = Rc::new(SimulatedClock(Rc::clone(simulation)));
    simulation.run(async move {
        let stalls = Rc::new(Stalls::new(Rc::clone(&clock), super::STALL_BOUNDS, |_| {}));
        let seed = mesh(1).pop().expect("a mesh of one core has it");
        let core: Core = seed.start(rig.config(), clock, stalls, Rc::new(Here));
        let specs = rig.specs(Path::new("/data"));
        let shard = specs[0].id;
        core.open(specs);
        core.opened().await;
        scenario(core.router(), shard).await;
    });
}

async fn append(router: &Router, shard: ShardId, value: &str) -> Offset {
    let batch = batch(&[value]);
    let committed = router
        .append(vec![Append { shard, batch }], Acks::All)
        .await;
    committed.await.remove(0).unwrap().base_offset
}

#[test]
fn what_was_committed_survives_a_power_loss_and_what_was_only_written_a_kill() {
    for (durability, power_fails, survives) in [
        (Durability::OnCommit, true, true),
        (Durability::OnCommit, false, true),
        (Durability::Periodic, false, true),
        (Durability::Periodic, true, false),
    ] {
        let rig = Rig {
            flush_interval: super::FOREVER,
            ..Rig::new(1, durability)
        };
        let simulation = Simulation::new(7);
        life(&simulation, rig, |router, shard| async move {
            assert_eq!(append(&router, shard, "a").await, Offset::ZERO);
        });
        if power_fails {
            simulation.disk().lose_power();
        }
        life(&simulation, rig, move |router, shard| async move {
            let next = append(&router, shard, "b").await;
            assert_eq!(next == Offset::new(1), survives, "{durability:?}: {next}");
        });
    }
}
