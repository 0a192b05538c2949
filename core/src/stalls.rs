//! Who holds a CPU core for too long: the clock is read before and after each piece of work that
//! cannot be interrupted, and what took longer than it may is counted and named.
//!
//! This sees what our tasks do, waiting in the kernel included. What the runtime does between them
//! is seen by the broker's prober, from outside.

use crate::log_limit::LogLimit;
use crate::metrics::{Counter, Kind, Metrics, Sample};
use crate::{Clock, Monotonic};
use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

/// Kinds of work that hold a core until they are done. One may lie within another, which then
/// counts too: an append within the turn of the connection that asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A turn of a client's connection.
    Connection,
    /// A turn of the task that hands out the readiness of sockets.
    Sockets,
    /// A look at the lanes from other cores.
    Lanes,
    /// A turn of the rounds of flushes.
    Flush,
    /// A batch that is written to its log.
    Append,
    /// A turn of a task beside the requests: opening, cold reads, searches, waking, parked appends.
    Shard,
    /// An answer to the rest of the process.
    Mail,
}

impl Work {
    const ALL: [Self; 7] = [
        Self::Connection,
        Self::Sockets,
        Self::Lanes,
        Self::Flush,
        Self::Append,
        Self::Shard,
        Self::Mail,
    ];

    /// The label value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Sockets => "sockets",
            Self::Lanes => "lanes",
            Self::Flush => "flush",
            Self::Append => "append",
            Self::Shard => "shard",
            Self::Mail => "mail",
        }
    }
}

/// From which length on a piece of work is a stall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StallBounds {
    /// Longer ones are counted.
    pub counted: Duration,
    /// Longer ones are also reported, by name.
    pub reported: Duration,
}

/// A stall that is to be told.
#[derive(Debug)]
pub struct Stall<'a> {
    /// What kind of work it was.
    pub work: Work,
    /// Whose.
    pub name: &'a str,
    /// How long it held the core.
    pub took: Duration,
    /// Earlier ones that were left out, since there were too many to tell.
    pub left_out: u64,
}

/// See the module. Lives on its core.
pub struct Stalls {
    clock: Rc<dyn Clock>,
    bounds: StallBounds,
    counts: [Counter; Work::ALL.len()],
    longest_us: [Cell<u64>; Work::ALL.len()],
    lines: LogLimit,
    report: Box<dyn Fn(&Stall<'_>)>,
}

impl Stalls {
    /// `report` is told of the long ones, a few a second.
    pub fn new(
        clock: Rc<dyn Clock>,
        bounds: StallBounds,
        report: impl Fn(&Stall<'_>) + 'static,
    ) -> Self {
        assert!(bounds.counted <= bounds.reported);
        Self {
            clock,
            bounds,
            counts: Default::default(),
            longest_us: Default::default(),
            lines: LogLimit::default(),
            report: Box::new(report),
        }
    }

    /// Work begins, unless its caller knows the time already.
    #[must_use]
    pub fn begin(&self) -> Monotonic {
        self.clock.monotonic()
    }

    /// Work that began at `begun` has ended; returns the time. `name` says whose it was and is
    /// asked for only where that is told.
    pub fn end(&self, begun: Monotonic, work: Work, name: impl FnOnce() -> String) -> Monotonic {
        let now = self.clock.monotonic();
        let took = now.until(begun);
        if took > self.bounds.counted {
            self.count(work, took);
            if took > self.bounds.reported {
                self.tell(work, took, now, name);
            }
        }
        now
    }

    /// Watches every turn of a task.
    pub async fn watch<T>(
        self: Rc<Self>,
        work: Work,
        name: &'static str,
        task: impl Future<Output = T>,
    ) -> T {
        let mut task = pin!(task);
        poll_fn(|cx| {
            let begun = self.begin();
            let polled = task.as_mut().poll(cx);
            self.end(begun, work, || name.to_owned());
            polled
        })
        .await
    }

    #[cold]
    fn count(&self, work: Work, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let all = Work::ALL.iter().zip(&self.counts).zip(&self.longest_us);
        for ((_, count), longest_us) in all.filter(|((known, _), _)| **known == work) {
            count.increment();
            longest_us.set(longest_us.get().max(took_us));
        }
    }

    #[cold]
    fn tell(&self, work: Work, took: Duration, now: Monotonic, name: impl FnOnce() -> String) {
        if let Some(left_out) = self.lines.admit(now) {
            (self.report)(&Stall {
                work,
                name: &name(),
                took,
                left_out,
            });
        }
    }
}

impl Metrics for Stalls {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a sample is a float; 2^53 is precise enough"
    )]
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        let all = Work::ALL.iter().zip(&self.counts).zip(&self.longest_us);
        for ((work, count), longest_us) in all {
            let labels = vec![("task", work.label().to_owned())];
            take(Sample {
                name: "felix_core_stalls_total",
                help: "Times that a task held its core longer than FELIX_STALL_US.",
                kind: Kind::Counter,
                labels: labels.clone(),
                value: count.value() as f64,
            });
            take(Sample {
                name: "felix_core_stall_us_max",
                help: "The longest that a task has held its core, of those that count as stalls.",
                kind: Kind::Maximum,
                labels,
                value: longest_us.get() as f64,
            });
        }
        take(Sample {
            name: "felix_log_left_out_total",
            help: "Lines left out of the log since there were too many of their kind.",
            kind: Kind::Counter,
            labels: vec![("kind", "stall".to_owned())],
            value: self.lines.left_out() as f64,
        });
    }
}

impl fmt::Debug for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stalls")
            .field("bounds", &self.bounds)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::log_limit::LINES_PER_WINDOW_MAX;
    use std::cell::RefCell;
    use std::task::{Context, Poll, Waker};

    #[derive(Default)]
    struct ModelClock(Cell<Duration>);

    impl ModelClock {
        fn pass_us(&self, us: u64) {
            self.0.set(self.0.get() + Duration::from_micros(us));
        }
    }

    impl Clock for ModelClock {
        fn wall(&self) -> Timestamp {
            Timestamp(0)
        }

        fn monotonic(&self) -> Monotonic {
            Monotonic(self.0.get())
        }
    }

    type Told = Rc<RefCell<Vec<String>>>;

    fn stalls() -> (Rc<ModelClock>, Rc<Stalls>, Told) {
        let clock = Rc::new(ModelClock::default());
        let told = Told::default();
        let bounds = StallBounds {
            counted: Duration::from_micros(250),
            reported: Duration::from_millis(1),
        };
        let here = Rc::clone(&told);
        let stalls = Stalls::new(Rc::clone(&clock) as Rc<dyn Clock>, bounds, move |stall| {
            let line = format!(
                "{} {} {:?} {}",
                stall.work.label(),
                stall.name,
                stall.took,
                stall.left_out
            );
            here.borrow_mut().push(line);
        });
        (clock, Rc::new(stalls), told)
    }

    fn value(stalls: &Stalls, name: &str, label: &str) -> f64 {
        let mut value = None;
        stalls.collect(&mut |sample| {
            if sample.name == name && sample.labels.iter().any(|(_, text)| text == label) {
                value = Some(sample.value);
            }
        });
        value.unwrap()
    }

    #[test]
    fn work_within_its_bound_is_no_stall_and_a_longer_one_is_counted_and_a_long_one_named() {
        let (clock, stalls, told) = stalls();
        for us in [100, 250, 251, 1000, 1001] {
            let begun = stalls.begin();
            clock.pass_us(us);
            let now = stalls.end(begun, Work::Append, || format!("dev/clicks-{us}"));
            assert_eq!(now, stalls.begin());
        }
        assert_eq!(value(&stalls, "felix_core_stalls_total", "append"), 3.0);
        assert_eq!(value(&stalls, "felix_core_stall_us_max", "append"), 1001.0);
        assert_eq!(value(&stalls, "felix_core_stalls_total", "lanes"), 0.0);
        assert_eq!(*told.borrow(), ["append dev/clicks-1001 1.001ms 0"]);
    }

    #[test]
    fn each_turn_of_a_task_is_measured_by_itself_and_waiting_is_not() {
        let (clock, stalls, told) = stalls();
        let mut turns = [200, 200, 2000].into_iter();
        let task = poll_fn(|_| {
            clock.pass_us(turns.next().unwrap());
            if turns.len() == 0 {
                Poll::Ready(7)
            } else {
                Poll::Pending
            }
        });
        let mut watched = pin!(Rc::clone(&stalls).watch(Work::Lanes, "lanes", task));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            assert!(watched.as_mut().poll(&mut cx).is_pending());
            clock.pass_us(1_000_000);
        }
        assert_eq!(watched.as_mut().poll(&mut cx), Poll::Ready(7));
        assert_eq!(value(&stalls, "felix_core_stalls_total", "lanes"), 1.0);
        assert_eq!(*told.borrow(), ["lanes lanes 2ms 0"]);
    }

    #[test]
    fn a_core_that_stalls_all_the_time_does_not_flood_the_log() {
        let (clock, stalls, told) = stalls();
        for _ in 0..500 {
            let begun = stalls.begin();
            clock.pass_us(1500);
            stalls.end(begun, Work::Mail, String::new);
        }
        assert_eq!(value(&stalls, "felix_core_stalls_total", "mail"), 500.0);
        assert_eq!(
            told.borrow().len(),
            usize::try_from(LINES_PER_WINDOW_MAX).unwrap()
        );
        assert_eq!(value(&stalls, "felix_log_left_out_total", "stall"), 490.0);
    }
}
