//! What a tenant may use.

use crate::catalog::TenantName;
use crate::refusal::Limit;
use felix_core::quota::Budget;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// What a tenant may use. What is left out is not bounded here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Whose it is.
    pub tenant: TenantName,
    /// What it may publish on each broker; `None`: as the broker's own setting says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<PublishBudget>,
    /// How many streams it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams_max: Option<u32>,
    /// How many shards its streams may have, all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards_max: Option<u32>,
}

/// What may be published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishBudget {
    /// Bytes of batches in the long run.
    pub bytes_per_second: NonZeroU64,
    /// Bytes at once, after as much rest.
    pub burst_bytes: u64,
}

impl PublishBudget {
    /// As the brokers have it.
    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget {
            bytes_per_second: self.bytes_per_second,
            burst_bytes: self.burst_bytes,
        }
    }
}

impl Quota {
    /// Whether a tenant may have so many streams and shards.
    ///
    /// # Errors
    /// It may not.
    pub fn check(&self, streams: u64, shards: u64) -> Result<(), Limit> {
        for (what, field, asked, max) in [
            ("streams", "streams_max", streams, self.streams_max),
            ("shards", "shards_max", shards, self.shards_max),
        ] {
            if let Some(max) = max
                && asked > u64::from(max)
            {
                let tenant = self.tenant.clone();
                return Err(Limit::Quota {
                    tenant,
                    what,
                    field,
                    asked,
                    max,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_may_have_as_many_as_its_quota_says_and_not_one_more() {
        let mut quota = Quota {
            tenant: TenantName::new("t1").unwrap(),
            publish: None,
            streams_max: Some(2),
            shards_max: Some(6),
        };
        assert_eq!(quota.check(2, 6), Ok(()));
        let refusal = quota.check(3, 6).unwrap_err().to_string();
        assert!(
            refusal.contains("tenant t1 would have 3 streams"),
            "{refusal}"
        );
        assert!(refusal.contains("streams_max is 2"), "{refusal}");
        assert!(
            quota
                .check(2, 7)
                .unwrap_err()
                .to_string()
                .contains("shards_max is 6")
        );
        (quota.streams_max, quota.shards_max) = (None, None);
        assert_eq!(quota.check(u64::MAX, u64::MAX), Ok(()));
    }
}
