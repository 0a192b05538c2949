//! Bounding what a tenant may use.

use super::{Steps, found};
use crate::catalog::{Key, Quota, Record, State};
use crate::refusal::Conflict;
use crate::{Op, Refusal, Version};

/// What is there already stays, whatever the quota: it bounds what comes.
pub(super) fn set(
    state: &State,
    quota: &Quota,
    based_on: Option<Version>,
) -> Result<Steps, Refusal> {
    let tenant = &quota.tenant;
    found(state.tenant(tenant), Key::Tenant(tenant.clone()))?;
    let known = state.quota(tenant);
    let now = known.map(|(version, _)| version);
    if based_on != now {
        let subject = Box::new(Key::Quota(tenant.clone()).into());
        return Err(Conflict::Stale {
            subject,
            based_on,
            now,
        }
        .into());
    }
    match known {
        Some((_, known)) if known == quota => Ok(Steps::new()),
        Some(_) => Ok(vec![(Op::Updated, Record::Quota(quota.clone()))]),
        None => Ok(vec![(Op::Created, Record::Quota(quota.clone()))]),
    }
}
