//! Heavy work beside the cores: a few threads, and what each core has with them.
//!
//! A core gives a job a place in the queue only while it has fewer than
//! [`HEAVY_JOBS_PER_CORE_MAX`] there; further jobs wait in line on their core. The queue has room
//! for that many of each core, so giving never waits for the threads, and no core takes another's
//! room. The steps of TLS handshakes, which anybody may ask for who can connect, have a queue of their
//! own ([`Strangers`]), and one of the threads never takes from it: however many cores have handshakes
//! waiting, those who publish do not wait behind them. What is done is told to the core's mailbox. Files are not this pool's business: each core
//! has threads of its own for them (`felix-block-<n>`), which no heavy work can hold up.

use crate::giving_way::giving_way;
use crate::mailbox::{Inside, Outside, mailbox};
use crossbeam_channel::{Receiver, Sender, select};
use felix_core::Blocking;
use felix_core::blocking::{Job, JobDone};
use felix_core::limits::HEAVY_JOBS_PER_CORE_MAX;
use felix_core::memory::{Pool, Share};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

/// Threads for heavy work. Where no processors are left over they take their time from the cores,
/// so they are few.
const THREADS: usize = 2;

/// Those of them that take steps of handshakes as well.
const THREADS_FOR_STRANGERS: usize = 1;

const _: () = assert!(THREADS_FOR_STRANGERS < THREADS);

/// A job on its way to a thread.
struct Order {
    number: u64,
    job: Job,
    /// Set by the core where nobody waits any more: an atomic, since the threads share it.
    given_up: Arc<AtomicBool>,
    done: Outside<u64>,
}

/// How a core reaches the threads: plain, to cross to it. The threads end when the last is gone.
#[derive(Clone)]
pub(crate) struct HeavyThreads {
    known: Sender<Order>,
    strangers: Sender<Order>,
}

/// Who a job is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum For {
    /// Somebody whose request is served.
    Known,
    /// Somebody who is only just connecting.
    Strangers,
}

impl std::fmt::Debug for HeavyThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeavyThreads").finish_non_exhaustive()
    }
}

/// Starts the threads for so many cores. They run where the calling thread may run.
///
/// # Errors
/// No thread can be had.
pub(crate) fn start(cores: u16) -> std::io::Result<(HeavyThreads, Vec<JoinHandle<()>>)> {
    let jobs_max = usize::from(cores) * HEAVY_JOBS_PER_CORE_MAX;
    let (give_known, known) = crossbeam_channel::bounded(jobs_max);
    let (give_strangers, strangers) = crossbeam_channel::bounded(jobs_max);
    let threads = (0..THREADS).map(|number| {
        let known: Receiver<Order> = known.clone();
        let strangers = (number < THREADS_FOR_STRANGERS).then(|| strangers.clone());
        let strangers = strangers.unwrap_or_else(crossbeam_channel::never);
        thread::Builder::new()
            .name(format!("felix-heavy-{number}"))
            .spawn(move || fulfil_all(&known, &strangers))
    });
    let threads = giving_way(|| threads.collect::<Result<_, _>>())?;
    let heavy = HeavyThreads {
        known: give_known,
        strangers: give_strangers,
    };
    Ok((heavy, threads))
}

/// Takes from either where there is something in both.
fn fulfil_all(known: &Receiver<Order>, strangers: &Receiver<Order>) {
    let next = || {
        select! {
            recv(known) -> order => order,
            recv(strangers) -> order => order,
        }
    };
    while let Ok(order) = next() {
        order.fulfil();
    }
    // The last core has gone, and with it both queues; what it had given is still in them.
    let left = known.try_iter().chain(strangers.try_iter());
    left.for_each(Order::fulfil);
}

impl Order {
    fn fulfil(self) {
        let Self {
            number,
            job,
            given_up,
            done,
        } = self;
        if given_up.load(Ordering::Relaxed) {
            drop(job);
        } else {
            job();
        }
        // A core that has ended waits for nothing.
        done.send(number);
    }
}

/// One core's part. Lives on that core.
#[derive(Debug)]
pub(crate) struct Heavy(Rc<State>);

#[derive(Debug)]
struct State {
    threads: HeavyThreads,
    done: Outside<u64>,
    next: Cell<u64>,
    /// Places in the queue.
    places: Rc<Pool>,
    /// What is with the threads.
    given: RefCell<BTreeMap<u64, Given>>,
}

/// A job that is with the threads.
#[derive(Debug)]
struct Given {
    /// Its place, held until the threads have done with it, whoever still waits.
    _place: Share,
    wait: Rc<Wait>,
}

/// The wait for a job. Given up when dropped before the job is done.
#[derive(Debug, Default)]
struct Wait {
    done: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// Tells the threads that nobody waits any more.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The part of a core that may use the threads, and the mailbox that [`Heavy::hear`] empties.
pub(crate) fn on_core(threads: HeavyThreads) -> (Rc<Heavy>, Inside<u64>) {
    let (outside, inside) = mailbox();
    let state = State {
        threads,
        done: outside,
        next: Cell::new(0),
        places: Rc::new(Pool::new(HEAVY_JOBS_PER_CORE_MAX)),
        given: RefCell::default(),
    };
    (Rc::new(Heavy(Rc::new(state))), inside)
}

impl Heavy {
    /// For handshakes, which share the core's places and not its queue.
    pub(crate) fn strangers(&self) -> Strangers {
        Strangers(Rc::clone(&self.0))
    }

    /// Hears from the threads what is done, and wakes who waits for it; `stir` is called each
    /// time. Has no end: to be dropped with its core.
    pub(crate) async fn hear(self: Rc<Self>, mut inside: Inside<u64>, stir: impl Fn()) {
        while let Some(number) = inside.next().await {
            stir();
            self.0.end(number);
        }
    }
}

impl Blocking for Heavy {
    fn run(&self, job: Job) -> JobDone {
        self.0.run(job, For::Known)
    }
}

/// The same threads for the handshakes of a core: see the module. Lives on that core.
#[derive(Debug)]
pub(crate) struct Strangers(Rc<State>);

impl Blocking for Strangers {
    fn run(&self, job: Job) -> JobDone {
        self.0.run(job, For::Strangers)
    }
}

impl State {
    fn run(self: &Rc<Self>, job: Job, whom: For) -> JobDone {
        let state = Rc::clone(self);
        Box::pin(async move {
            let place = Share::new(&state.places);
            poll_fn(|cx| place.poll_reserve(cx, 1)).await;
            let given_up = GiveUp(Arc::default());
            let wait = state.give(job, whom, place, Arc::clone(&given_up.0));
            poll_fn(|cx| wait.poll(cx)).await;
        })
    }

    fn give(&self, job: Job, whom: For, place: Share, given_up: Arc<AtomicBool>) -> Rc<Wait> {
        let number = self.next.get();
        self.next.set(number + 1);
        let wait = Rc::new(Wait::default());
        let given = Given {
            _place: place,
            wait: Rc::clone(&wait),
        };
        self.given.borrow_mut().insert(number, given);
        let order = Order {
            number,
            job,
            given_up,
            done: self.done.clone(),
        };
        let queue = match whom {
            For::Known => &self.threads.known,
            For::Strangers => &self.threads.strangers,
        };
        let sent = queue.try_send(order);
        assert!(sent.is_ok(), "the queue has room for each place");
        wait
    }

    fn end(&self, number: u64) {
        let given = self.given.borrow_mut().remove(&number);
        let given = given.expect("what is done was given");
        given.wait.done.set(true);
        if let Some(waker) = given.wait.waker.take() {
            waker.wake();
        }
    }
}

impl Wait {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.done.get() {
            return Poll::Ready(());
        }
        *self.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::blocking::run;
    use felix_core::limits::HANDSHAKE_JOBS_PER_CORE_MAX;
    use futures_util::FutureExt;
    use std::pin::pin;
    use std::time::Duration;

    /// A core that the test runs by hand.
    struct Bench {
        heavy: Rc<Heavy>,
        inside: Inside<u64>,
        threads: Vec<JoinHandle<()>>,
    }

    fn bench() -> Bench {
        let (seed, threads) = start(1).unwrap();
        let (heavy, inside) = on_core(seed);
        Bench {
            heavy,
            inside,
            threads,
        }
    }

    impl Bench {
        /// Hears of one job that is done.
        fn hear(&mut self) {
            let number = block_on(self.inside.next()).unwrap();
            self.heavy.0.end(number);
        }
    }

    /// A job that waits until it is let go, and says that it ran.
    fn held(ran: &Sender<usize>, number: usize) -> (Sender<()>, impl FnOnce() + Send + 'static) {
        let (let_go, gate) = crossbeam_channel::bounded(1);
        let ran = ran.clone();
        (let_go, move || {
            gate.recv().unwrap();
            ran.send(number).unwrap();
        })
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        struct Unpark(thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => return value,
                Poll::Pending => thread::park(),
            }
        }
    }

    #[test]
    fn a_job_runs_on_a_heavy_thread_and_its_result_comes_back() {
        let mut bench = bench();
        let name = || thread::current().name().map(str::to_owned);
        let heavy = Rc::clone(&bench.heavy);
        let mut ran = pin!(run(&*heavy, name));
        assert!((&mut ran).now_or_never().is_none());
        bench.hear();
        let name = ran.now_or_never().unwrap().unwrap();
        assert!(name.starts_with("felix-heavy-"), "{name}");
    }

    #[test]
    fn jobs_beyond_the_places_of_their_core_wait_in_line() {
        let mut bench = bench();
        let (ran, runs) = crossbeam_channel::unbounded();
        let count = HEAVY_JOBS_PER_CORE_MAX + 2;
        let (gates, jobs): (Vec<_>, Vec<_>) = (0..count).map(|n| held(&ran, n)).unzip();
        let heavy = Rc::clone(&bench.heavy);
        let mut waits: Vec<_> = jobs
            .into_iter()
            .map(|job| Box::pin(run(&*heavy, job)))
            .collect();
        for wait in &mut waits {
            assert!(wait.now_or_never().is_none());
        }
        assert_eq!(heavy.0.given.borrow().len(), HEAVY_JOBS_PER_CORE_MAX);
        assert!(heavy.0.places.has_waiting());
        for gate in gates {
            gate.send(()).unwrap();
        }
        for ended in 0..count {
            bench.hear();
            waits.retain_mut(|wait| wait.now_or_never().is_none());
            assert_eq!(waits.len(), count - ended - 1);
            assert!(heavy.0.given.borrow().len() <= HEAVY_JOBS_PER_CORE_MAX);
        }
        let mut order: Vec<usize> = runs.try_iter().collect();
        order.sort_unstable();
        assert_eq!(order, (0..count).collect::<Vec<_>>());
        assert_eq!(heavy.0.places.used(), 0);
    }

    #[test]
    fn a_job_given_up_in_the_queue_never_runs_and_gives_its_place_back() {
        let mut bench = bench();
        let (ran, runs) = crossbeam_channel::unbounded();
        let (gates, jobs): (Vec<_>, Vec<_>) = (0..4).map(|n| held(&ran, n)).unzip();
        let heavy = Rc::clone(&bench.heavy);
        let mut waits: Vec<_> = jobs
            .into_iter()
            .map(|job| Box::pin(run(&*heavy, job)))
            .collect();
        for wait in &mut waits {
            assert!(wait.now_or_never().is_none());
        }
        // The two threads are at the first two; the other two stand in the queue.
        waits.truncate(2);
        assert_eq!(heavy.0.places.used(), 4, "the queue still holds them");
        for gate in &gates {
            gate.send(()).unwrap();
        }
        for _ in 0..4 {
            bench.hear();
        }
        assert_eq!(heavy.0.places.used(), 0);
        let mut order: Vec<usize> = runs.try_iter().collect();
        order.sort_unstable();
        assert_eq!(order, [0, 1]);
    }

    #[test]
    fn who_publishes_does_not_wait_for_handshakes_of_however_many_cores() {
        const CORES: u16 = 16;
        let (seed, _threads) = start(CORES).unwrap();
        let (ran, runs) = crossbeam_channel::unbounded();
        let cores: Vec<_> = (0..CORES).map(|_| on_core(seed.clone())).collect();
        let mut gates = Vec::new();
        let mut waits = Vec::new();
        for (heavy, _) in &cores {
            for _ in 0..HANDSHAKE_JOBS_PER_CORE_MAX {
                let (gate, job) = held(&ran, gates.len());
                gates.push(gate);
                let strangers = heavy.strangers();
                waits.push(Box::pin(async move { run(&strangers, job).await }));
            }
        }
        for wait in &mut waits {
            assert!(wait.now_or_never().is_none());
        }
        // One of them holds a thread, and all others wait for it.
        for (heavy, _) in &cores {
            let (told, tells) = crossbeam_channel::bounded(1);
            let mut published = pin!(run(&**heavy, move || told.send(()).unwrap()));
            assert!((&mut published).now_or_never().is_none());
            assert_eq!(tells.recv_timeout(Duration::from_secs(20)), Ok(()));
        }
        assert!(runs.is_empty());
        for gate in &gates {
            gate.send(()).unwrap();
        }
        assert_eq!(runs.iter().take(gates.len()).count(), gates.len());
    }

    #[test]
    fn the_threads_end_with_the_last_core() {
        let Bench {
            heavy,
            inside,
            threads,
        } = bench();
        let given = heavy.run(Box::new(|| ()));
        let mut given = Some(given);
        assert!(given.as_mut().unwrap().now_or_never().is_none());
        // The core goes with a job under way.
        drop((given, inside, heavy));
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
