//! The floor of every message between two processors: a thread that does nothing but watch a
//! number, and says that it has seen it.

use crate::processors;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// In place of a number: the thread is to end.
const END: u64 = u64::MAX;

/// A number, alone on its cache line and the one that is fetched with it.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

#[derive(Default)]
struct Lines {
    asked: Line,
    seen: Line,
}

/// The thread that watches.
pub(crate) struct Spinner {
    lines: Arc<Lines>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Starts it on a processor.
    pub(crate) fn start(cpu: usize) -> Self {
        let lines: Arc<Lines> = Arc::default();
        let watched = Arc::clone(&lines);
        let thread = thread::spawn(move || {
            processors::pin(cpu);
            let mut last = 0;
            while last != END {
                let asked = watched.asked.0.load(Ordering::Acquire);
                if asked != last {
                    last = asked;
                    watched.seen.0.store(asked, Ordering::Release);
                }
                spin_loop();
            }
        });
        Self {
            lines,
            thread: Some(thread),
        }
    }

    /// The time of so many numbers, each said once the one before it has been seen.
    pub(crate) fn times(&self, count: u64) -> Duration {
        let Lines { asked, seen } = &*self.lines;
        let before = asked.0.load(Ordering::Relaxed);
        let start = Instant::now();
        for number in before + 1..=before + count {
            asked.0.store(number, Ordering::Release);
            while seen.0.load(Ordering::Acquire) != number {
                spin_loop();
            }
        }
        start.elapsed()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.lines.asked.0.store(END, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it does nothing that could fail");
        }
    }
}
