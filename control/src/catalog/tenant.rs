//! Whose streams they are.

use crate::catalog::TenantName;
use felix_core::Timestamp;
use serde::{Deserialize, Serialize};

/// A tenant: what belongs to one is never seen by another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Its name.
    pub name: TenantName,
    /// What people read, if they are to read something else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// When it was made.
    #[serde(with = "crate::spelling::timestamp")]
    pub created_at: Timestamp,
}
