//! A part of a tenant's names.

use crate::catalog::NamespacePath;
use felix_core::Timestamp;
use serde::{Deserialize, Serialize};

/// The namespace that every tenant begins with (claim 250).
pub const DEFAULT: &str = "default";

/// A namespace: the part of a topic name before its first dot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Where it is.
    pub path: NamespacePath,
    /// What people read, if they are to read something else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// When it was made.
    #[serde(with = "crate::spelling::timestamp")]
    pub created_at: Timestamp,
}
