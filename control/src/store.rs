//! Where a catalog is kept, whoever keeps it.

use crate::catalog::State;
use crate::spelling;
use crate::{Change, Proposal, Refusal, Sequence};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// What a store answers, once it knows.
pub type Answer<'a, T, E = StoreError> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// Keeps a catalog. All its users see the same changes in the same order, in this process and in
/// others.
///
/// A future that is dropped undoes nothing: what was proposed may still be made.
pub trait Store: fmt::Debug + Send + Sync {
    /// Makes an edit, and keeps it: what was answered survives whatever becomes of this process.
    /// One that was made already is answered as it was then, as long as its changes are in the
    /// window.
    ///
    /// # Errors
    /// It is refused; or the store cannot say whether it was made, and is to be given the same
    /// proposal again.
    fn commit(&self, proposal: Proposal) -> Answer<'_, Committed, CommitError>;

    /// The catalog, with every change that anybody was told of before this was called.
    ///
    /// # Errors
    /// The store cannot be reached, or is damaged.
    fn snapshot(&self) -> Answer<'_, Snapshot>;

    /// The changes that follow a position, up to `max` of them or the greatest page; none, if there
    /// are none yet. What another process changed may be missing for a moment, and is then what
    /// [`Store::changed`] waits for. Whoever knows no more than this process is answered also while
    /// the store cannot be reached.
    ///
    /// # Errors
    /// The store is damaged or closed, or cannot be reached and somebody knows more of it.
    fn changes(&self, after: Position, max: usize) -> Answer<'_, Page>;

    /// Waits until [`Store::changes`] has an answer for a position other than that there are none.
    ///
    /// # Errors
    /// As there.
    fn changed(&self, after: Position) -> Answer<'_, ()>;
}

/// Identity of a catalog: 128 random bits from its foundation. So nobody follows one from where
/// they were in another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CatalogId(pub u128);

/// A place in the changes of a catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Which catalog.
    pub catalog: CatalogId,
    /// The last change that is known.
    pub sequence: Sequence,
}

/// A catalog at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Which catalog, and its last change: where to follow it from.
    pub position: Position,
    /// What it has.
    pub state: State,
}

/// What follows a position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Page {
    /// These, without a gap.
    Changes(Vec<Arc<Change>>),
    /// Nobody knows any more, or it was never a position of this catalog: take a snapshot.
    StartOver,
}

/// An edit that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// Where the catalog was with it: its own last change, or the last before it where it asked for
    /// nothing new.
    pub sequence: Sequence,
    /// What it changed, in order.
    pub changes: Vec<Arc<Change>>,
}

/// Why an edit was not made, or may not have been.
#[derive(Clone, Debug)]
pub enum CommitError {
    /// It is not to be made.
    Refused(Refusal),
    /// It may have been made.
    Store(StoreError),
}

/// What is wrong with a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// It cannot be reached at this time, or did not answer; why.
    Unavailable(String),
    /// It cannot be used as it was asked for, and trying again does not help; why, and what does.
    Unusable(String),
    /// What it has cannot be right; what, and where.
    Damaged(String),
    /// It has ended.
    Closed,
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for CommitError {}

impl From<Refusal> for CommitError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => {
                write!(f, "the catalog cannot be reached: {why}; try again")
            }
            Self::Unusable(why) => write!(f, "the catalog cannot be used: {why}"),
            Self::Damaged(what) => {
                write!(
                    f,
                    "the catalog is damaged: {what}; restore it from a backup"
                )
            }
            Self::Closed => write!(f, "the catalog is closed: its process is ending"),
        }
    }
}

impl std::error::Error for StoreError {}

impl fmt::Display for CatalogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for CatalogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CatalogId({self})")
    }
}

impl Serialize for CatalogId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CatalogId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        spelling::hex(&text)
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is not 32 hexadecimal digits")))
    }
}
