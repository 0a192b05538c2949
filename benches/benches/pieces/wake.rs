//! Waking a core from another thread, until its task runs and has said so.
//!
//! `task` is a core's executor with its sockets, woken as its lanes and its mailbox wake it.
//! *Asleep* it sleeps in the kernel; `eventfd` is the floor of that, a thread in a blocking read.
//! *Awake* it looks for work meanwhile (as with `FELIX_SPIN_US`); the floor of that is `atomics` of
//! `hop`. The one who wakes watches for the word without sleeping. Does not show what a processor
//! that has slept long, and deeply, takes to begin, nor several wakes at once.

use crate::processors;
use crate::sleeper::Sleeper;
use criterion::{BenchmarkId, Criterion};
use std::time::Duration;

/// Within this, whoever has nothing to do is asleep: going to sleep takes system calls, too.
const PAUSE: Duration = Duration::from_micros(200);

/// Longer than the pause between two samples.
const AWAKE: Duration = Duration::from_secs(1);

pub(crate) fn measure(criterion: &mut Criterion) {
    let Some([own, other]) = processors::two() else {
        eprintln!("wake: left out, since it takes two processors and there is one");
        return;
    };
    let mut group = criterion.benchmark_group("wake");
    let mut one = |id: BenchmarkId, sleeper: &Sleeper, pause: Duration| {
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|count| processors::on(own, || sleeper.times(count, pause)));
        });
    };
    let thread = Sleeper::descriptor(other);
    thread.check_sleeps();
    one(BenchmarkId::new("eventfd", "asleep"), &thread, PAUSE);
    let task = Sleeper::task(other, Duration::ZERO);
    task.check_sleeps();
    one(BenchmarkId::new("task", "asleep"), &task, PAUSE);
    let awake = Sleeper::task(other, AWAKE);
    one(BenchmarkId::new("task", "awake"), &awake, Duration::ZERO);
    group.finish();
}
