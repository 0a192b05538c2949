//! What a core that is not the dealer's holds of one tenant's budget.

use super::{Ask, Budget, Deal};
use crate::Monotonic;
use std::time::Duration;

/// An advance that was not used for this long goes back, so that a tenant that has rested finds its
/// burst, and no more than that.
const ADVANCE_LIFE: Duration = Duration::from_secs(1);

/// Which question of a core to its dealer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Round(u64);

/// How a charge was paid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paid {
    /// From the advance: the tenant is within its budget.
    Held,
    /// Not yet: the answer to this question tells how long the tenant is to be held back.
    With(Round),
}

/// One tenant's advance. At most one question to the dealer is under way; what is charged meanwhile
/// goes with the next. Lives on one CPU core.
#[derive(Debug)]
pub struct Purse {
    advance: u64,
    held: u64,
    /// When what is held was dealt.
    dealt: Monotonic,
    owed: u64,
    returned: u64,
    /// Questions asked so far.
    asked: Round,
    is_waiting: bool,
}

impl Purse {
    /// An empty one, of a core among so many.
    #[must_use]
    pub fn new(budget: Budget, cores: u16) -> Self {
        Self {
            advance: budget.advance_bytes(cores),
            held: 0,
            dealt: Monotonic::default(),
            owed: 0,
            returned: 0,
            asked: Round::default(),
            is_waiting: false,
        }
    }

    /// The tenant has published these bytes. To be followed by [`ask`](Self::ask).
    pub fn charge(&mut self, bytes: u64, now: Monotonic) -> Paid {
        if now.until(self.dealt) >= ADVANCE_LIFE {
            self.returned = self.returned.saturating_add(std::mem::take(&mut self.held));
        }
        let from_held = bytes.min(self.held);
        self.held -= from_held;
        if from_held == bytes {
            return Paid::Held;
        }
        self.owed = self.owed.saturating_add(bytes - from_held);
        Paid::With(Round(self.asked.0 + 1))
    }

    /// What is to be asked now, if anything is: before the advance is used up.
    pub fn ask(&mut self) -> Option<Ask> {
        let has_news = self.owed > 0 || self.returned > 0;
        let runs_low = self.held < self.advance.div_ceil(2);
        if self.is_waiting || !(has_news || runs_low) {
            return None;
        }
        self.is_waiting = true;
        self.asked.0 += 1;
        Some(Ask {
            owed: std::mem::take(&mut self.owed),
            returned: std::mem::take(&mut self.returned),
            held: self.held,
        })
    }

    /// The dealer has answered; which question that was. To be followed by
    /// [`ask_on`](Self::ask_on).
    pub fn dealt(&mut self, deal: Deal, now: Monotonic) -> Round {
        assert!(self.is_waiting, "an answer has its question");
        self.is_waiting = false;
        self.held = self.held.saturating_add(deal.granted);
        self.dealt = now;
        self.asked
    }

    /// What is to be asked after an answer: only what was charged meanwhile. An empty advance waits
    /// for somebody who needs it.
    pub fn ask_on(&mut self) -> Option<Ask> {
        if self.owed > 0 { self.ask() } else { None }
    }

    /// Whether it is worth keeping at this time: it holds or owes something.
    #[must_use]
    pub fn is_needed(&self, now: Monotonic) -> bool {
        let is_fresh = self.held > 0 && now.until(self.dealt) < ADVANCE_LIFE;
        self.is_waiting || self.owed > 0 || is_fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    fn purse() -> Purse {
        let budget = Budget {
            bytes_per_second: NonZeroU64::new(4000).unwrap(),
            burst_bytes: 4000,
        };
        Purse::new(budget, 4)
    }

    fn at(millis: u64) -> Monotonic {
        Monotonic(Duration::from_millis(millis))
    }

    fn granted(bytes: u64) -> Deal {
        Deal {
            granted: bytes,
            throttle: Duration::ZERO,
        }
    }

    #[test]
    fn the_first_charge_asks_and_later_ones_are_paid_ahead() {
        let mut purse = purse();
        assert_eq!(purse.charge(10, at(0)), Paid::With(Round(1)));
        let owed = |owed| Ask {
            owed,
            ..Ask::default()
        };
        assert_eq!(purse.ask(), Some(owed(10)));
        assert_eq!(purse.charge(5, at(0)), Paid::With(Round(2)));
        assert_eq!(purse.charge(6, at(0)), Paid::With(Round(2)));
        assert_eq!(purse.ask(), None, "one at a time");
        assert_eq!(purse.dealt(granted(100), at(1)), Round(1));
        assert_eq!(
            purse.ask_on(),
            Some(Ask {
                held: 100,
                ..owed(11)
            })
        );
        assert_eq!(purse.dealt(granted(0), at(1)), Round(2));
        assert_eq!(purse.ask_on(), None);
        assert_eq!(purse.charge(50, at(2)), Paid::Held);
        assert_eq!(purse.ask(), None);
        assert_eq!(purse.charge(1, at(2)), Paid::Held);
        assert_eq!(
            purse.ask(),
            Some(Ask {
                held: 49,
                ..owed(0)
            }),
            "in time"
        );
        assert_eq!(purse.charge(49, at(2)), Paid::Held);
        assert_eq!(purse.charge(1, at(2)), Paid::With(Round(4)));
    }

    #[test]
    fn an_advance_that_was_not_used_goes_back() {
        let mut purse = purse();
        purse.charge(1, at(0));
        purse.ask();
        purse.dealt(granted(100), at(0));
        assert!(purse.is_needed(at(999)));
        assert!(!purse.is_needed(at(1000)));
        assert_eq!(purse.charge(30, at(1000)), Paid::With(Round(2)));
        let ask = Ask {
            owed: 30,
            returned: 100,
            held: 0,
        };
        assert_eq!(purse.ask(), Some(ask));
        assert!(purse.is_needed(at(5000)));
    }
}
