//! One turn: workers run, and the machine is watched beside them.

use super::recorder::Recorder;
use super::steal::Ticks;
use super::stop::Stop;
use super::work::Brought;
use crate::found::{Round, Usage};
use crate::problem::Problem;
use crate::{pin, usage};
use std::thread;
use std::time::{Duration, Instant};

/// Slots are at least this long: steal is counted in ticks of 10 ms.
const SLOT_MIN: Duration = Duration::from_millis(100);
/// There are at most so many slots in a turn.
const SLOTS_MAX: u32 = 300;
/// From the decision to begin until everybody is on their processor, with all memory there.
const LEAD: Duration = Duration::from_millis(100);

/// How long a turn takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Load that does not count.
    pub warm_up: Duration,
    /// Load that counts.
    pub measured: Duration,
    /// How long answers are waited for after it.
    pub grace: Duration,
    /// How finely time is told apart.
    pub slot: Duration,
}

impl Timing {
    /// With slots as fine as makes sense.
    #[must_use]
    pub fn new(warm_up: Duration, measured: Duration, grace: Duration) -> Self {
        let slot = SLOT_MIN.max(measured / SLOTS_MAX);
        Self {
            warm_up,
            measured,
            grace,
            slot,
        }
    }

    /// When load ends, from its start.
    #[must_use]
    pub fn end(&self) -> Duration {
        self.warm_up + self.measured
    }
}

/// What is looked at while a turn runs.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The server's process, if it is on this machine.
    pub pid: Option<u32>,
    /// Processors whose stolen time counts: those of the server and of the clients.
    pub cpus: Vec<usize>,
    /// One of the clients'.
    pub client_cpu: usize,
}

/// What a thread does in a turn, from that moment on, until one of the stops is asked for.
pub type Job = Box<dyn FnOnce(Instant, &Timing, &[&Stop]) -> Result<Brought, Problem> + Send>;

/// Lets the threads run. None: it was stopped before anything was measured.
///
/// # Errors
/// A thread gave up, or the system refuses one.
pub(crate) fn take(
    jobs: Vec<Job>,
    timing: &Timing,
    watched: &Watched,
    stop: &Stop,
) -> Result<Option<Round>, Problem> {
    assert!(!jobs.is_empty());
    let failed = Stop::default();
    let begin = Instant::now() + LEAD;
    let taken = thread::scope(|scope| {
        let mut workers = Vec::new();
        for job in jobs {
            let failed = &failed;
            let run = move || {
                let brought = job(begin, timing, &[stop, failed]);
                if brought.is_err() {
                    failed.ask();
                }
                brought
            };
            let name = "felix-bench-load".to_owned();
            let worker = thread::Builder::new().name(name).spawn_scoped(scope, run);
            workers.push(worker.map_err(|error| {
                failed.ask();
                Problem::new(format!("the system refuses a thread: {error}"))
            })?);
        }
        // Beside those that are measured, or else on a client's processor and never on a server's.
        let apart = pin::allowed()
            .into_iter()
            .find(|cpu| !watched.cpus.contains(cpu));
        let kept = pin::to(apart.unwrap_or(watched.client_cpu));
        let seen = kept.and_then(|()| watch(begin, timing, watched, &[stop, &failed]));
        if seen.is_err() {
            failed.ask();
        }
        let brought = workers
            .into_iter()
            .map(|worker| worker.join().expect("workers return errors"));
        let brought: Vec<Brought> = brought.collect::<Result<_, Problem>>()?;
        Ok::<_, Problem>((brought, seen?))
    });
    // What is started between turns may go anywhere.
    pin::free().map_err(|error| Problem::new(format!("processors stay refused: {error}")))?;
    let (brought, seen) = taken?;
    let until = brought.iter().map(|one| one.until).max();
    let lasted = until.unwrap_or_default().saturating_sub(timing.warm_up);
    if lasted.is_zero() {
        return Ok(None);
    }
    let round = round(brought, seen, lasted);
    match round.is_empty() {
        false => Ok(Some(round)),
        true if stop.is_asked() => Ok(None),
        // Nothing is no figure, and nobody should take it for one.
        true => Err(Problem::new(format!(
            "nothing was due or done in a turn of {lasted:?}; ask for a higher --rate or a longer \
             --duration, and see that the processors of --cpus are free"
        ))),
    }
}

fn round(brought: Vec<Brought>, seen: Seen, lasted: Duration) -> Round {
    let client_awake = brought.iter().map(|one| one.awake).fold(0.0, f64::max);
    let client_waited = brought.iter().map(|one| one.waited).fold(0.0, f64::max);
    let client_busy = brought.iter().map(|one| one.busy).fold(0.0, f64::max);
    let mut recorders = brought.into_iter().map(|one| one.recorder);
    let mut sum: Recorder = recorders.next().expect("there is a worker");
    for recorder in recorders {
        sum.add(&recorder);
    }
    // A run keeps many rounds.
    sum.latencies.pack();
    Round {
        lasted,
        latencies: sum.latencies,
        lateness: sum.lateness,
        operations: sum.operations,
        records: sum.records,
        bytes: sum.bytes,
        unanswered: sum.unanswered,
        errors: sum.errors,
        stolen: seen.stolen,
        stolen_percent: seen.stolen_percent,
        usage: seen.usage,
        client_busy,
        client_waited,
        client_awake,
    }
}

/// What was seen beside the workers.
#[derive(Debug)]
struct Seen {
    stolen: Vec<bool>,
    stolen_percent: f64,
    usage: Vec<Usage>,
}

fn watch(
    begin: Instant,
    timing: &Timing,
    watched: &Watched,
    stops: &[&Stop],
) -> Result<Seen, Problem> {
    let is_stopped = || stops.iter().any(|stop| stop.is_asked());
    let sleep_until = |at: Duration| {
        // In pieces, so that Ctrl-C does not wait.
        while !is_stopped() && begin.elapsed() < at {
            thread::sleep(at.saturating_sub(begin.elapsed()).min(SLOT_MIN));
        }
    };
    let usage_now = || watched.pid.and_then(|pid| usage::Usage::of(pid).ok());
    sleep_until(timing.warm_up);
    let first = Ticks::now(&watched.cpus)?;
    let mut before = first.clone();
    let (mut used_before, mut at_before) = (usage_now(), begin.elapsed());
    let (mut stolen, mut usage) = (Vec::new(), Vec::new());
    let mut at = timing.warm_up;
    while at < timing.end() && !is_stopped() {
        at = (at + timing.slot).min(timing.end());
        sleep_until(at);
        let (ticks, used, now) = (Ticks::now(&watched.cpus)?, usage_now(), begin.elapsed());
        stolen.push(ticks.is_stolen_since(&before));
        if let (Some(used), Some(used_before)) = (used, used_before) {
            usage.push(Usage {
                at: now.saturating_sub(timing.warm_up),
                processors: processors(
                    used.cpu_ticks.saturating_sub(used_before.cpu_ticks),
                    now.saturating_sub(at_before),
                ),
                resident_bytes: used.resident_bytes,
            });
        }
        (before, used_before, at_before) = (ticks, used, now);
    }
    Ok(Seen {
        stolen,
        stolen_percent: before.stolen_percent_since(&first),
        usage,
    })
}

fn processors(ticks: u64, during: Duration) -> f64 {
    let ticks = f64::from(u32::try_from(ticks).unwrap_or(u32::MAX));
    ticks * usage::TICK.as_secs_f64() / during.as_secs_f64().max(1e-9)
}
