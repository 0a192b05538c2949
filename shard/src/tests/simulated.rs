//! Whole meshes on virtual time and a disk in memory that fails and forgets: one seed, one story.

mod client;
mod fullness;
mod model;
mod producer;
mod promotion;
mod reader;
mod sent;
mod setup;
mod story;
mod told;

use super::{Rig, batch};
use crate::runtime::broken::Broken;
use crate::runtime::simulated::{SimulatedClock, Simulation};
use crate::{Core, Router, mesh};
use felix_core::blocking::Here;
use felix_core::shards::{Acks, Append};
use felix_core::{Clock, Durability, Offset, ShardId, Shards, Stalls};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use told::Told;

/// Starts a core over whatever the disk of the simulation holds, does `scenario` with it, and lets
/// the process end there without a word.
pub(super) fn life<F: Future<Output = ()> + 'static>(
    simulation: &Rc<Simulation>,
    rig: Rig,
    scenario: impl FnOnce(Router, ShardId) -> F + 'static,
) {
    let shard = rig.specs(Path::new("/data"))[0].id;
    life_of_core(simulation, rig, &[rig], move |core| {
        let router = core.router();
        async move {
            scenario(router, shard).await;
            drop(core);
        }
    });
}

/// The same with the core at hand, which has a stream for each of `streams`.
pub(super) fn life_of_core<F: Future<Output = ()> + 'static>(
    simulation: &Rc<Simulation>,
    rig: Rig,
    streams: &[Rig],
    scenario: impl FnOnce(Core) -> F + 'static,
) {
    let clock: Rc<dyn Clock> = Rc::new(SimulatedClock(Rc::clone(simulation)));
    let specs = streams.iter().flat_map(|rig| rig.specs(Path::new("/data")));
    let specs: Vec<_> = specs.collect();
    simulation.run(async move {
        let stalls = Rc::new(Stalls::new(Rc::clone(&clock), super::STALL_BOUNDS, |_| {}));
        let seed = mesh(rig.cores).swap_remove(0);
        let core: Core = seed.start(rig.config(), clock, stalls, Rc::new(Here));
        core.open(specs);
        core.opened().await;
        scenario(core).await;
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

/// How many stories a run of all tests tells at least, and at most where it has the time.
const STORIES_MIN: u64 = 200;
const STORIES: u64 = 500;
const STORIES_TAKE: Duration = Duration::from_secs(20);

/// How many the full run tells.
const STORIES_FULL: u64 = 10_000;

/// How many a broken engine gets to be found out.
const STORIES_OF_BROKEN: u64 = 2000;

fn tell(seed: u64, aloud: bool) -> Told {
    let told = catch_unwind(AssertUnwindSafe(|| story::tell(seed, None, aloud)));
    told.unwrap_or_else(|panic| {
        eprintln!(
            "the story of seed {seed} breaks a promise; tell it again with \
             FELIX_TESTS_SIMULATED_SEED={seed} cargo test -p felix-shard --lib simulated"
        );
        resume_unwind(panic)
    })
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "bounds the test, not what it tests"
)]
fn promises_hold_through_crashes_and_faults_whatever_the_seed() {
    if let Some(seed) = number("FELIX_TESTS_SIMULATED_SEED") {
        println!("{:?}", tell(seed, true));
        return;
    }
    let is_full = std::env::var_os("FELIX_TESTS_FULL").is_some_and(|full| full == "1");
    let asked = number("FELIX_TESTS_SIMULATED_STORIES");
    let stories = asked.unwrap_or(if is_full { STORIES_FULL } else { STORIES });
    let base = fastrand::u64(..u64::MAX / 2);
    println!("FELIX_TESTS_SIMULATED_SEED={base} and those that follow");
    let begun = Instant::now();
    let mut all = Told::default();
    let mut count = 0;
    for seed in base..base + stories {
        let is_enough = count >= STORIES_MIN && begun.elapsed() > STORIES_TAKE;
        if !is_full && asked.is_none() && is_enough {
            break;
        }
        all.add(&tell(seed, false));
        count += 1;
    }
    println!("{count} stories: {all:?}");
    let missing = all.missing();
    assert!(missing.is_empty(), "never happened: {missing:?}");
}

#[test]
fn one_seed_tells_one_story() {
    for seed in 0..10 {
        assert_eq!(tell(seed, false), tell(seed, false));
    }
}

#[test]
fn engines_that_are_broken_on_purpose_are_found_out() {
    for broken in Broken::ALL {
        let is_found = |seed| catch_unwind(|| story::tell(seed, Some(broken), false)).is_err();
        let found = (0..STORIES_OF_BROKEN).find(|seed| is_found(*seed));
        println!("{broken:?}: found out by seed {found:?}");
        assert!(found.is_some(), "nobody notices {broken:?}");
    }
}
