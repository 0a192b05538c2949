//! What there is no room for.

use crate::catalog::TenantName;
use crate::limits::RECORDS_MAX;
use felix_core::ShardId;
use std::fmt;

/// What there is no room for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The tenant's quota is used up.
    Quota {
        /// Whose.
        tenant: TenantName,
        /// What of.
        what: &'static str,
        /// The field that says so.
        field: &'static str,
        /// As many as there would be.
        asked: u64,
        /// As many as there may be.
        max: u32,
    },
    /// No generation is left for the shard.
    Generations(ShardId),
    /// The catalog has as many records as it may.
    Records,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota {
                tenant,
                what,
                field,
                asked,
                max,
            } => write!(
                f,
                "tenant {tenant} would have {asked} {what}, and its quota's {field} is {max}; raise \
                 it, or delete what is not needed"
            ),
            Self::Generations(shard) => {
                write!(
                    f,
                    "shard {shard} has used up its generations; make the stream anew"
                )
            }
            Self::Records => write!(
                f,
                "the catalog is full: it has {RECORDS_MAX} records; delete what is not needed"
            ),
        }
    }
}

impl std::error::Error for Limit {}
