//! The core that keeps every tenant's budget.

use super::bucket::Bucket;
use super::{Ask, Budgets, Deal};
use crate::Monotonic;
use std::collections::HashMap;
use std::time::Duration;

/// Tenants that are kept before those are looked for that need not be.
const KEPT_MIN: usize = 256;

/// The budgets as they are used. Lives on one CPU core, which other cores ask.
#[derive(Debug)]
pub struct Dealer {
    budgets: Budgets,
    cores: u16,
    buckets: HashMap<Box<str>, Bucket>,
    /// With so many tenants those are forgotten that have all of their budget.
    kept_max: usize,
}

impl Dealer {
    /// Nobody has published yet. `cores` is how many there are, this one included.
    #[must_use]
    pub fn new(budgets: Budgets, cores: u16) -> Self {
        Self {
            budgets,
            cores,
            buckets: HashMap::new(),
            kept_max: KEPT_MIN,
        }
    }

    /// What it deals with.
    #[must_use]
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// A tenant has published these bytes on the dealer's own core; how long it is to be held back.
    pub fn charge(&mut self, tenant: &str, bytes: u64, now: Monotonic) -> Duration {
        let throttle_max = self.budgets.throttle_max;
        self.bucket(tenant, now).map_or(Duration::ZERO, |bucket| {
            bucket.take(bytes);
            bucket.until_paid().min(throttle_max)
        })
    }

    /// Another core asks.
    pub fn deal(&mut self, tenant: &str, ask: Ask, now: Monotonic) -> Deal {
        let throttle_max = self.budgets.throttle_max;
        let budget = self.budgets.of(tenant);
        let advance = budget.map_or(0, |budget| budget.advance_bytes(self.cores));
        let Some(bucket) = self.bucket(tenant, now) else {
            return Deal::default();
        };
        bucket.put_back(ask.returned);
        bucket.take(ask.owed);
        Deal {
            granted: bucket.take_of(advance.saturating_sub(ask.held)),
            throttle: bucket.until_paid().min(throttle_max),
        }
    }

    /// The tenant's bucket as it is now; `None`: it has no bound.
    fn bucket(&mut self, tenant: &str, now: Monotonic) -> Option<&mut Bucket> {
        let budget = self.budgets.of(tenant)?;
        if !self.buckets.contains_key(tenant) {
            self.make_room(now);
            let full = Bucket::full(budget, now);
            self.buckets.insert(tenant.into(), full);
        }
        let bucket = self.buckets.get_mut(tenant)?;
        bucket.refill(now);
        Some(bucket)
    }

    /// Forgets whoever has rested long enough to begin anew, now and then.
    fn make_room(&mut self, now: Monotonic) {
        if self.buckets.len() < self.kept_max {
            return;
        }
        self.buckets.retain(|_, bucket| {
            bucket.refill(now);
            !bucket.is_full()
        });
        self.kept_max = KEPT_MIN.max(2 * self.buckets.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::Budget;
    use std::num::NonZeroU64;

    fn dealer() -> Dealer {
        let budget = Budget {
            bytes_per_second: NonZeroU64::new(1000).unwrap(),
            burst_bytes: 1000,
        };
        Dealer::new(Budgets::same(budget, Duration::from_secs(20)), 4)
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic(Duration::from_secs(seconds))
    }

    #[test]
    fn tenants_do_not_share_and_a_throttle_has_a_bound_that_a_debt_has_not() {
        let mut dealer = dealer();
        assert_eq!(dealer.charge("t1", 1000, at(0)), Duration::ZERO);
        assert_eq!(dealer.charge("t1", 500, at(0)), Duration::from_millis(500));
        assert_eq!(dealer.charge("t2", 1000, at(0)), Duration::ZERO);
        assert_eq!(
            dealer.charge("t1", 29_500, at(0)),
            Duration::from_secs(20),
            "of 30"
        );
        assert_eq!(dealer.charge("t1", 0, at(20)), Duration::from_secs(10));
    }

    #[test]
    fn an_advance_is_topped_up_and_never_comes_out_of_nothing() {
        let mut dealer = dealer();
        let ask = |owed, returned, held| Ask {
            owed,
            returned,
            held,
        };
        let granted = |deal: Deal| deal.granted;
        assert_eq!(granted(dealer.deal("t1", ask(0, 0, 0), at(0))), 25);
        assert_eq!(granted(dealer.deal("t1", ask(0, 0, 20), at(0))), 5);
        assert_eq!(granted(dealer.deal("t1", ask(0, 0, 99), at(0))), 0);
        let over = dealer.deal("t1", ask(1000, 0, 0), at(0));
        assert_eq!(over.granted, 0);
        assert_eq!(over.throttle, Duration::from_millis(30));
        let paid = dealer.deal("t1", ask(0, 40, 0), at(0));
        assert_eq!((paid.granted, paid.throttle), (10, Duration::ZERO));
    }

    #[test]
    fn who_has_rested_is_forgotten_and_who_owes_is_not() {
        let mut dealer = dealer();
        dealer.charge("debtor", 100_000, at(0));
        for tenant in 0..10_000 {
            dealer.charge(&tenant.to_string(), 10, at(tenant));
        }
        assert!(dealer.buckets.len() <= KEPT_MIN, "{}", dealer.buckets.len());
        // At the hundredth second it had paid, and was like a new one.
        assert_eq!(dealer.charge("debtor", 1000, at(10_000)), Duration::ZERO);
        dealer.charge("debtor", 1_000_000, at(10_000));
        for tenant in 0..1000 {
            dealer.charge(&tenant.to_string(), 10, at(10_001));
        }
        assert_eq!(
            dealer.charge("debtor", 0, at(10_990)),
            Duration::from_secs(10)
        );
    }
}
