//! What is with the shards and not charged yet.

use crate::mute::Throttle;
use felix_core::quota::{Charged, PublishQuota};
use std::rc::Rc;

/// Bytes of batches that were handed to their shards. They are written whether or not anybody hears
/// of it, so where nobody waits for the outcome any more they are charged then, all of them: who
/// breaks a connection before the commit is not given its budget anew. Lives with its connection.
pub(super) struct Uncharged {
    quota: Rc<dyn PublishQuota>,
    tenant: Rc<str>,
    bytes: u64,
}

impl Uncharged {
    /// So many bytes of this tenant.
    pub(super) fn new(quota: &Rc<dyn PublishQuota>, tenant: &Rc<str>, bytes: u64) -> Self {
        Self {
            quota: Rc::clone(quota),
            tenant: Rc::clone(tenant),
            bytes,
        }
    }

    /// Charges the tenant with what was written of it, whatever is left of its budget (claim 171).
    pub(super) async fn charge(mut self, written_bytes: u64) -> Throttle {
        self.bytes = 0;
        if written_bytes == 0 {
            return Throttle::default();
        }
        let throttle = match self.quota.charge(&self.tenant, written_bytes) {
            Charged::At(throttle) => throttle,
            Charged::Asked(answer) => answer.await,
        };
        Throttle::of(throttle)
    }
}

impl Drop for Uncharged {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // Nobody is there to be told the throttle.
            drop(self.quota.charge(&self.tenant, self.bytes));
        }
    }
}
