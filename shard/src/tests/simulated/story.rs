//! One seed's story: lives of a mesh, crashes between them, and the promises checked after each.

use super::model::{Crash, Model};
use super::producer::Producer;
use super::setup;
use super::told::{COUNTED, Told};
use crate::disk::memory::Faults;
use crate::runtime::broken::Broken;
use crate::runtime::simulated::{SimulatedClock, Simulation};
use crate::tests::{Rig, STALL_BOUNDS, metric};
use crate::{Core, Router, ShardSpec, mesh, runtime};
use felix_core::blocking::Here;
use felix_core::shards::ShardState;
use felix_core::{Clock, Durability, Generation, ShardId, Shards, Stalls, Timestamp};
use futures_util::future::{Either, join_all, select};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

pub(super) const ROOT: &str = "/data";

/// A flush that is well, or slow, and the turns until it begins, all taken generously.
const LAG: Duration = Duration::from_millis(100);

/// Idempotent producers of each shard.
pub(super) const PRODUCERS: usize = 2;

/// See the module.
#[derive(Clone)]
pub(super) struct Story {
    pub(super) simulation: Rc<Simulation>,
    /// Whether it says what happens, for people.
    aloud: bool,
    pub(super) rig: Rig,
    /// The greatest generation that is noted beside the logs, as brokers do; `None`: nobody does.
    noted: Rc<Cell<Option<Generation>>>,
    pub(super) shards: Rc<Vec<ShardId>>,
    pub(super) policies: Rc<Vec<Durability>>,
    pub(super) models: Rc<Vec<RefCell<Model>>>,
    /// Idempotent ones, of each shard.
    pub(super) producers: Rc<Vec<[RefCell<Producer>; PRODUCERS]>>,
    /// In this life nothing is wrong with the disk but that it has no space.
    pub(super) is_full_only: Rc<Cell<bool>>,
    pub(super) told: Rc<RefCell<Told>>,
}

/// Tells the story of `seed`, aloud or not, with an engine that is broken like that. Panics where a promise is not
/// kept.
pub(super) fn tell(seed: u64, broken: Option<Broken>, aloud: bool) -> Told {
    let simulation = Simulation::new(seed);
    simulation.break_engine(broken);
    let rig = simulation.draw(setup::rig);
    let noted = simulation.draw(setup::noted);
    let shards: Vec<_> = rig.stream().shard_ids().collect();
    let lag = rig.flush_interval + LAG;
    let policies: Vec<_> = shards
        .iter()
        .map(|_| simulation.draw(|random| setup::policy(random, rig.durability)))
        .collect();
    let ahead = simulation.draw(setup::ahead);
    let models = policies
        .iter()
        .map(|policy| RefCell::new(Model::new(&rig, *policy, lag, ahead)))
        .collect();
    let producers = (0i64..)
        .take(shards.len())
        .map(|shard| [0, 1].map(|number| RefCell::new(Producer::new(10 * shard + number))))
        .collect();
    if aloud {
        println!("{rig:?}\n{policies:?}, noted: {noted:?}, ahead by {ahead:?}");
    }
    let story = Story {
        simulation,
        aloud,
        rig,
        noted: Rc::new(Cell::new(noted)),
        shards: Rc::new(shards),
        policies: Rc::new(policies),
        models: Rc::new(models),
        producers: Rc::new(producers),
        is_full_only: Rc::default(),
        told: Rc::default(),
    };
    let lives = story.simulation.draw(|random| random.u32(2..=5));
    for _ in 0..lives {
        let faults = story.simulation.draw(setup::faults);
        let is_promotion = story.simulation.draw(|random| random.u8(..8)) == 0;
        story.live(faults, is_promotion, false);
    }
    story.live(None, false, true);
    story.told(lives)
}

impl Story {
    /// Says what happens, where one story is told.
    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        if self.aloud {
            println!("{:?} {}", self.simulation.now(), what());
        }
    }

    /// One life of the mesh, to its crash; or openings by another leader, to theirs. The last one is whole, so
    /// that all is looked at once more.
    fn live(&self, faults: Option<Faults>, is_promotion: bool, is_last: bool) {
        self.say(|| format!("life with {faults:?}, promotion: {is_promotion}"));
        let disk = Rc::clone(self.simulation.disk());
        disk.set_faults(Faults {
            lies: self.simulation.is_broken(Broken::FlushSkipped),
            ..faults.unwrap_or_default()
        });
        self.is_full_only.set(faults.is_some_and(|faults| {
            let capacity = faults.capacity;
            capacity.is_some()
                && faults
                    == Faults {
                        capacity,
                        ..Faults::default()
                    }
        }));
        // Before it has opened, while it works, or after all has been done.
        let until = self
            .simulation
            .draw(|random| Duration::from_micros(random.u64(..60_000)));
        let until = (!is_last).then_some(until);
        let until = until.filter(|_| self.simulation.draw(fastrand::Rng::bool));
        for producer in self.producers.iter().flatten() {
            producer.borrow_mut().is_cut_off();
        }
        let story = self.clone();
        self.simulation.run(async move {
            story.make_reserve(faults);
            let life = async {
                match is_promotion {
                    true => story.promote(faults.is_none()).await,
                    false => story.life(faults.is_none()).await,
                }
            };
            let life = pin!(life);
            match until {
                Some(until) => {
                    let end = pin!(runtime::sleep(until));
                    if let Either::Left(((), _)) = select(life, end).await {}
                }
                None => life.await,
            }
        });
        let strangers = disk.strangers();
        assert!(strangers.is_empty(), "for no shard: {strangers:?}");
        let power = self.simulation.draw(fastrand::Rng::bool);
        if power {
            self.simulation
                .draw(|random| disk.lose_power_by_chance(random));
        }
        let crash = if power { Crash::Power } else { Crash::Kill };
        self.say(|| format!("{crash:?}"));
        // One that is refused is tried again half a second later, and of a shard that failed
        // meanwhile only when it is opened again.
        let flushes_fail = faults.is_some_and(|faults| {
            faults.flush > 0 || faults.sync > 0 || faults.names > 0 || faults.descriptors > 0
        });
        for model in &*self.models {
            model
                .borrow_mut()
                .crashed(crash, flushes_fail, self.simulation.now());
        }
    }

    pub(super) fn wall(&self) -> Timestamp {
        SimulatedClock(Rc::clone(&self.simulation)).wall()
    }

    async fn life(&self, is_well: bool) {
        let clock: Rc<dyn Clock> = Rc::new(SimulatedClock(Rc::clone(&self.simulation)));
        let specs = self.specs();
        let mut cores: Vec<Core> = Vec::new();
        for seed in mesh(self.rig.cores) {
            let stalls = Stalls::new(Rc::clone(&clock), STALL_BOUNDS, |_| {});
            let core = seed.start(
                self.rig.config(),
                Rc::clone(&clock),
                Rc::new(stalls),
                Rc::new(Here),
            );
            let story = self.clone();
            core.when_reopened(move |_, generation| story.reopened(generation));
            core.open(specs.clone());
            cores.push(core);
        }
        for core in &cores {
            core.opened().await;
            core.settled().await;
        }
        let cores = Rc::new(cores);
        let routers: Vec<Router> = cores.iter().map(Core::router).collect();
        for index in 0..self.shards.len() {
            self.check(&routers[0], index, is_well).await;
        }
        let mut starts = Vec::new();
        for index in 0..self.shards.len() {
            starts.push(self.earliest(&routers[0], index).await);
        }
        let clients = self.simulation.draw(|random| random.usize(1..=6));
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let story = self.clone();
                let router = routers[client % routers.len()].clone();
                let cores = Rc::clone(&cores);
                runtime::spawn_local(async move { story.client(router, cores).await })
            })
            .collect();
        for task in tasks {
            task.join().await;
        }
        if self.is_full_only.get() {
            self.has_space_again(&routers[0]).await;
        }
        if is_well {
            for (index, start) in starts.into_iter().enumerate() {
                self.check_kept(&routers[0], index, start).await;
            }
        }
        drop(routers);
        let cores = Rc::into_inner(cores).expect("clients have ended");
        for core in &cores {
            let counted = COUNTED.map(|name| metric(core, name).try_into().expect("it counts up"));
            self.told.borrow_mut().count(&counted);
        }
        if self.simulation.draw(fastrand::Rng::bool) {
            self.close(cores).await;
        }
    }

    /// What a broker that starts is to open. That it does is noted before.
    pub(super) fn specs(&self) -> Vec<ShardSpec> {
        let floor = self.noted.get();
        self.noted.set(floor.and_then(Generation::next));
        let rig = Rig {
            noted_floor: floor.map(Generation::get),
            ..self.rig
        };
        let mut specs = rig.specs(Path::new(ROOT));
        for (spec, policy) in specs.iter_mut().zip(&*self.policies) {
            spec.durability = *policy;
        }
        specs
    }

    /// A shard that failed is open again, at that generation, which a crash may leave unnoted.
    fn reopened(&self, generation: Generation) {
        self.told.borrow_mut().reopened += 1;
        if let Some(noted) = self.noted.get()
            && self.simulation.draw(|random| random.u8(..4)) > 0
        {
            self.noted.set(Some(noted.max(generation)));
        }
    }

    /// Ends all cores in good order: what could be closed cleanly is there whatever follows.
    async fn close(&self, cores: Vec<Core>) {
        let router = cores[0].router();
        let opened: Vec<_> = (0..self.shards.len())
            .map(|index| self.generation(&router, index).is_some())
            .collect();
        let unclean = join_all(cores.into_iter().map(Core::close)).await;
        let unclean: Vec<_> = unclean.into_iter().flatten().collect();
        for (index, shard) in self.shards.iter().enumerate() {
            let is_clean = unclean.iter().all(|(failed, _)| failed != shard);
            let has_failed = router.state(*shard) == Some(ShardState::Failed);
            if opened[index] && is_clean && !has_failed {
                self.models[index].borrow_mut().closed();
            }
        }
    }

    fn told(&self, lives: u32) -> Told {
        let mut told = self.told.take();
        told.lives = lives;
        told.ended = self.simulation.now();
        for model in &*self.models {
            told.add(&model.borrow().told());
        }
        told
    }

    pub(super) fn generation(&self, router: &Router, index: usize) -> Option<Generation> {
        match router.state(self.shards[index]) {
            Some(ShardState::Open(generation)) => Some(generation),
            Some(ShardState::Opening | ShardState::Failed) | None => None,
        }
    }
}
