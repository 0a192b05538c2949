//! Settings: one table ([`table::TABLE`]) makes the flags, the environment variables, `--help` and
//! the page `docs/configuration.md`. They are read once, here, and passed down as plain structs.
//!
//! A flag wins over the environment, which wins over the defaults; `--dev` replaces some defaults.

mod resolved;
mod source;
pub(crate) mod table;
mod value;

pub(crate) use resolved::{Kafka, LogFormat, Logging, Settings, Storage};
pub(crate) use source::{Outcome, read};

use std::fmt;

/// Why the settings are refused. Each is one sentence that says what would be accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SettingsError {
    /// The command line itself: an unknown flag, a flag without a value.
    Usage(String),
    /// A value that its setting does not allow.
    Value {
        /// The setting's variable.
        variable: &'static str,
        /// Where the value came from, and the value, as the operator wrote it.
        given: String,
        /// What is wrong, with the bounds.
        fault: String,
    },
    /// Values that are fine alone and not together.
    Together(String),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Together(text) => write!(f, "{text}"),
            Self::Value {
                variable,
                given,
                fault,
            } => write!(f, "{variable}: {given} {fault}"),
        }
    }
}

impl std::error::Error for SettingsError {}
