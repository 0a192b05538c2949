//! How many bytes a tenant may publish, and how long it is held back for more.
//!
//! What is over budget is written all the same and owed: the time until it is paid is the throttle.
//! One core holds every tenant's [`Dealer`]; the others keep a small advance in a [`Purse`], from
//! which most charges are paid without asking. Times are passed in, and who carries an [`Ask`] to the
//! dealer and its [`Deal`] back is the caller's business. `docs/decisions/0015-quotas.md` says why.

mod bucket;
mod dealer;
mod purse;
#[cfg(test)]
mod tests;

pub use dealer::Dealer;
pub use purse::{Paid, Purse, Round};

use std::fmt;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::time::Duration;

/// What all cores together may hold of a budget ahead of need, as a part of what comes in a second:
/// a hundredth of ten seconds. It can be missing where it is needed, or come on top of a burst.
const ADVANCES_PER_SECOND: u64 = 10;

/// The same as a part of the burst, where that is less.
const ADVANCES_PER_BURST: u64 = 10;

/// What a connection may have under way, and so uncharged, as a part of what comes in a second. No flush
/// that is as it should be takes so long that one connection could not use its tenant's budget.
const UNCHARGED_PER_SECOND: u64 = 4;

/// What a tenant may publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Bytes of batches in the long run.
    pub bytes_per_second: NonZeroU64,
    /// Bytes at once, after as much rest.
    pub burst_bytes: u64,
}

impl Budget {
    /// The most that each of so many cores holds ahead of need.
    #[must_use]
    fn advance_bytes(&self, cores: u16) -> u64 {
        let of_second = self.bytes_per_second.get() / ADVANCES_PER_SECOND;
        let of_burst = self.burst_bytes / ADVANCES_PER_BURST;
        of_second.min(of_burst) / u64::from(cores.max(1))
    }

    /// The most that one connection has under way beside its oldest request.
    #[must_use]
    pub fn uncharged_bytes_max(&self) -> u64 {
        self.bytes_per_second.get() / UNCHARGED_PER_SECOND
    }
}

/// The budgets of all tenants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Budgets {
    of_each: Budget,
    /// No tenant is held back longer at a time; what it owes then stays owed.
    throttle_max: Duration,
}

impl Budgets {
    /// The same for every tenant.
    #[must_use]
    pub fn same(of_each: Budget, throttle_max: Duration) -> Self {
        Self {
            of_each,
            throttle_max,
        }
    }

    /// What this tenant may publish; `None`: as much as it likes.
    #[must_use]
    pub fn of(&self, _tenant: &str) -> Option<Budget> {
        Some(self.of_each)
    }
}

/// What a core tells the dealer of one tenant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ask {
    /// Bytes that were written and not paid for.
    pub owed: u64,
    /// Bytes of an advance that was not needed in time.
    pub returned: u64,
    /// Bytes of an advance that are left.
    pub held: u64,
}

/// What the dealer answers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Deal {
    /// Bytes that the core may let through without asking.
    pub granted: u64,
    /// How long it takes until what the tenant owes is paid, or as long as it may be held back.
    pub throttle: Duration,
}

/// What came of charging a tenant.
pub enum Charged {
    /// How long it is to be held back: not at all, if it is within its budget.
    At(Duration),
    /// The same, once another core has told.
    Asked(Pin<Box<dyn Future<Output = Duration>>>),
}

impl fmt::Debug for Charged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(throttle) => f.debug_tuple("At").field(throttle).finish(),
            Self::Asked(_) => f.write_str("Asked"),
        }
    }
}

/// Where what tenants publish is charged. Lives on one CPU core.
pub trait PublishQuota {
    /// So many bytes of this tenant have been written.
    fn charge(&self, tenant: &str, bytes: u64) -> Charged;

    /// Bytes of this tenant's produces that a connection may begin before the first of them is charged.
    /// One may be larger.
    fn uncharged_bytes_max(&self, tenant: &str) -> u64;
}
