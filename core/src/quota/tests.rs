//! Whole brokers' worth of cores on virtual time: whatever the load does, what a tenant publishes in
//! ten seconds is what it may, within a twentieth.

use super::{Ask, Budget, Budgets, Deal, Dealer, Paid, Purse, Round};
use crate::Monotonic;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

const SEEDS: u64 = 8;
const TEN_SECONDS: Duration = Duration::from_secs(10);
const THROTTLE_MAX: Duration = Duration::from_secs(20);

/// Numbers from a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn micros(&mut self, bound: u64) -> Duration {
        Duration::from_micros(1 + self.below(bound))
    }
}

/// Which core a connection writes through.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// All through this one.
    On(usize),
    /// Each through its own.
    Even,
    /// All through one, and every 100 ms through another.
    Moving,
    /// Each through any, every time.
    Random,
}

#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    cores: u16,
    connections: usize,
    load: Load,
    rate: u64,
    burst: u64,
    /// A batch has so many bytes at most, and half of it at least.
    batch: u64,
    /// Between an answer and the next batch, at most.
    pause: Duration,
    begin: Duration,
}

enum Event {
    Produce(usize),
    Ask(usize, Ask),
    Deal(usize, Deal),
}

struct World {
    scenario: Scenario,
    chance: Chance,
    dealer: Dealer,
    /// Of all cores; the dealer's own has none to use.
    purses: Vec<Purse>,
    waiting: Vec<Vec<(Round, usize)>>,
    /// By when they are, and of those at one moment by which came first.
    events: BTreeMap<(Duration, u64), Event>,
    number: u64,
    /// What was written, and when.
    written: Vec<(Duration, u64)>,
    throttles: u64,
    asks: u64,
}

impl World {
    fn new(scenario: Scenario) -> Self {
        let budget = Budget {
            bytes_per_second: NonZeroU64::new(scenario.rate).unwrap(),
            burst_bytes: scenario.burst,
        };
        let purses = (0..scenario.cores).map(|_| Purse::new(budget, scenario.cores));
        let mut world = Self {
            chance: Chance(scenario.seed),
            dealer: Dealer::new(Budgets::same(budget, THROTTLE_MAX), scenario.cores),
            purses: purses.collect(),
            waiting: vec![Vec::new(); usize::from(scenario.cores)],
            events: BTreeMap::new(),
            number: 0,
            written: Vec::new(),
            throttles: 0,
            asks: 0,
            scenario,
        };
        // The budget is used once before, so that a rest is one.
        world.dealer.charge("t1", 0, Monotonic::default());
        for connection in 0..world.scenario.connections {
            let at = world.scenario.begin + world.chance.micros(1000);
            world.plan(at, Event::Produce(connection));
        }
        world
    }

    fn plan(&mut self, at: Duration, event: Event) {
        self.number += 1;
        self.events.insert((at, self.number), event);
    }

    fn run(mut self, end: Duration) -> Self {
        while let Some(((now, _), event)) = self.events.pop_first() {
            if now >= end {
                break;
            }
            match event {
                Event::Produce(connection) => self.produce(connection, now),
                Event::Ask(core, ask) => {
                    let deal = self.dealer.deal("t1", ask, Monotonic(now));
                    let at = now + self.chance.micros(300);
                    self.plan(at, Event::Deal(core, deal));
                }
                Event::Deal(core, deal) => {
                    let round = self.purses[core].dealt(deal, Monotonic(now));
                    let ask = self.purses[core].ask_on();
                    self.send(core, ask, now);
                    let (told, waiting): (Vec<_>, _) = std::mem::take(&mut self.waiting[core])
                        .into_iter()
                        .partition(|(awaited, _)| *awaited == round);
                    self.waiting[core] = waiting;
                    for (_, connection) in told {
                        self.go_on(connection, deal.throttle, now);
                    }
                }
            }
        }
        self
    }

    fn produce(&mut self, connection: usize, now: Duration) {
        let Scenario { cores, batch, .. } = self.scenario;
        let cores = usize::from(cores);
        let core = match self.scenario.load {
            Load::On(core) => core,
            Load::Even => connection % cores,
            Load::Moving => usize::try_from(now.as_millis() / 100).unwrap() % cores,
            Load::Random => usize::try_from(self.chance.below(cores as u64)).unwrap(),
        };
        let bytes = batch / 2 + self.chance.below(batch / 2 + 1);
        self.written.push((now, bytes));
        if core == 0 {
            let throttle = self.dealer.charge("t1", bytes, Monotonic(now));
            return self.go_on(connection, throttle, now);
        }
        match self.purses[core].charge(bytes, Monotonic(now)) {
            Paid::Held => self.go_on(connection, Duration::ZERO, now),
            Paid::With(round) => self.waiting[core].push((round, connection)),
        }
        let ask = self.purses[core].ask();
        self.send(core, ask, now);
    }

    fn send(&mut self, core: usize, ask: Option<Ask>, now: Duration) {
        if let Some(ask) = ask {
            self.asks += 1;
            let at = now + self.chance.micros(300);
            self.plan(at, Event::Ask(core, ask));
        }
    }

    /// The client has its answer, and is not read for that long, in whole milliseconds.
    fn go_on(&mut self, connection: usize, throttle: Duration, now: Duration) {
        let millis = throttle.as_micros().div_ceil(1000);
        self.throttles += u64::from(millis > 0);
        let mute = Duration::from_millis(u64::try_from(millis).unwrap());
        let pause = u64::try_from(self.scenario.pause.as_micros()).unwrap();
        let pause = self.chance.micros(pause);
        self.plan(now + mute + pause, Event::Produce(connection));
    }

    fn written(&self, from: Duration) -> u64 {
        let within = |(at, _): &&(Duration, u64)| (from..from + TEN_SECONDS).contains(at);
        self.written
            .iter()
            .filter(within)
            .map(|(_, bytes)| bytes)
            .sum()
    }

    /// Ten seconds from a full budget on, and the ten after them.
    fn check(&self) {
        let Scenario {
            rate,
            burst,
            batch,
            connections,
            begin,
            ..
        } = self.scenario;
        // What is over budget is written: the batch of each connection is, whatever is owed.
        let over = batch * connections as u64;
        let fair = 10 * rate;
        let twentieth = fair / 20;
        for (from, bound) in [(begin, burst + fair), (begin + TEN_SECONDS, fair)] {
            let written = self.written(from);
            assert!(
                written <= bound + twentieth + over,
                "{written} of {bound}: {:?}",
                self.scenario
            );
            assert!(
                written + twentieth + over >= bound,
                "{written} of {bound}: {:?}",
                self.scenario
            );
        }
        assert!(self.throttles > 0);
    }
}

fn saturated(seed: u64, cores: u16, load: Load) -> Scenario {
    Scenario {
        seed,
        cores,
        connections: 8,
        load,
        rate: 2_000_000,
        burst: 2_000_000,
        batch: 8_000,
        pause: Duration::from_micros(400),
        begin: Duration::ZERO,
    }
}

fn run(scenario: Scenario) -> World {
    let end = scenario.begin + 2 * TEN_SECONDS;
    World::new(scenario).run(end)
}

#[test]
fn a_budget_is_kept_within_a_twentieth_wherever_the_load_is() {
    for seed in 0..SEEDS {
        for load in [
            Load::On(0),
            Load::On(1),
            Load::Even,
            Load::Moving,
            Load::Random,
        ] {
            run(saturated(seed, 4, load)).check();
        }
    }
}

#[test]
fn a_budget_is_kept_on_one_core_and_on_64() {
    for seed in 0..SEEDS {
        run(saturated(seed, 1, Load::On(0))).check();
        for load in [Load::On(63), Load::Even, Load::Moving, Load::Random] {
            let many = Scenario {
                connections: 64,
                batch: 2_000,
                ..saturated(seed, 64, load)
            };
            run(many).check();
        }
    }
}

#[test]
fn a_budget_is_kept_with_tiny_batches() {
    for seed in 0..2 {
        for load in [Load::On(2), Load::Even, Load::Moving] {
            let tiny = Scenario {
                batch: 100,
                rate: 100_000,
                burst: 100_000,
                ..saturated(seed, 4, load)
            };
            run(tiny).check();
        }
    }
}

#[test]
fn a_batch_larger_than_the_burst_is_written_and_paid_for() {
    for seed in 0..SEEDS {
        for load in [Load::On(3), Load::Even, Load::Random] {
            let large = Scenario {
                connections: 2,
                burst: 100_000,
                batch: 1_000_000,
                rate: 4_000_000,
                ..saturated(seed, 4, load)
            };
            run(large).check();
        }
    }
}

#[test]
fn after_a_rest_there_is_one_burst_and_no_more() {
    for seed in 0..SEEDS {
        for load in [Load::On(1), Load::Even, Load::Moving] {
            let rested = Scenario {
                begin: Duration::from_secs(60),
                burst: 6_000_000,
                ..saturated(seed, 4, load)
            };
            run(rested).check();
        }
    }
}

#[test]
fn who_stays_below_the_budget_is_never_held_back_and_hardly_asks() {
    for seed in 0..SEEDS {
        for load in [Load::On(1), Load::Even, Load::Moving, Load::Random] {
            // 8 connections, some 3 KB each 20 ms: 1.2 MB of 2 MB a second.
            let modest = Scenario {
                pause: Duration::from_millis(40),
                batch: 4_000,
                ..saturated(seed, 4, load)
            };
            let world = run(modest);
            assert_eq!(world.throttles, 0, "{:?}", world.scenario);
            let batches = world.written.len() as u64;
            assert!(
                world.asks * 3 < batches,
                "{} questions for {batches} batches: {:?}",
                world.asks,
                world.scenario
            );
        }
    }
}
