//! A bare write and flush, as a contender: no network, no other process.

use super::compare::Contender;
use super::load::Load;
use crate::floor::Flusher;
use crate::load::{Batches, Brought, EARLY, Job, Pace, Recorder, Stop, Watched};
use crate::pin;
use crate::problem::Problem;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Writes on the broker's processor when a request would be due, and flushes: once for all that
/// became due meanwhile, as a broker does.
#[derive(Debug)]
pub struct Flushed {
    dir: PathBuf,
    cpu: usize,
}

impl Flushed {
    /// Its file is made in `dir`.
    #[must_use]
    pub fn new(dir: PathBuf, cpu: usize) -> Self {
        Self { dir, cpu }
    }
}

impl Contender for Flushed {
    fn name(&self) -> &str {
        "write+flush"
    }

    fn is_floor(&self) -> bool {
        true
    }

    fn jobs(&mut self, load: &Load, _stop: &Stop) -> Result<Vec<Job>, Problem> {
        let mut random = fastrand::Rng::with_seed(load.seed);
        let places: Vec<usize> = (0..load.partitions).collect();
        let mut batches = Batches::make(&load.recipe, &places, load.partitions, &mut random)?;
        let batch = batches.take().bytes().to_vec();
        let mut flusher = Flusher::new(&self.dir, &batch)?;
        let cpu = self.cpu;
        let records = load.recipe.records as u64;
        let rate = load.requests_per_second();
        let arrivals = load.arrivals;
        let seed = load.seed;
        let job: Job = Box::new(move |begin, timing, stops| {
            pin::to(cpu)?;
            let slack = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            slack.map_err(|error| Problem::new(format!("timers stay coarse: {error}")))?;
            let mut recorder = Recorder::new(timing.warm_up, timing.end(), timing.slot);
            let mut pace = rate.map(|rate| Pace::new(rate, arrivals, 0.0, seed));
            let mut due = VecDeque::new();
            let mut until = timing.end();
            loop {
                let now = begin.elapsed();
                take_due(&mut pace, now.min(timing.end()), &mut due);
                let is_over =
                    now >= timing.end() && (due.is_empty() || now >= timing.end() + timing.grace);
                if stops.iter().any(|stop| stop.is_asked()) {
                    until = now.min(timing.end());
                    recorder.end_at(until);
                    break;
                }
                if is_over {
                    break;
                }
                if due.is_empty() {
                    let next = pace.as_ref().map_or(timing.end(), Pace::due);
                    wait_until(begin + next.min(timing.end()));
                    // How late the timer was, and not how long the one before took.
                    if next < timing.end() {
                        recorder.sent(next, begin.elapsed());
                    }
                    continue;
                }
                for _ in &due {
                    flusher.write()?;
                }
                flusher.flush()?;
                let done = begin.elapsed();
                for due in due.drain(..) {
                    recorder.done(due, done, records, batch.len() as u64);
                }
            }
            let now = begin.elapsed();
            for due in due {
                recorder.gave_up(due, now);
            }
            Ok(Brought {
                recorder,
                until,
                waited: 0.0,
                busy: 0.0,
                awake: 0.0,
            })
        });
        Ok(vec![job])
    }

    fn watched(&self) -> Watched {
        Watched {
            pid: None,
            cpus: vec![self.cpu],
            ..Watched::default()
        }
    }
}

/// Everything that is due by now; without a pace, one more.
fn take_due(pace: &mut Option<Pace>, now: Duration, due: &mut VecDeque<Duration>) {
    match pace {
        Some(pace) => {
            while pace.due() < now {
                due.push_back(pace.due());
                pace.advance();
            }
        }
        None if due.is_empty() => due.push_back(now),
        None => {}
    }
}

fn wait_until(at: Instant) {
    let asleep = at
        .saturating_duration_since(Instant::now())
        .saturating_sub(EARLY);
    if !asleep.is_zero() {
        std::thread::sleep(asleep);
    }
    while Instant::now() < at {
        std::hint::spin_loop();
    }
}
