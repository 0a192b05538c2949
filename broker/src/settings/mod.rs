//! Settings: one table ([`table::TABLE`]) makes the flags, the environment variables, the keys of
//! the settings file, `--help` and the table in `docs/configuration.md`. They are read once, here,
//! and passed down as plain structs.
//!
//! A flag (`command`) wins over the environment, which wins over the settings file (`file`), which
//! wins over the defaults; `--dev` replaces some defaults. `source` lets the layers meet, `value`
//! checks what won, `resolved` is what the rest of the broker sees, and `print` shows it.

mod command;
mod file;
mod nearest;
#[cfg(test)]
mod page;
mod print;
mod publish;
mod resolved;
mod setting;
mod source;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod tls;
mod value;

pub(crate) use resolved::{Kafka, LogFormat, Logging, Settings, Storage};
pub(crate) use source::{Outcome, read};
pub(crate) use tls::{OwnFiles, Tls};

use std::fmt;

/// Why the settings are refused. Each is one sentence that says what would be accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SettingsError {
    /// The command line itself: an unknown flag, a flag without a value.
    Usage(String),
    /// The settings file itself: unreadable, no TOML, an unknown key, a value of another type.
    File(String),
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
            Self::Usage(text) | Self::File(text) | Self::Together(text) => write!(f, "{text}"),
            Self::Value {
                variable,
                given,
                fault,
            } => write!(f, "{variable}: {given} {fault}"),
        }
    }
}

impl std::error::Error for SettingsError {}
