//! A bare write and flush, as a contender: no network, no other process.

use super::compare::Contender;
use super::load::Load;
use crate::floor::Flusher;
use crate::load::Job;
use crate::load::{Batches, Brought, Pace, Recorder, Watched};
use crate::pin;
use crate::problem::Problem;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// As a client's thread: asleep until shortly before something is due, then watching the clock.
const EARLY: Duration = Duration::from_micros(60);

/// Writes and flushes on the broker's processor when a request would be due.
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

    fn jobs(&mut self, load: &Load) -> Result<Vec<Job>, Problem> {
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
            let mut busy = Duration::ZERO;
            loop {
                let due = match &mut pace {
                    Some(pace) => {
                        let due = pace.due();
                        pace.advance();
                        due
                    }
                    None => begin.elapsed(),
                };
                if due >= timing.end() || stops.iter().any(|stop| stop.is_asked()) {
                    break;
                }
                wait_until(begin + due);
                let sent = begin.elapsed();
                recorder.sent(due, sent);
                flusher.once()?;
                let done = begin.elapsed();
                recorder.done(due, done, records, batch.len() as u64);
                if recorder.counts(due) {
                    busy += done - sent;
                }
            }
            Ok(Brought {
                recorder,
                waited: 0.0,
                busy: busy.as_secs_f64() / timing.measured.as_secs_f64(),
            })
        });
        Ok(vec![job])
    }

    fn watched(&self) -> Watched {
        Watched {
            pid: None,
            cpus: vec![self.cpu],
        }
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
