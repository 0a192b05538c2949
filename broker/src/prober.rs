//! Looks at every core from outside: how long a message waits until its core takes it.
//!
//! The cores watch themselves for stalls, and cannot see what lies outside their tasks: a runtime
//! that waits in the kernel, a processor that is given to somebody else. A message sees it all.
//! The core stamps the time at which it takes the message, so that the prober's own waiting for a
//! processor does not count.

use crate::clock::SystemClock;
use crate::mailbox::Outside;
use felix_core::metrics::{Distribution, Unit};
use felix_core::{Clock, Histogram, Monotonic};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::sync::oneshot;

/// A core that takes a message no sooner is called stuck in the log, once until it goes on.
const STUCK: Duration = Duration::from_secs(1);

/// A question: when do you take this?
pub(crate) type Ping = oneshot::Sender<Monotonic>;

/// Belongs to the control thread.
#[derive(Debug)]
pub(crate) struct Prober<M> {
    every: Option<Duration>,
    cores: Vec<Probed<M>>,
}

#[derive(Debug)]
struct Probed<M> {
    number: usize,
    outside: Outside<M>,
    answered: Histogram,
}

impl<M: From<Ping>> Prober<M> {
    /// Of these cores, in their order. `every` says how long it rests between two messages;
    /// `None`: it sends none.
    #[must_use]
    pub(crate) fn new(cores: Vec<Outside<M>>, every: Option<Duration>) -> Self {
        let cores = cores.into_iter().enumerate();
        let cores = cores.map(|(number, outside)| Probed {
            number,
            outside,
            answered: Histogram::default(),
        });
        Self {
            every,
            cores: cores.collect(),
        }
    }

    /// Pings every core, each on its own, so that one that is stuck hides no other. Rests first,
    /// since cores take a moment to start; ends with them.
    pub(crate) async fn run(&self) {
        let Some(every) = self.every else { return };
        let probes = self.cores.iter().map(|core| async move {
            loop {
                tokio::time::sleep(every).await;
                if !core.probe().await {
                    return;
                }
            }
        });
        join_all(probes).await;
    }

    /// What has been seen so far.
    pub(crate) fn distributions(&self, take: &mut dyn FnMut(Distribution)) {
        let now = SystemClock.monotonic();
        for core in &self.cores {
            take(Distribution {
                name: "felix_core_probe_us",
                help: "From sending a core a message to the core taking it, sleep included.",
                unit: Unit::Microseconds,
                labels: vec![("core", core.number.to_string())],
                values: core.answered.snapshot(now),
            });
        }
    }
}

impl<M: From<Ping>> Probed<M> {
    /// Pings once; whether the core still runs.
    async fn probe(&self) -> bool {
        let (ping, mut taken) = oneshot::channel();
        let sent = SystemClock.monotonic();
        if !self.outside.send(M::from(ping)) {
            return false;
        }
        let taken = match tokio::time::timeout(STUCK, &mut taken).await {
            Ok(taken) => taken,
            Err(_) => {
                tracing::warn!(
                    core = self.number,
                    waited_ms = milliseconds(STUCK),
                    "a core does not take messages"
                );
                taken.await
            }
        };
        let Ok(taken) = taken else { return false };
        self.answered.record(sent, taken);
        let waited = taken.until(sent);
        if waited >= STUCK {
            let waited_ms = milliseconds(waited);
            tracing::warn!(core = self.number, waited_ms, "a core takes messages again");
        }
        true
    }
}

/// For the log, whose JSON has no numbers beyond 64 bits.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::{Inside, mailbox};
    use felix_core::stalls::{StallBounds, Work};
    use felix_core::{Stalls, metrics::Metrics};
    use glommio::{LocalExecutorBuilder, Placement};
    use std::rc::Rc;
    use std::sync::mpsc::{self, Sender};

    /// What a core held too long has seen of it.
    #[derive(Debug)]
    struct Seen {
        stalls: Vec<(&'static str, String, f64)>,
        reported: Vec<String>,
    }

    /// A core that first computes for 5 ms in a task that is watched, and then waits in the kernel
    /// for 200 ms outside any such task, with messages to take all the while.
    async fn hold(mut inside: Inside<Ping>, seen: Sender<Seen>) {
        let clock: Rc<dyn Clock> = Rc::new(SystemClock);
        let bounds = StallBounds {
            counted: Duration::from_micros(250),
            reported: Duration::from_millis(1),
        };
        let (report, reports) = mpsc::channel();
        let stalls = Rc::new(Stalls::new(Rc::clone(&clock), bounds, move |stall| {
            report
                .send(format!("{} {}", stall.work.label(), stall.name))
                .unwrap();
        }));
        answer(&mut inside, 1).await;
        let burning = async {
            let end = SystemClock.monotonic().after(Duration::from_millis(5));
            while SystemClock.monotonic() < end {}
        };
        let burning = Rc::clone(&stalls).watch(Work::Flush, "burning", burning);
        glommio::spawn_local(burning).await;
        answer(&mut inside, 1).await;
        let (_nobody, nothing) = mpsc::channel::<()>();
        nothing
            .recv_timeout(Duration::from_millis(200))
            .unwrap_err();
        answer(&mut inside, 3).await;
        let mut counts = Vec::new();
        stalls.collect(&mut |sample| {
            let label = sample.labels.into_iter().next();
            if let (Some((_, label)), true) = (label, sample.value > 0.0) {
                counts.push((sample.name, label, sample.value));
            }
        });
        let reported = reports.try_iter().collect();
        seen.send(Seen {
            stalls: counts,
            reported,
        })
        .unwrap();
    }

    async fn answer(inside: &mut Inside<Ping>, count: usize) {
        for _ in 0..count {
            let ping = inside.next().await.unwrap();
            ping.send(SystemClock.monotonic()).unwrap();
        }
    }

    #[test]
    fn a_core_notices_the_task_that_holds_it_and_the_prober_what_the_core_cannot_see() {
        let (outside, inside) = mailbox();
        let (seen, told) = mpsc::channel();
        let core = LocalExecutorBuilder::new(Placement::Unbound)
            .io_memory(64 << 10)
            .spawn(move || hold(inside, seen))
            .unwrap();
        let prober = Prober::new(vec![outside], Some(Duration::from_millis(1)));
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(prober.run());
        core.join().unwrap();

        let Seen { stalls, reported } = told.recv().unwrap();
        assert_eq!(reported, ["flush burning"]);
        assert_eq!(
            stalls[0],
            ("felix_core_stalls_total", "flush".to_owned(), 1.0)
        );
        let (name, _, longest_us) = &stalls[1];
        assert_eq!(*name, "felix_core_stall_us_max");
        assert!(*longest_us >= 5000.0, "{longest_us}");
        assert_eq!(
            stalls.len(),
            2,
            "the wait in the kernel was in no watched task: {stalls:?}"
        );

        let mut probes = Vec::new();
        prober.distributions(&mut |distribution| probes.push(distribution));
        assert_eq!(probes[0].labels, [("core", "0".to_owned())]);
        assert_eq!(probes[0].values.count(), 5);
        let longest_us = probes[0].values.quantile(1.0).unwrap();
        assert!(longest_us >= 100_000, "{longest_us}");
    }

    #[test]
    fn a_prober_that_is_off_sends_nothing_and_ends() {
        let (outside, mut inside) = mailbox::<Ping>();
        let prober = Prober::new(vec![outside], None);
        use futures_util::FutureExt;
        assert_eq!(prober.run().now_or_never(), Some(()));
        assert!(inside.next().now_or_never().is_none());
    }
}
