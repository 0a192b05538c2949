//! One pinned thread that sends when it is due and takes what comes.

mod send;
mod take;

use super::join::Join;
use super::reader::{Read, Reader};
use super::recorder::Recorder;
use super::round::Timing;
use super::stop::Stop;
use super::waits::{EARLY, Waiting, Waits};
use super::work::{Answers, Brought, Until, Work};
use crate::client::request::{self, FetchBounds};
use crate::pin;
use crate::problem::Problem;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// The longest sleep, after which the thread looks whether it should stop.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Once it was asked to stop, a thread waits so long for answers.
const PATIENCE_STOPPED: Duration = Duration::from_millis(500);
/// Asks a floor to let bytes flow; it does not look inside.
const FLOW: FetchBounds = FetchBounds {
    max_wait_ms: 0,
    min_bytes: 1,
    max_bytes: i32::MAX,
    partition_max_bytes: i32::MAX,
};

/// A [`Work`] that runs.
struct Worker<'a> {
    work: Work,
    begin: Instant,
    timing: &'a Timing,
    recorder: Recorder,
    waits: Waits,
    /// By place: the askers that may be used for it, and whose turn it is.
    by_place: Vec<(Vec<usize>, usize)>,
    joins: Vec<Option<Join>>,
    busy: Duration,
    read: Vec<Read>,
    /// Askers with something to be sent, so that what is due at once goes out at once.
    unsent: Vec<usize>,
    /// How often something was taken after a sleep, and how often without.
    taken: [u64; 2],
    /// Whether nothing new is begun.
    is_draining: bool,
    /// When load ended: at its end, or when it was stopped.
    until: Duration,
}

impl Work {
    /// Does it, from `begin` on.
    pub(crate) fn run(
        self,
        begin: Instant,
        timing: &Timing,
        stops: &[&Stop],
    ) -> Result<Brought, Problem> {
        pin::to(self.cpu)?;
        // Fifty microseconds otherwise, by which each timer may be late.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).map_err(system)?;
        let mut worker = Worker::new(self, begin, timing)?;
        worker.begin(stops)?;
        let (waited, since) = (waited(), Instant::now());
        worker.load(stops)?;
        let waited = self::waited().saturating_sub(waited).as_secs_f64();
        let waited = waited / since.elapsed().as_secs_f64().max(1e-9);
        worker.drain(stops)?;
        Ok(worker.finish(waited))
    }
}

impl<'a> Worker<'a> {
    fn new(work: Work, begin: Instant, timing: &'a Timing) -> Result<Self, Problem> {
        let mut waits = Waits::new().map_err(system)?;
        let links = work.askers.iter().map(|asker| &asker.link);
        let links = links.chain(work.readers.iter().map(|reader| &reader.link));
        for link in links.chain(&work.sinks) {
            waits.add(link).map_err(system)?;
        }
        let places = work.asking.places.len();
        let mut by_place = vec![(Vec::new(), 0); places];
        for (number, asker) in work.askers.iter().enumerate() {
            for place in &asker.places {
                by_place[*place].0.push(number);
            }
        }
        let mut readers = vec![0; places];
        for place in work.readers.iter().flat_map(Reader::places) {
            readers[place] += 1;
        }
        let is_joined = work.asking.until == Until::Delivered;
        let joins = readers
            .into_iter()
            .map(|count| (is_joined && count > 0).then(|| Join::new(count)));
        Ok(Self {
            recorder: Recorder::new(timing.warm_up, timing.end(), timing.slot),
            joins: joins.collect(),
            work,
            begin,
            timing,
            waits,
            by_place,
            busy: Duration::ZERO,
            read: Vec::new(),
            unsent: Vec::new(),
            taken: [0; 2],
            is_draining: false,
            until: timing.end(),
        })
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Consumers wait and sinks flow before anything is due.
    fn begin(&mut self, stops: &[&Stop]) -> Result<(), Problem> {
        for sink in &mut self.work.sinks {
            sink.queue(|out, correlation| {
                request::fetch(out, correlation, &FLOW, "flow", std::iter::once((0, 0)));
            });
            sink.push()?;
        }
        for reader in &mut self.work.readers {
            reader.ask(Duration::ZERO)?;
        }
        while Instant::now() < self.begin && !stops.iter().any(|stop| stop.is_asked()) {
            std::hint::spin_loop();
        }
        self.fill_all()
    }

    fn load(&mut self, stops: &[&Stop]) -> Result<(), Problem> {
        let mut ready = Vec::new();
        loop {
            let begun = self.now();
            // What was due before the end is sent after it, if we are late: to leave it out would
            // hide that. Within limits.
            let is_over = begun >= self.timing.end()
                && (!self.is_behind() || begun >= self.timing.end() + self.timing.grace);
            let is_stopped = stops.iter().any(|stop| stop.is_asked());
            if is_stopped {
                // What would have been due later is nobody's.
                self.until = begun.min(self.timing.end());
                self.recorder.end_at(self.until);
            }
            if is_over || is_stopped {
                self.is_draining = true;
                return Ok(());
            }
            if self.work.asking.answers == Answers::Nobody {
                // No answer brings the next one.
                self.fill_all()?;
            }
            let has_sent = self.send_what_is_due(begun)?;
            let until_sent = self.now();
            let timeout = self.timeout(until_sent);
            self.waits.ready(timeout, &mut ready).map_err(system)?;
            let woke = self.now();
            let has_taken = self.take(&ready)?;
            if self.recorder.counts(woke) {
                self.taken[usize::from(timeout.is_zero())] += u64::from(has_taken);
                if has_sent {
                    self.busy += until_sent - begun;
                }
                if has_taken {
                    self.busy += self.now() - woke;
                }
            }
        }
    }

    /// Whether something is due before the end that was not sent.
    fn is_behind(&self) -> bool {
        let pace = self.work.pace.as_ref();
        pace.is_some_and(|pace| pace.due() < self.timing.end())
    }

    /// Waits for what was due in time, up to a limit; not for long if whoever is there has asked
    /// us to stop.
    fn drain(&mut self, stops: &[&Stop]) -> Result<(), Problem> {
        let begun = self.now();
        let mut ready = Vec::new();
        while !self.is_done() {
            let limit = match stops.iter().any(|stop| stop.is_asked()) {
                true => self.timing.grace.min(PATIENCE_STOPPED),
                false => self.timing.grace,
            };
            if self.now() >= begun + limit {
                break;
            }
            self.waits
                .ready(Duration::from_millis(1), &mut ready)
                .map_err(system)?;
            self.take(&ready)?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let askers = &self.work.askers;
        askers
            .iter()
            .all(|asker| asker.link.asked.is_empty() && asker.backlog.is_empty())
            && self.joins.iter().flatten().all(Join::is_complete)
    }

    fn finish(mut self, waited: f64) -> Brought {
        let now = self.now();
        // Each consumer lacks what was not acknowledged.
        let readers = |place: usize| self.joins[place].as_ref().map_or(1, Join::readers);
        let asked = self.work.askers.iter().flat_map(|asker| {
            let asked = asker.link.asked.iter();
            let asked = asked.map(|asked| (asked.due, asked.partition));
            asked.chain(asker.backlog.iter().copied())
        });
        let asked = asked.flat_map(|(due, place)| std::iter::repeat_n(due, readers(place)));
        let lacking = self.joins.iter().flatten().flat_map(Join::lacking);
        for due in asked.chain(lacking) {
            self.recorder.gave_up(due, now);
        }
        // A record counts once, however many consumers it was delivered to.
        let copies = self.joins.iter().flatten().map(Join::readers).max();
        self.recorder.divide(copies.unwrap_or(1) as u64);
        // Not even sent, though due, because this thread was too slow.
        while let Some(pace) = &mut self.work.pace {
            let due = pace.due();
            if due >= self.until {
                break;
            }
            pace.advance();
            self.recorder.gave_up(due, now);
        }
        let awake = match (self.work.waiting, self.taken) {
            (Waiting::Spinning, _) | (_, [0, 0]) => 0.0,
            #[expect(clippy::cast_precision_loss, reason = "counts of a turn")]
            (Waiting::Parked, [asleep, awake]) => awake as f64 / (asleep + awake) as f64,
        };
        let measured = self.until.saturating_sub(self.timing.warm_up);
        let busy = self.busy.as_secs_f64() / measured.as_secs_f64().max(1e-9);
        Brought {
            recorder: self.recorder,
            until: self.until,
            busy,
            waited,
            awake,
        }
    }

    fn timeout(&self, now: Duration) -> Duration {
        let is_unasked = !self.work.is_paced && self.work.asking.answers == Answers::Nobody;
        if self.work.waiting == Waiting::Spinning || is_unasked {
            return Duration::ZERO;
        }
        let end = self.timing.end().saturating_sub(now);
        let due = self.work.pace.as_ref().map_or(SLEEP_MAX, |pace| {
            pace.due().saturating_sub(now).saturating_sub(EARLY)
        });
        due.min(end).min(SLEEP_MAX)
    }
}

/// How long this thread could have run and others did, since it began; zero where the kernel does
/// not count it.
fn waited() -> Duration {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = counts
        .split(' ')
        .nth(1)
        .and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn system(error: impl std::fmt::Display) -> Problem {
    Problem::new(format!(
        "the system refused something to a client's thread: {error}"
    ))
}
