//! An executor of one thread on virtual time: which of the ready tasks runs next, and how long a turn
//! takes, is drawn from a seed, so that one seed is one run. Time goes on when nothing is ready.

use super::broken::Broken;
use crate::disk::memory::MemoryDisk;
use crossbeam_channel::{Receiver, Sender, unbounded};
use felix_core::{Clock, Monotonic, Timestamp};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

type Work = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Simulation>>> = const { RefCell::new(None) };
}

/// What this thread runs in, if that is a simulation.
pub(crate) fn current() -> Option<Rc<Simulation>> {
    CURRENT.with_borrow(Clone::clone)
}

/// See the module.
pub(crate) struct Simulation {
    random: RefCell<fastrand::Rng>,
    disk: Rc<MemoryDisk>,
    broken: Cell<Option<Broken>>,
    now: Cell<Duration>,
    numbers: Cell<u64>,
    turns: Cell<u64>,
    tasks: RefCell<HashMap<u64, Work>>,
    wakes: Sender<u64>,
    woken: Receiver<u64>,
    ready: RefCell<BTreeSet<u64>>,
    timers: RefCell<BTreeMap<(Duration, u64), Waker>>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// The wall clock when a simulation begins: some day in 2024.
const BEGINNING_MS: i64 = 1_718_000_000_000;

/// The longest turn of a task.
const TURN_US_MAX: u64 = 20;

impl Simulation {
    /// A simulation that begins, with an empty disk.
    pub(crate) fn new(seed: u64) -> Rc<Self> {
        let (wakes, woken) = unbounded();
        Rc::new(Self {
            random: RefCell::new(fastrand::Rng::with_seed(seed)),
            disk: Rc::default(),
            broken: Cell::default(),
            now: Cell::default(),
            numbers: Cell::default(),
            turns: Cell::default(),
            tasks: RefCell::default(),
            wakes,
            woken,
            ready: RefCell::default(),
            timers: RefCell::default(),
        })
    }

    /// Its disk, which outlives crashes.
    pub(crate) fn disk(&self) -> &Rc<MemoryDisk> {
        &self.disk
    }

    /// The engine in it is broken like that.
    pub(crate) fn break_engine(&self, broken: Option<Broken>) {
        self.broken.set(broken);
    }

    /// Whether the engine in it is broken like that.
    pub(crate) fn is_broken(&self, broken: Broken) -> bool {
        self.broken.get() == Some(broken)
    }

    /// Chance.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.borrow_mut())
    }

    /// Its time, since it began.
    pub(crate) fn now(&self) -> Duration {
        self.now.get()
    }

    /// Turns that tasks have had.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Runs `main` to its end, and what it starts. Tasks that are left then end there, as in a crash
    /// of the process. Panics where nothing can go on.
    pub(crate) fn run<T: 'static>(self: &Rc<Self>, main: impl Future<Output = T> + 'static) -> T {
        let _entered = Entered::new(Rc::clone(self));
        let mut main = self.spawn(main);
        loop {
            while let Ok(number) = self.woken.try_recv() {
                self.ready.borrow_mut().insert(number);
            }
            if let Some(result) = main.take() {
                self.end_tasks();
                return result;
            }
            self.fire();
            match self.pick() {
                Some(number) => self.turn(number),
                None => self.skip(),
            }
        }
    }

    fn pick(&self) -> Option<u64> {
        let mut ready = self.ready.borrow_mut();
        if ready.is_empty() {
            return None;
        }
        let place = self.draw(|random| random.usize(..ready.len()));
        let number = ready.iter().nth(place).copied()?;
        ready.remove(&number);
        Some(number)
    }

    fn turn(&self, number: u64) {
        // Away while it runs: it may start tasks and end others.
        let Some(mut work) = self.tasks.borrow_mut().remove(&number) else {
            return;
        };
        self.turns.set(self.turns.get() + 1);
        let waker = self.waker(number);
        let took = self.draw(|random| random.u64(1..=TURN_US_MAX));
        self.now.set(self.now.get() + Duration::from_micros(took));
        if work
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            self.tasks.borrow_mut().insert(number, work);
        }
    }

    /// Wakes those whose time has come while others kept the thread busy.
    fn fire(&self) {
        let mut timers = self.timers.borrow_mut();
        while let Some(first) = timers.first_entry()
            && first.key().0 <= self.now.get()
        {
            first.remove().wake();
        }
        drop(timers);
        while let Ok(number) = self.woken.try_recv() {
            self.ready.borrow_mut().insert(number);
        }
    }

    /// On to the next moment at which something happens.
    fn skip(&self) {
        let first = self.timers.borrow_mut().pop_first();
        let Some(((due, _), waker)) = first else {
            panic!("nothing is ready and no timer runs: the simulation waits for ever");
        };
        self.now.set(self.now.get().max(due));
        waker.wake();
    }

    fn end_tasks(&self) {
        let mut tasks: Vec<_> = self.tasks.borrow_mut().drain().collect();
        tasks.sort_by_key(|(number, _)| *number);
        drop(tasks);
        self.timers.borrow_mut().clear();
        self.ready.borrow_mut().clear();
        while self.woken.try_recv().is_ok() {}
    }

    fn waker(&self, number: u64) -> Waker {
        let wakes = self.wakes.clone();
        Waker::from(Arc::new(TaskWaker { number, wakes }))
    }

    fn number(&self) -> u64 {
        self.numbers.replace(self.numbers.get() + 1)
    }

    /// Starts a task.
    pub(crate) fn spawn<T: 'static>(
        self: &Rc<Self>,
        work: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        let number = self.number();
        let slot = Rc::new(Slot {
            result: RefCell::new(None),
            waiting: RefCell::new(None),
        });
        let done = Rc::clone(&slot);
        let work = async move {
            let result = work.await;
            *done.result.borrow_mut() = Some(result);
            if let Some(waker) = done.waiting.borrow_mut().take() {
                waker.wake();
            }
        };
        self.tasks.borrow_mut().insert(number, Box::pin(work));
        self.ready.borrow_mut().insert(number);
        Task {
            slot,
            number: Some(number),
            simulation: Rc::clone(self),
        }
    }

    /// Resolves after `pause`.
    pub(crate) async fn sleep(self: &Rc<Self>, pause: Duration) {
        let due = self.now.get() + pause;
        let timer = Timer {
            key: (due, self.number()),
            simulation: Rc::clone(self),
        };
        poll_fn(|cx| {
            if self.now.get() >= due {
                return Poll::Ready(());
            }
            let waker = cx.waker().clone();
            self.timers.borrow_mut().insert(timer.key, waker);
            Poll::Pending
        })
        .await;
        drop(timer);
    }
}

/// Takes the timer away when its sleeper is gone.
struct Timer {
    key: (Duration, u64),
    simulation: Rc<Simulation>,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.simulation.timers.borrow_mut().remove(&self.key);
    }
}

/// Makes a simulation the current one of the thread.
struct Entered;

impl Entered {
    fn new(simulation: Rc<Simulation>) -> Self {
        CURRENT.with_borrow_mut(|current| {
            assert!(current.is_none(), "one simulation of a thread at a time");
            *current = Some(simulation);
        });
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = None);
    }
}

struct TaskWaker {
    number: u64,
    wakes: Sender<u64>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        // The simulation may be over; then nobody is to be woken.
        self.wakes.send(self.number).ok();
    }
}

struct Slot<T> {
    result: RefCell<Option<T>>,
    waiting: RefCell<Option<Waker>>,
}

/// A task of a simulation.
pub(crate) struct Task<T> {
    slot: Rc<Slot<T>>,
    /// `None`: nobody ends it.
    number: Option<u64>,
    simulation: Rc<Simulation>,
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl<T> Task<T> {
    /// Lets it run to its end by itself.
    pub(crate) fn detach(mut self) {
        self.number = None;
    }

    fn take(&mut self) -> Option<T> {
        self.slot.result.borrow_mut().take()
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(result) = self.take() {
            return Poll::Ready(result);
        }
        *self.slot.waiting.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let work = self.simulation.tasks.borrow_mut().remove(&number);
            drop(work);
        }
    }
}

/// The clocks of a simulation.
#[derive(Debug)]
pub(crate) struct SimulatedClock(pub(crate) Rc<Simulation>);

impl Clock for SimulatedClock {
    fn wall(&self) -> Timestamp {
        let since = i64::try_from(self.0.now().as_millis()).expect("a run is short");
        Timestamp(BEGINNING_MS + since)
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.0.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime;

    /// What happens in a run: who ran, and when.
    fn history(seed: u64) -> Vec<(u32, Duration)> {
        let simulation = Simulation::new(seed);
        let seen: Rc<RefCell<Vec<_>>> = Rc::default();
        let inner = Rc::clone(&seen);
        simulation.run(async move {
            let tasks: Vec<_> = (0..4_u32)
                .map(|who| {
                    let seen = Rc::clone(&inner);
                    runtime::spawn_local(async move {
                        for turn in 0..5 {
                            runtime::sleep(Duration::from_millis(turn % 3)).await;
                            runtime::breathe().await;
                            let now = current().unwrap().now();
                            seen.borrow_mut().push((who, now));
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.join().await;
            }
        });
        seen.take()
    }

    #[test]
    fn one_seed_is_one_run_and_another_is_another() {
        assert_eq!(history(1), history(1));
        assert_ne!(history(1), history(2));
        assert_eq!(history(1).len(), 20);
    }

    #[test]
    fn a_day_passes_at_once_and_a_dropped_task_ends() {
        let simulation = Simulation::new(1);
        let reached = Rc::new(Cell::new(false));
        let inside = Rc::clone(&reached);
        simulation.run(async move {
            let ended = runtime::spawn_local(async move {
                runtime::sleep(Duration::from_secs(3600)).await;
                inside.set(true);
            });
            runtime::sleep(Duration::from_secs(60)).await;
            drop(ended);
            runtime::sleep(Duration::from_secs(86_400)).await;
        });
        assert!(!reached.get());
        assert!(simulation.now() >= Duration::from_secs(86_460));
    }

    #[test]
    #[should_panic(expected = "waits for ever")]
    fn a_run_that_cannot_go_on_says_so() {
        Simulation::new(1).run(std::future::pending::<()>());
    }
}
