//! One step of the catalog.

use crate::catalog::Record;
use crate::edit::EditId;
use felix_core::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A place in the one order of all changes: 1 for the first, one more for each that follows, none
/// left out.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Sequence(u64);

impl Sequence {
    /// Before every change.
    pub const ZERO: Self = Self(0);

    /// The place of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The place after this. Panics after 2^64 - 1, which no catalog reaches.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Which state of a record is meant: the sequence of the change that made it so. So it is never
/// used twice, nor by a record made anew under an old name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(u64);

impl Version {
    /// The version of this number, as somebody was told it.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<Sequence> for Version {
    fn from(Sequence(number): Sequence) -> Self {
        Self(number)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What happened to a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// It is new.
    Created,
    /// It is otherwise.
    Updated,
    /// It is gone; a stream can still be restored.
    Deleted,
    /// A deleted stream is back.
    Restored,
    /// A deleted stream is gone for good, and its assignments with it.
    Purged,
}

/// What happened to one record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Its place among all changes.
    pub sequence: Sequence,
    /// When, by the clock of whoever took the edit.
    #[serde(with = "crate::spelling::timestamp")]
    pub at: Timestamp,
    /// The edit that made it.
    pub edit: EditId,
    /// What happened.
    pub op: Op,
    /// The record as it is after that; of one that is gone, as it was last.
    pub record: Record,
}

impl Change {
    /// Whether there is no such record any more.
    #[must_use]
    pub fn removes(&self) -> bool {
        match self.op {
            Op::Created | Op::Updated | Op::Restored => false,
            Op::Deleted => !matches!(self.record, Record::Stream(_)),
            Op::Purged => true,
        }
    }
}
