//! A question to the owner of a shard, and its answer: where a shard ends.
//!
//! `call` is the same of a shard of the own core, which takes no hop. `lane` goes to the other core
//! and back, asked one at a time. *Asleep*: both cores sleep in the kernel whenever they wait, so
//! that each of the two messages wakes one. *Awake*: both look for work meanwhile (as with
//! `FELIX_SPIN_US`). `atomics` is the floor of the latter: two threads that do nothing but watch a
//! number each. The floor of the former is two of `wake/eventfd`. Does not show messages in number,
//! which share a wake and a look.

use crate::mesh::{OTHER, OWN, Pair};
use crate::processors;
use crate::spinner::Spinner;
use criterion::{BenchmarkId, Criterion};
use std::time::Duration;

/// Much longer than an answer takes, and short enough that it costs little after each sample.
const AWAKE: Duration = Duration::from_millis(5);

pub(crate) fn measure(criterion: &mut Criterion) {
    let Some(cpus) = processors::two() else {
        eprintln!("hop: left out, since it takes two processors and there is one");
        return;
    };
    let mut group = criterion.benchmark_group("hop");
    for (waiting, vigil) in [("asleep", Duration::ZERO), ("awake", AWAKE)] {
        let pair = Pair::start(cpus, vigil);
        // Who calls does not wait, so that it is the same for both.
        if vigil.is_zero() {
            group.bench_function("call", |bencher| {
                bencher.iter_custom(|count| pair.times(OWN, count));
            });
        }
        group.bench_function(BenchmarkId::new("lane", waiting), |bencher| {
            bencher.iter_custom(|count| pair.times(OTHER, count));
        });
    }
    let spinner = Spinner::start(cpus[1]);
    group.bench_function("atomics", |bencher| {
        bencher.iter_custom(|count| processors::on(cpus[0], || spinner.times(count)));
    });
    group.finish();
}
