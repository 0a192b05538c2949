//! Looking for work a while before going to sleep.

use felix_core::{Clock, Monotonic};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// Times that the set is asked between two turns of the executor, which is when lanes, mailboxes,
/// timers and flushes are looked at. A turn costs as much as a few questions.
const QUESTIONS_PER_TURN: u8 = 4;

/// What a watchful core does next when it has found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Asks the set again.
    Ask,
    /// Lets the executor look at everything else.
    Turn,
    /// Sleeps.
    Sleep,
}

/// How long one core stays awake without work, and since when. Lives on that core.
pub(crate) struct Vigil {
    length: Duration,
    clock: Rc<dyn Clock>,
    until: Cell<Monotonic>,
    questions: Cell<u8>,
}

impl Vigil {
    pub(crate) fn new(length: Duration, clock: Rc<dyn Clock>) -> Self {
        Self {
            length,
            clock,
            until: Cell::default(),
            questions: Cell::new(0),
        }
    }

    /// There was work: the vigil begins anew.
    pub(crate) fn begin(&self) {
        self.until.set(self.clock.monotonic().after(self.length));
        self.questions.set(0);
    }

    /// Nothing was found.
    pub(crate) fn next(&self) -> Next {
        let questions = self.questions.get() + 1;
        if questions < QUESTIONS_PER_TURN {
            self.questions.set(questions);
            return Next::Ask;
        }
        self.questions.set(0);
        if self.clock.monotonic() < self.until.get() {
            Next::Turn
        } else {
            Next::Sleep
        }
    }
}

impl fmt::Debug for Vigil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vigil")
            .field("length", &self.length)
            .field("until", &self.until.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::Timestamp;

    #[derive(Default)]
    struct Hand(Cell<Monotonic>);

    impl Clock for Hand {
        fn wall(&self) -> Timestamp {
            Timestamp(0)
        }

        fn monotonic(&self) -> Monotonic {
            self.0.get()
        }
    }

    #[test]
    fn a_vigil_lasts_its_length_after_the_last_work_and_turns_now_and_then() {
        let hand: Rc<Hand> = Rc::default();
        let clock: Rc<Hand> = Rc::clone(&hand);
        let vigil = Vigil::new(Duration::from_micros(50), clock);
        let round = || [(); QUESTIONS_PER_TURN as usize].map(|()| vigil.next());
        let asked = |last| {
            let mut round = [Next::Ask; QUESTIONS_PER_TURN as usize];
            round[round.len() - 1] = last;
            round
        };
        assert_eq!(round(), asked(Next::Sleep), "no work yet");
        vigil.begin();
        assert_eq!(round(), asked(Next::Turn));
        hand.0.set(Monotonic(Duration::from_micros(49)));
        assert_eq!(round(), asked(Next::Turn));
        vigil.begin();
        hand.0.set(Monotonic(Duration::from_micros(98)));
        assert_eq!(round(), asked(Next::Turn));
        hand.0.set(Monotonic(Duration::from_micros(99)));
        assert_eq!(round(), asked(Next::Sleep));
    }
}
