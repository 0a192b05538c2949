//! One seed's story: lives of a mesh, crashes between them, and the promises checked after each.

use super::model::{Crash, Model};
use super::producer::Producer;
use crate::disk::memory::Faults;
use crate::runtime::broken::Broken;
use crate::runtime::simulated::{SimulatedClock, Simulation};
use crate::tests::{Never, Rig, STALL_BOUNDS, batches};
use crate::{Core, DirtyBounds, Router, ShardSpec, mesh, runtime};
use felix_core::blocking::Here;
use felix_core::limits::FETCH_BYTES_MAX;
use felix_core::shards::{
    Acks, Append, Fetch, FetchPart, Fetched, OffsetQuery, OffsetSpec, ShardState,
};
use felix_core::{
    Clock, Durability, Monotonic, Offset, PlacedBatch, Retention, ShardError, ShardId, Shards,
    Stalls, Timestamp,
};
use futures_util::future::{Either, join_all, select};
use std::cell::RefCell;
use std::num::NonZeroU64;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

const ROOT: &str = "/data";

/// A flush that is well, or slow, and the turns until it begins, all taken generously.
const LAG: Duration = Duration::from_millis(100);

/// Idempotent producers of each shard.
const PRODUCERS: usize = 2;

/// What a story went through.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Told {
    pub(super) acknowledged: u64,
    pub(super) lost: u64,
    pub(super) lives: u32,
    /// When it ended.
    pub(super) ended: Duration,
}

/// See the module.
#[derive(Clone)]
struct Story {
    simulation: Rc<Simulation>,
    /// Whether it says what happens, for people.
    aloud: bool,
    rig: Rig,
    shards: Rc<Vec<ShardId>>,
    policies: Rc<Vec<Durability>>,
    models: Rc<Vec<RefCell<Model>>>,
    /// Idempotent ones, of each shard.
    producers: Rc<Vec<[RefCell<Producer>; PRODUCERS]>>,
}

/// Tells the story of `seed`, aloud or not, with an engine that is broken like that. Panics where a promise is not
/// kept.
pub(super) fn tell(seed: u64, broken: Option<Broken>, aloud: bool) -> Told {
    let simulation = Simulation::new(seed);
    simulation.break_engine(broken);
    let rig = simulation.draw(rig);
    let shards: Vec<_> = rig.stream().shard_ids().collect();
    let lag = rig.flush_interval + LAG;
    let policies: Vec<_> = shards
        .iter()
        .map(|_| simulation.draw(|random| policy(random, rig.durability)))
        .collect();
    let models = policies
        .iter()
        .map(|policy| RefCell::new(Model::new(*policy, lag, rig.retention.is_bounded())))
        .collect();
    let producers = (0i64..)
        .take(shards.len())
        .map(|shard| [0, 1].map(|number| RefCell::new(Producer::new(10 * shard + number))))
        .collect();
    if aloud {
        println!("{rig:?}\n{policies:?}");
    }
    let story = Story {
        simulation,
        aloud,
        rig,
        shards: Rc::new(shards),
        policies: Rc::new(policies),
        models: Rc::new(models),
        producers: Rc::new(producers),
    };
    let lives = story.simulation.draw(|random| random.u32(2..=5));
    for _ in 0..lives {
        let faults = story.simulation.draw(faults);
        story.live(faults);
    }
    story.live(None);
    story.told(lives)
}

fn rig(random: &mut fastrand::Rng) -> Rig {
    let cores = random.u16(1..=3);
    let policies = [
        Durability::OnCommit,
        Durability::OnCommit,
        Durability::Periodic,
        Durability::None,
    ];
    let durability = policies[random.usize(..policies.len())];
    // Large enough, a segment has space prepared.
    let segment_bytes_max = match random.u8(..4) {
        0 => random.u64(6_000..200_000),
        _ => random.u64(500..6000),
    };
    Rig {
        shards: u32::from(cores) + random.u32(..2),
        tail_bytes_max: [0, 2000, 8 << 20][random.usize(..3)],
        segment_bytes_max,
        flush_interval: Duration::from_millis(random.u64(1..20)),
        verify_on_open: random.u8(..8) == 0,
        retention: retention(random),
        retention_interval: Duration::from_millis(random.u64(1..20)),
        files_max: [2, usize::MAX][random.usize(..2)],
        dirty: dirty(random),
        ..Rig::new(cores, durability)
    }
}

/// Of a shard: most are as the others of the story.
fn policy(random: &mut fastrand::Rng, durability: Durability) -> Durability {
    match random.u8(..8) {
        0 => Durability::OnCommit,
        1 => Durability::Periodic,
        2 => Durability::None,
        _ => durability,
    }
}

fn retention(random: &mut fastrand::Rng) -> Retention {
    let mut seldom = |of: u64| (random.u8(..6) == 0).then(|| random.u64(1..of));
    Retention {
        bytes: seldom(20_000).and_then(NonZeroU64::new),
        age: seldom(400).map(Duration::from_millis),
    }
}

/// As if there were no bounds, or so that rounds begin early and appends wait.
fn dirty(random: &mut fastrand::Rng) -> DirtyBounds {
    let (soft_bytes, more) = match random.u8(..3) {
        0 => (1 << 30, 0),
        _ => (random.u64(500..3000), random.u64(..3000)),
    };
    DirtyBounds {
        soft_bytes,
        hard_bytes: soft_bytes + more,
    }
}

/// How the disk fails in a life; `None`: not at all.
fn faults(random: &mut fastrand::Rng) -> Option<Faults> {
    let mut chance = |of: u32| if random.u8(..4) == 0 { of } else { 0 };
    let faults = Faults {
        write: chance(50),
        create: chance(50),
        read: chance(50),
        flush: chance(200),
        sync: chance(300),
        stall: chance(300),
        slow: Duration::from_millis(20),
        ..Faults::default()
    };
    let capacity = (random.u8(..6) == 0).then(|| random.usize(2_000..40_000));
    let faults = Faults { capacity, ..faults };
    // Word of a failed flush is a file, which an opening has to find: a disk on which it cannot be
    // made asks for a restart of the machine, and is none that a story goes on with.
    let loses_words = faults.flush > 0 || faults.sync > 0;
    let create = if loses_words { 0 } else { faults.create };
    let faults = Faults { create, ..faults };
    random.bool().then_some(faults)
}

impl Story {
    /// Says what happens, where one story is told.
    fn say(&self, what: impl FnOnce() -> String) {
        if self.aloud {
            println!("{:?} {}", self.simulation.now(), what());
        }
    }

    /// One life of the mesh, to its crash.
    fn live(&self, faults: Option<Faults>) {
        self.say(|| format!("life with {faults:?}"));
        let disk = Rc::clone(self.simulation.disk());
        disk.set_faults(Faults {
            lies: self.simulation.is_broken(Broken::FlushSkipped),
            ..faults.unwrap_or_default()
        });
        // Before it has opened, while it works, or after all has been done.
        let until = self
            .simulation
            .draw(|random| Duration::from_micros(random.u64(..60_000)));
        let until = if faults.is_none() { None } else { Some(until) };
        let until = until.filter(|_| self.simulation.draw(fastrand::Rng::bool));
        for producer in self.producers.iter().flatten() {
            producer.borrow_mut().is_cut_off();
        }
        let story = self.clone();
        self.simulation.run(async move {
            let life = pin!(story.life(faults.is_none()));
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
        let flushes_fail = faults.is_some_and(|faults| faults.flush > 0 || faults.sync > 0);
        for model in &*self.models {
            model
                .borrow_mut()
                .crashed(crash, flushes_fail, self.simulation.now());
        }
    }

    async fn life(&self, is_well: bool) {
        let clock: Rc<dyn Clock> = Rc::new(SimulatedClock(Rc::clone(&self.simulation)));
        let mut cores: Vec<Core> = Vec::new();
        for seed in mesh(self.rig.cores) {
            let stalls = Stalls::new(Rc::clone(&clock), STALL_BOUNDS, |_| {});
            let core = seed.start(
                self.rig.config(),
                Rc::clone(&clock),
                Rc::new(stalls),
                Rc::new(Here),
            );
            core.open(self.specs());
            cores.push(core);
        }
        for core in &cores {
            core.opened().await;
            core.settled().await;
        }
        let routers: Vec<Router> = cores.iter().map(Core::router).collect();
        for index in 0..self.shards.len() {
            self.check(&routers[0], index, is_well).await;
        }
        let clients = self.simulation.draw(|random| random.usize(1..=6));
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let story = self.clone();
                let router = routers[client % routers.len()].clone();
                runtime::spawn_local(async move { story.client(router).await })
            })
            .collect();
        for task in tasks {
            task.join().await;
        }
        drop(routers);
        if self.simulation.draw(fastrand::Rng::bool) {
            self.close(cores).await;
        }
    }

    fn specs(&self) -> Vec<ShardSpec> {
        let mut specs = self.rig.specs(Path::new(ROOT));
        for (spec, policy) in specs.iter_mut().zip(&*self.policies) {
            spec.durability = *policy;
        }
        specs
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
        let mut told = Told {
            lives,
            ended: self.simulation.now(),
            ..Told::default()
        };
        for model in &*self.models {
            let (acknowledged, lost) = model.borrow().counts();
            told.acknowledged += acknowledged;
            told.lost += lost;
        }
        told
    }

    fn generation(&self, router: &Router, index: usize) -> Option<felix_core::Generation> {
        match router.state(self.shards[index]) {
            Some(ShardState::Open(generation)) => Some(generation),
            Some(ShardState::Opening | ShardState::Failed) | None => None,
        }
    }

    /// Reads the whole of a shard that has just been opened.
    async fn check(&self, router: &Router, index: usize, is_well: bool) {
        let Some(generation) = self.generation(router, index) else {
            let reason = self.read(router, index, Offset::ZERO).await;
            assert!(
                !is_well,
                "shard {index}, on a disk that is well: {reason:?}"
            );
            return;
        };
        let mut all: Vec<PlacedBatch> = Vec::new();
        let mut bounds = None;
        let mut at = self.models[index].borrow().span().0;
        loop {
            match self.read(router, index, at).await {
                Ok(fetched) => {
                    let (start, end) = (fetched.log_start, fetched.visible_end);
                    let is_kept = |known: (Offset, Offset)| {
                        known.1 == end && (known.0 == start || self.rig.retention.is_bounded())
                    };
                    assert!(bounds.is_none_or(is_kept), "{bounds:?}, and {start}..{end}");
                    bounds = Some((start, end));
                    all.extend(batches(&fetched));
                    at = all.last().map_or(start, PlacedBatch::next_offset);
                    if at >= end {
                        break;
                    }
                    assert!(
                        fetched.bytes() > 0,
                        "nothing at {at}: {start}..{end}, {:?}",
                        fetched.left_out
                    );
                }
                Err(ShardError::OffsetOutOfRange {
                    log_start,
                    visible_end,
                }) => {
                    let may_be = all.is_empty() || self.rig.retention.is_bounded();
                    assert!(may_be && log_start > at, "{at}: {log_start}..{visible_end}");
                    // What was read before has gone since.
                    all.clear();
                    at = log_start;
                }
                Err(error) => {
                    assert!(!is_well, "{error}, though the disk is well");
                    return;
                }
            }
        }
        let bounds = bounds.expect("an answer had them");
        all.retain(|batch| batch.base_offset() >= bounds.0);
        self.say(|| format!("shard {index}: {bounds:?} in {generation:?}"));
        self.models[index]
            .borrow_mut()
            .reopened(bounds, generation, &all);
        for _ in 0..4 {
            self.query(router, index, &all, is_well).await;
        }
    }

    /// A time is found where a reader of everything finds it.
    async fn query(&self, router: &Router, index: usize, all: &[PlacedBatch], is_well: bool) {
        let mut records = all
            .iter()
            .flat_map(|batch| batch.records().expect("it was read before"));
        let wanted = {
            let now = SimulatedClock(Rc::clone(&self.simulation)).wall();
            Timestamp(now.0 - self.simulation.draw(|random| random.i64(-5..400)))
        };
        let query = OffsetQuery {
            shard: self.shards[index],
            spec: OffsetSpec::AtOrAfter(wanted),
            generation: None,
        };
        let expected = records
            .find(|record| record.timestamp >= wanted)
            .map(|record| (record.offset, Some(record.timestamp)));
        match router.offsets(vec![query]).await.remove(0) {
            // Retention may have taken it since.
            Ok(answer) if answer.found != expected && self.rig.retention.is_bounded() => {
                let start = all.first().map(PlacedBatch::base_offset);
                assert_ne!(self.earliest(router, index).await, start, "{answer:?}");
            }
            Ok(answer) => assert_eq!(answer.found, expected, "at or after {wanted:?}"),
            Err(error) => assert!(!is_well, "{error}, though the disk is well"),
        }
    }

    async fn earliest(&self, router: &Router, index: usize) -> Option<Offset> {
        let query = OffsetQuery {
            shard: self.shards[index],
            spec: OffsetSpec::Earliest,
            generation: None,
        };
        let answer = router.offsets(vec![query]).await.remove(0);
        answer.ok()?.found.map(|(offset, _)| offset)
    }

    async fn read(
        &self,
        router: &Router,
        index: usize,
        offset: Offset,
    ) -> Result<Fetched, ShardError> {
        let wait = self.simulation.draw(|random| random.u64(..3));
        let bytes_max = self.simulation.draw(|random| random.usize(1..4000));
        let part = FetchPart {
            shard: self.shards[index],
            offset,
            bytes_max,
            generation: None,
        };
        let now = Monotonic(self.simulation.now());
        let fetch = Fetch {
            first_bytes_max: FETCH_BYTES_MAX,
            parts: vec![part],
            bytes_min: usize::from(wait > 0),
            bytes_max,
            deadline: now.after(Duration::from_millis(wait)),
        };
        router.fetch(fetch, Never).await.remove(0)
    }

    /// Appends, reads and rests for a while.
    async fn client(&self, router: Router) {
        let steps = self.simulation.draw(|random| random.u32(1..30));
        for _ in 0..steps {
            let index = self
                .simulation
                .draw(|random| random.usize(..self.shards.len()));
            match self.simulation.draw(|random| random.u8(..8)) {
                0 => {
                    // Sometimes so long that a shard that failed is opened again.
                    let pause = self.simulation.draw(|random| match random.u8(..8) {
                        0 => random.u64(..1_500_000),
                        _ => random.u64(..4000),
                    });
                    runtime::sleep(Duration::from_micros(pause)).await;
                }
                1 | 2 => self.look(&router, index).await,
                3 | 4 => self.produce(&router, index).await,
                _ => self.append(&router, index).await,
            }
        }
    }

    async fn append(&self, router: &Router, index: usize) {
        let now = SimulatedClock(Rc::clone(&self.simulation)).wall();
        let model = &self.models[index];
        let (id, batch) = self
            .simulation
            .draw(|random| model.borrow_mut().send(random, now, |_| None));
        let shard = self.shards[index];
        let acks = if self.simulation.draw(fastrand::Rng::bool) {
            Acks::All
        } else {
            Acks::Leader
        };
        let wait = self
            .simulation
            .draw(|random| (random.u8(..4) == 0).then(|| random.u64(..30)));
        let now = Monotonic(self.simulation.now());
        let deadline = wait.map(|wait| now.after(Duration::from_millis(wait)));
        let appends = vec![Append { shard, batch }];
        let committed = router.append_until(appends, acks, deadline).await;
        let story = self.clone();
        let answer = async move {
            let answer = committed.await.remove(0);
            story.say(|| format!("shard {index}, batch {id}: {answer:?}"));
            let model = &story.models[index];
            match answer {
                Ok(appended) => {
                    let now = story.simulation.now();
                    model.borrow_mut().acknowledged(id, &appended, now);
                }
                Err(ShardError::NoRoomInTime) => model.borrow_mut().refused(id),
                Err(_) => {}
            }
        };
        // Some clients have several requests in flight.
        if self.simulation.draw(fastrand::Rng::bool) {
            answer.await;
        } else {
            runtime::spawn_local(answer).detach();
        }
    }

    /// An idempotent producer sends what was not answered, and more, several batches at once.
    async fn produce(&self, router: &Router, index: usize) {
        let number = self.simulation.draw(|random| random.usize(..PRODUCERS));
        let producer = &self.producers[index][number];
        let model = &self.models[index];
        let Some(again) = producer.borrow_mut().begin() else {
            return;
        };
        let mut sent: Vec<_> = again
            .into_iter()
            .map(|id| (id, model.borrow_mut().send_again(id)))
            .collect();
        let more = self.simulation.draw(|random| random.usize(..3));
        for _ in 0..more {
            let now = SimulatedClock(Rc::clone(&self.simulation)).wall();
            let place = |records| Some(producer.borrow_mut().place(records));
            let (id, batch) = self
                .simulation
                .draw(|random| model.borrow_mut().send(random, now, place));
            producer.borrow_mut().sends(id);
            sent.push((id, batch));
        }
        let shard = self.shards[index];
        let mut answers = Vec::new();
        for (id, batch) in sent {
            let committed = router
                .append(vec![Append { shard, batch }], Acks::All)
                .await;
            answers.push(async move { (id, committed.await.remove(0)) });
        }
        let mut outcomes = Vec::new();
        for (id, answer) in join_all(answers).await {
            self.say(|| format!("shard {index}, produced batch {id}: {answer:?}"));
            if let Ok(appended) = &answer {
                let now = self.simulation.now();
                let mut model = model.borrow_mut();
                model.acknowledged(id, appended, now);
            }
            outcomes.push(answer.map(|_| ()));
        }
        producer.borrow_mut().answered(&outcomes);
    }

    async fn look(&self, router: &Router, index: usize) {
        let known = self.models[index].borrow().span();
        let from = self
            .simulation
            .draw(|random| random.u64(known.0.get()..=known.1.get()));
        let from = Offset::new(from);
        if let Ok(fetched) = self.read(router, index, from).await {
            let mut model = self.models[index].borrow_mut();
            model.bounds(known, (fetched.log_start, fetched.visible_end));
            model.shown(from, &batches(&fetched), self.simulation.now());
        }
    }
}
