//! Something that sleeps until another thread wakes it, and then says that it is awake.

use crate::executor::{self, Sockets};
use crate::processors;
use futures_util::task::AtomicWaker;
use glommio::Placement;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::fs;
use std::future::poll_fn;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// In place of a number: it is to end.
const END: u64 = u64::MAX;

/// What does not sleep within this never will.
const ASLEEP_BY: Duration = Duration::from_secs(20);

/// A minute or more of looking whether it is awake.
const LOOKS_MAX: u64 = 1 << 32;

/// What the two threads have in common.
struct Shared {
    asked: AtomicU64,
    seen: AtomicU64,
    bell: Bell,
}

/// What wakes it.
enum Bell {
    /// The waker of a task, as the doorbell of a core and its mailbox have it.
    Task(AtomicWaker),
    /// A descriptor that a thread reads.
    Descriptor(OwnedFd),
}

/// The thread that sleeps.
pub(crate) struct Sleeper {
    shared: Arc<Shared>,
    /// The kernel's number for it.
    thread_id: i32,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    /// A core's executor with its sockets, on which one task waits. Without work, it looks for it
    /// for `vigil` before it sleeps.
    pub(crate) fn task(cpu: usize, vigil: Duration) -> Self {
        let bell = Bell::Task(AtomicWaker::new());
        Self::start(bell, move |shared, ready| {
            let executor = executor::builder(Placement::Fixed(cpu))
                .make()
                .expect("the kernel has io_uring");
            executor.run(async move {
                let sockets = Sockets::start(vigil);
                ready();
                wait_as_task(&shared, || sockets.reactor.stir()).await;
                sockets.end().await;
            });
        })
    }

    /// A thread in a blocking read of an eventfd: the least that a wake can be.
    pub(crate) fn descriptor(cpu: usize) -> Self {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC);
        let bell = Bell::Descriptor(eventfd.expect("the process may open another descriptor"));
        Self::start(bell, move |shared, ready| {
            processors::pin(cpu);
            ready();
            wait_as_thread(&shared);
        })
    }

    fn start(bell: Bell, sleep: impl FnOnce(Arc<Shared>, Ready) + Send + 'static) -> Self {
        let shared = Arc::new(Shared {
            asked: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            bell,
        });
        let (tell, told) = sync_channel(1);
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(move || sleep(theirs, ready(tell)));
        Self {
            shared,
            thread_id: told.recv().expect("it says so or has failed"),
            thread: Some(thread),
        }
    }

    /// The time of so many wakes, each after a pause that does not count and in which the caller
    /// keeps its processor awake.
    pub(crate) fn times(&self, count: u64, pause: Duration) -> Duration {
        let mut took = Duration::ZERO;
        for _ in 0..count {
            let paused = Instant::now();
            while paused.elapsed() < pause {
                spin_loop();
            }
            took += self.wake();
        }
        took
    }

    /// It sleeps, as the kernel says, and wakes when asked, three times.
    pub(crate) fn check_sleeps(&self) {
        for _ in 0..3 {
            let start = Instant::now();
            while !self.is_asleep() {
                assert!(start.elapsed() < ASLEEP_BY, "it does not go to sleep");
                thread::yield_now();
            }
            self.wake();
        }
    }

    fn is_asleep(&self) -> bool {
        let path = format!("/proc/self/task/{}/stat", self.thread_id);
        let stat = fs::read_to_string(path).expect("the thread runs until it is dropped");
        // The name, in parentheses, may hold anything; the state follows it.
        let (_, state) = stat.rsplit_once(") ").expect("a name ends");
        state.starts_with('S')
    }

    fn wake(&self) -> Duration {
        let Shared { asked, seen, .. } = &*self.shared;
        let number = asked.load(Ordering::Relaxed) + 1;
        let start = Instant::now();
        asked.store(number, Ordering::Release);
        self.shared.bell.ring();
        let mut looks = 0_u64;
        while seen.load(Ordering::Acquire) != number {
            looks += 1;
            assert!(looks < LOOKS_MAX, "it does not wake");
            spin_loop();
        }
        start.elapsed()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.shared.asked.store(END, Ordering::Release);
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("what it found wrong has been said");
        }
    }
}

impl Bell {
    fn ring(&self) {
        match self {
            Self::Task(waker) => waker.wake(),
            Self::Descriptor(eventfd) => {
                let written = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
                written.expect("the count is far from its end");
            }
        }
    }
}

/// To be called by the thread once it is about to sleep.
type Ready = Box<dyn FnOnce() + Send>;

fn ready(tell: SyncSender<i32>) -> Ready {
    Box::new(move || {
        let this = rustix::thread::gettid().as_raw_nonzero().get();
        tell.send(this).expect("the other thread waits for it");
    })
}

async fn wait_as_task(shared: &Shared, stir: impl Fn()) {
    let Bell::Task(waker) = &shared.bell else {
        unreachable!("made for a task")
    };
    poll_fn(|cx| {
        // As at a core's lanes: register first, look after.
        waker.register(cx.waker());
        stir();
        let asked = shared.asked.load(Ordering::Acquire);
        if asked == END {
            return Poll::Ready(());
        }
        shared.seen.store(asked, Ordering::Release);
        Poll::Pending
    })
    .await;
    // On its own core: a waker must not outlive its executor.
    drop(waker.take());
}

fn wait_as_thread(shared: &Shared) {
    let Bell::Descriptor(eventfd) = &shared.bell else {
        unreachable!("made for a thread")
    };
    let mut count = [0; 8];
    loop {
        let read = rustix::io::read(eventfd, &mut count);
        assert_eq!(read, Ok(count.len()));
        let asked = shared.asked.load(Ordering::Acquire);
        if asked == END {
            return;
        }
        shared.seen.store(asked, Ordering::Release);
    }
}
