//! Which connections of a core are to end because nothing has come of them for too long.
//!
//! One look at all of them now and then, instead of a timer for each: the connections write down
//! in passing what they do ([`Pulse`]), and an idle core wakes for this as rarely with ten thousand
//! of them as with one, and not at all with none.

use felix_core::memory::Short;
use felix_core::{Memory, Monotonic};
use felix_kafka::{Ending, Pulse};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

/// Looks within an idle timeout: a connection is closed at most this part of it late.
const LOOKS_PER_TIMEOUT: u32 = 8;

/// Between two looks at all of them: at least this long, and at most that.
const PERIOD_MIN: Duration = Duration::from_millis(10);
const PERIOD_MAX: Duration = Duration::from_millis(2500);

/// Connections looked at in one go, so that ten thousand do not hold the core.
const LOOK_MAX: usize = 256;

/// Between the parts of one look at all of them.
const PART_PAUSE: Duration = Duration::from_millis(1);

/// How long a peer may hold memory that others wait for while it moves less than
/// [`progress_bytes`] of it. A consumer that pauses may do so for as long as it likes where there
/// is enough.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Sent or taken by a peer, this is progress. One byte now and then is not: it would keep others
/// waiting, and its connection open, for days.
const PROGRESS_BYTES_MIN: u64 = 64 << 10;

/// Nor is this part of what a peer holds or less: who holds much has to move much, so that nobody
/// holds what others wait for longer than so many times [`STALL_MAX`].
const PROGRESS_PARTS: u64 = 4;

/// Why a connection was told to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// It asked nothing, hardly sent anything, and nothing was under way.
    Idle,
    /// It held memory that others waited for, and its peer did next to nothing.
    Stalled,
    /// It has not shown in time whom it speaks for.
    Unauthenticated,
}

/// How long a connection may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timeouts {
    /// To ask for something; `None`: for ever.
    pub(crate) idle: Option<Duration>,
    /// To authenticate, for as long as it speaks for nobody (claim 218).
    pub(crate) auth: Duration,
}

/// The connections of one core as the sweep knows them. Lives on that core.
#[derive(Debug)]
pub(crate) struct Sweep {
    timeouts: Timeouts,
    memory: Memory,
    watched: RefCell<BTreeMap<u64, Watched>>,
    next: Cell<u64>,
    /// Where the look under way has come to.
    looked_to: Cell<Option<u64>>,
}

/// What was seen of one connection.
#[derive(Debug)]
struct Watched {
    pulse: Rc<Pulse>,
    requests: u64,
    /// When it last asked, and the bytes it had moved by then.
    asked: Monotonic,
    asked_bytes: u64,
    request: Progress,
    answers: Progress,
    told: Option<Cause>,
}

/// How a peer goes on with what only it can go on with. Lives with its [`Watched`].
#[derive(Debug)]
struct Progress {
    /// The bytes it had moved when it last was in nobody's way, or had moved enough.
    bytes: u64,
    /// When that was.
    at: Monotonic,
}

/// The least that a peer has to move in [`STALL_MAX`] of so many bytes that it holds.
fn progress_bytes(held: usize) -> u64 {
    let held = u64::try_from(held).expect("a size fits 64 bits");
    PROGRESS_BYTES_MIN.max(held / PROGRESS_PARTS)
}

impl Progress {
    fn new(now: Monotonic) -> Self {
        Self { bytes: 0, at: now }
    }

    /// Looks at what was moved of the `held` bytes that are `awaited` by others; whether it has
    /// been too little for too long.
    fn has_stalled(&mut self, now: Monotonic, awaited: bool, held: usize, bytes: u64) -> bool {
        let moved = bytes.wrapping_sub(self.bytes);
        if !awaited || held == 0 || moved >= progress_bytes(held) {
            *self = Self { bytes, at: now };
        }
        now.until(self.at) >= STALL_MAX
    }
}

impl Sweep {
    /// Nobody yet.
    #[must_use]
    pub(crate) fn new(timeouts: Timeouts, memory: Memory) -> Self {
        Self {
            timeouts,
            memory,
            watched: RefCell::default(),
            next: Cell::new(0),
            looked_to: Cell::new(None),
        }
    }

    /// Watches over a connection that begins now; its number.
    pub(crate) fn add(&self, pulse: &Rc<Pulse>, now: Monotonic) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        let watched = Watched {
            pulse: Rc::clone(pulse),
            requests: 0,
            asked: now,
            asked_bytes: 0,
            request: Progress::new(now),
            answers: Progress::new(now),
            told: None,
        };
        self.watched.borrow_mut().insert(number, watched);
        number
    }

    /// A connection has ended.
    pub(crate) fn remove(&self, number: u64) {
        self.watched.borrow_mut().remove(&number);
    }

    /// Whether there is nobody to watch over.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.watched.borrow().is_empty()
    }

    /// How long to wait before the next [`look`](Self::look).
    #[must_use]
    pub(crate) fn pause(&self) -> Duration {
        if self.looked_to.get().is_some() {
            return PART_PAUSE;
        }
        let Timeouts { idle, auth } = self.timeouts;
        let period = idle.map_or(auth, |idle| idle.min(auth)) / LOOKS_PER_TIMEOUT;
        period.clamp(PERIOD_MIN, PERIOD_MAX)
    }

    /// Looks at some of the connections, tells those to end that must, and `ended` why.
    pub(crate) fn look(&self, now: Monotonic, mut ended: impl FnMut(Cause)) {
        let short = self.memory.short();
        let from = match self.looked_to.get() {
            Some(number) => Bound::Excluded(number),
            None => Bound::Unbounded,
        };
        let mut last = None;
        let mut told = Vec::new();
        let mut all = self.watched.borrow_mut();
        for (number, watched) in all.range_mut((from, Bound::Unbounded)).take(LOOK_MAX) {
            last = Some((*number, last.map_or(1, |(_, seen)| seen + 1)));
            if let Some(cause) = watched.look(now, self.timeouts, short) {
                told.push((Rc::clone(&watched.pulse), cause));
            }
        }
        drop(all);
        let more = last.filter(|(_, seen)| *seen == LOOK_MAX);
        self.looked_to.set(more.map(|(number, _)| number));
        for (pulse, cause) in told {
            pulse.end(match cause {
                Cause::Idle => Ending::Cleanly,
                Cause::Stalled => Ending::AtOnce,
                Cause::Unauthenticated => Ending::Unauthenticated,
            });
            ended(cause);
        }
    }
}

impl Watched {
    fn look(&mut self, now: Monotonic, timeouts: Timeouts, short: Short) -> Option<Cause> {
        let (requests, bytes) = (self.pulse.requests(), self.pulse.bytes());
        let begun = requests != self.requests;
        // Who is in the midst of a long request is asking.
        let asking = bytes.wrapping_sub(self.asked_bytes) >= PROGRESS_BYTES_MIN;
        if self.pulse.is_busy() || begun || asking {
            (self.requests, self.asked, self.asked_bytes) = (requests, now, bytes);
        }
        let holding = self.pulse.holding();
        // A request that has arrived whole is progress of requests, and none of answers.
        let awaited = short.requests && !begun;
        let received = self.pulse.received_bytes();
        let request = self
            .request
            .has_stalled(now, awaited, holding.request_bytes, received);
        let sent = self.pulse.sent_bytes();
        let answers = self
            .answers
            .has_stalled(now, short.answers, holding.answer_bytes, sent);
        let since = self.pulse.unauthenticated_since();
        let cause = if since.is_some_and(|since| now.until(since) >= timeouts.auth) {
            Cause::Unauthenticated
        } else if request || answers {
            Cause::Stalled
        } else if timeouts
            .idle
            .is_some_and(|idle| now.until(self.asked) >= idle)
        {
            Cause::Idle
        } else {
            return None;
        };
        // Told once: what ends cleanly may still take its time over it, as long as it is in nobody's
        // way.
        let news = match self.told {
            None => true,
            Some(Cause::Idle) => cause != Cause::Idle,
            Some(Cause::Stalled | Cause::Unauthenticated) => false,
        };
        news.then(|| *self.told.insert(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::memory::Share;
    use felix_kafka::Holding;
    use std::task::{Context, Waker};

    /// Longer than most tests look at.
    const AUTH: Duration = Duration::from_secs(100_000_000);

    fn seconds(count: u64) -> Monotonic {
        Monotonic(Duration::from_secs(count))
    }

    fn sweep(idle_timeout: Option<u64>) -> (Sweep, Memory) {
        let memory = Memory::new(32 << 20);
        let timeouts = Timeouts {
            idle: idle_timeout.map(Duration::from_secs),
            auth: AUTH,
        };
        (Sweep::new(timeouts, memory.clone()), memory)
    }

    fn look(sweep: &Sweep, now: u64) -> Vec<Cause> {
        let mut causes = Vec::new();
        loop {
            sweep.look(seconds(now), |cause| causes.push(cause));
            if sweep.pause() != PART_PAUSE {
                return causes;
            }
        }
    }

    #[test]
    fn who_asks_nothing_is_told_once_when_the_time_is_over() {
        let (sweep, _) = sweep(Some(600));
        for _ in 0..3 {
            sweep.add(&Rc::default(), seconds(0));
        }
        assert_eq!(look(&sweep, 599), []);
        assert_eq!(look(&sweep, 600), [Cause::Idle; 3]);
        assert_eq!(look(&sweep, 700), []);
    }

    #[test]
    fn a_request_that_flows_in_is_not_idle_and_one_that_drips_is() {
        for (bytes, idle) in [
            (0, true),
            (1, true),
            (PROGRESS_BYTES_MIN / 10 - 10, true),
            (PROGRESS_BYTES_MIN / 10 + 10, false),
        ] {
            let (sweep, _) = sweep(Some(10));
            let pulse: Rc<Pulse> = Rc::default();
            sweep.add(&pulse, seconds(0));
            let mut causes = Vec::new();
            for second in 1..60 {
                pulse.received(bytes);
                causes.extend(look(&sweep, second));
            }
            let expected = if idle { vec![Cause::Idle] } else { vec![] };
            assert_eq!(causes, expected, "{bytes} bytes a second");
        }
    }

    #[test]
    fn who_speaks_for_nobody_too_long_is_ended_whatever_it_does() {
        let timeouts = Timeouts {
            idle: None,
            auth: Duration::from_secs(10),
        };
        let sweep = Sweep::new(timeouts, Memory::new(32 << 20));
        let pulses: [Rc<Pulse>; 3] = Default::default();
        for pulse in &pulses {
            sweep.add(pulse, seconds(0));
        }
        let [busy, later, known] = &pulses;
        busy.unauthenticated(seconds(0));
        later.unauthenticated(seconds(5));
        known.unauthenticated(seconds(0));
        known.authenticated();
        for second in 1..10 {
            busy.show(true, Holding::default());
            busy.request();
            busy.received(1 << 20);
            assert_eq!(look(&sweep, second), []);
        }
        assert_eq!(look(&sweep, 10), [Cause::Unauthenticated]);
        assert_eq!(look(&sweep, 14), []);
        assert_eq!(look(&sweep, 15), [Cause::Unauthenticated]);
        assert_eq!(look(&sweep, 1000), []);
    }

    #[test]
    fn without_a_timeout_nobody_is_idle() {
        let (sweep, _) = sweep(None);
        sweep.add(&Rc::default(), seconds(0));
        assert_eq!(look(&sweep, 1_000_000), []);
    }

    #[test]
    fn ten_thousand_are_looked_at_in_parts_and_nobody_is_left_out() {
        let (sweep, _) = sweep(Some(600));
        let numbers: Vec<_> = (0..10_000)
            .map(|_| sweep.add(&Rc::default(), seconds(0)))
            .collect();
        let mut told = 0;
        sweep.look(seconds(600), |_| told += 1);
        assert_eq!(told, LOOK_MAX);
        // One that the look has come to leaves meanwhile.
        sweep.remove(numbers[LOOK_MAX - 1]);
        assert_eq!(look(&sweep, 600).len(), 10_000 - LOOK_MAX);
        assert_eq!(sweep.pause(), PERIOD_MAX);
        for number in numbers {
            sweep.remove(number);
        }
        assert!(sweep.is_empty());
    }

    const REQUEST: Holding = Holding {
        request_bytes: 200 << 10,
        answer_bytes: 0,
    };
    const ANSWERS: Holding = Holding {
        request_bytes: 0,
        answer_bytes: 200 << 10,
    };

    /// A connection that holds this while others wait for memory for requests, as `waiting` does.
    fn holder(sweep: &Sweep, memory: &Memory, holding: Holding) -> (Rc<Pulse>, [Share; 2]) {
        let shares = [(); 2].map(|()| Share::new(&memory.inbound));
        let [held, waiting] = &shares;
        held.overdraw(memory.inbound.free());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.poll_reserve(&mut cx, 1).is_pending());
        let pulse: Rc<Pulse> = Rc::default();
        pulse.show(true, holding);
        sweep.add(&pulse, seconds(0));
        (pulse, shares)
    }

    #[test]
    fn a_request_that_drips_in_while_others_wait_is_ended_and_one_that_flows_is_not() {
        for (bytes, ended) in [
            (0, true),
            (1, true),
            (PROGRESS_BYTES_MIN / 10 - 10, true),
            (PROGRESS_BYTES_MIN / 10 + 10, false),
        ] {
            let (sweep, memory) = sweep(None);
            let (pulse, _waiting) = holder(&sweep, &memory, REQUEST);
            let mut causes = Vec::new();
            for second in 1..60 {
                pulse.received(bytes);
                causes.extend(look(&sweep, second));
            }
            let expected = if ended { vec![Cause::Stalled] } else { vec![] };
            assert_eq!(causes, expected, "{bytes} bytes a second");
        }
    }

    #[test]
    fn who_holds_much_has_to_move_much() {
        let large = Holding {
            request_bytes: 8 << 20,
            answer_bytes: 0,
        };
        for (bytes, ended) in [
            (PROGRESS_BYTES_MIN, true),
            ((2 << 20) / 10 - 10, true),
            ((2 << 20) / 10 + 10, false),
        ] {
            let (sweep, memory) = sweep(None);
            let (pulse, _waiting) = holder(&sweep, &memory, large);
            let mut causes = Vec::new();
            for second in 1..60 {
                pulse.received(bytes);
                // What goes the other way is no progress.
                pulse.sent(1 << 20);
                causes.extend(look(&sweep, second));
            }
            let expected = if ended { vec![Cause::Stalled] } else { vec![] };
            assert_eq!(causes, expected, "{bytes} bytes a second");
        }
    }

    #[test]
    fn a_reader_that_asks_on_and_takes_nothing_is_ended_and_one_that_takes_is_not() {
        let (sweep, memory) = sweep(None);
        let held = Share::new(&memory.outbound);
        held.overdraw(memory.outbound.free());
        let readers = [0, 8 << 10].map(|bytes| {
            let pulse: Rc<Pulse> = Rc::default();
            pulse.show(true, ANSWERS);
            sweep.add(&pulse, seconds(0));
            (pulse, bytes)
        });
        let mut causes = Vec::new();
        for second in 1..60 {
            for (pulse, bytes) in &readers {
                pulse.request();
                pulse.received(1 << 20);
                pulse.sent(*bytes);
            }
            causes.extend(look(&sweep, second));
        }
        assert_eq!(causes, [Cause::Stalled]);
    }

    #[test]
    fn who_completes_requests_or_is_in_nobodys_way_may_be_slow() {
        let (sweep, memory) = sweep(None);
        let (pulse, waiting) = holder(&sweep, &memory, REQUEST);
        // Its answers are not what the others wait for.
        let reader: Rc<Pulse> = Rc::default();
        reader.show(true, ANSWERS);
        sweep.add(&reader, seconds(0));
        for round in 1..10 {
            pulse.request();
            assert_eq!(look(&sweep, round * 9), []);
        }
        drop(waiting);
        assert_eq!(look(&sweep, 1000), []);
        let held = Share::new(&memory.outbound);
        held.overdraw(memory.outbound.free());
        assert_eq!(look(&sweep, 1001), []);
        assert_eq!(look(&sweep, 1010), [Cause::Stalled], "the reader");
    }

    #[test]
    fn who_was_told_to_end_cleanly_and_then_holds_up_others_is_ended_at_once() {
        let (sweep, memory) = sweep(Some(5));
        let (pulse, _waiting) = holder(&sweep, &memory, Holding::default());
        pulse.show(false, Holding::default());
        assert_eq!(look(&sweep, 5), [Cause::Idle]);
        // The word crossed a request.
        pulse.show(true, REQUEST);
        assert_eq!(look(&sweep, 14), []);
        assert_eq!(look(&sweep, 15), [Cause::Stalled]);
        assert_eq!(look(&sweep, 100), []);
    }

    #[test]
    fn the_pause_follows_the_timeout_within_bounds() {
        assert_eq!(sweep(Some(8)).0.pause(), Duration::from_secs(1));
        assert_eq!(sweep(Some(0)).0.pause(), PERIOD_MIN);
        assert_eq!(sweep(Some(1_000_000)).0.pause(), PERIOD_MAX);
        assert_eq!(sweep(None).0.pause(), PERIOD_MAX);
    }
}
