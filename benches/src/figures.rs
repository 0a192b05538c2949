//! All figures of one run.

use crate::binary;
use crate::flush;
use crate::idle::Idle;
use crate::latency::Compared;
use crate::machine::{Machine, Ticks};
use crate::memory::Memory;
use crate::plan::Plan;
use crate::round_trip::RoundTrip;
use crate::throughput::Throughput;
use std::path::Path;

/// What a run found.
#[derive(Clone, Debug)]
pub struct Figures {
    pub(crate) machine: Machine,
    /// Of the processors' time while it ran.
    pub(crate) stolen_percent: f64,
    pub(crate) rounds: usize,
    pub(crate) round_trips: Vec<RoundTrip>,
    pub(crate) flush: Compared,
    pub(crate) throughputs: Vec<Throughput>,
    pub(crate) idle: Idle,
    pub(crate) memory: Memory,
}

impl Figures {
    /// Takes all figures, one after the other, of the broker at `binary` or else of this source,
    /// with its data under `dir`; tells what it is about to measure.
    ///
    /// # Panics
    /// Something that it needs is not to be had, or the broker does not do what it should: half a
    /// set of figures is none.
    pub fn take(
        plan: &Plan,
        binary: Option<&Path>,
        dir: &Path,
        mut tell: impl FnMut(&str),
    ) -> Self {
        tell("the broker");
        let binary = binary.map_or_else(binary::broker, Path::to_path_buf);
        let machine = Machine::look(dir);
        let before = Ticks::now();
        tell("idle broker");
        let idle = Idle::measure(plan, &binary, dir);
        tell("memory");
        let memory = Memory::measure(plan, &binary, dir);
        tell("produce round trip");
        let round_trips = RoundTrip::measure_all(plan, &binary, dir);
        tell("produce round trip with a flush");
        let flush = flush::measure(plan, &binary, dir);
        tell("throughput");
        let throughputs = Throughput::measure_all(plan, &binary, dir);
        Self {
            machine,
            stolen_percent: Ticks::now().stolen_percent_since(&before),
            rounds: plan.rounds,
            round_trips,
            flush,
            throughputs,
            idle,
            memory,
        }
    }
}
