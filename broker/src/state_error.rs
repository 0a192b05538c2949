//! Why the streams that a data directory knows cannot be served.

use crate::catalog_state::FILE;
use crate::file_fault::FileFault;
use felix_core::catalog::CatalogError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// See the module.
#[derive(Debug)]
pub(crate) enum StateError {
    /// The state file is not what was written.
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// There are logs and no state file.
    Lost(PathBuf),
    /// There are streams that were served, and nowhere any log of theirs. The data directory.
    LogsLost(PathBuf),
    /// A stream lost shards.
    Fewer {
        /// Its topic name.
        topic: String,
        /// Shards it had.
        had: u32,
        /// Shards it is said to have.
        asked: u32,
        /// What else can be done.
        anew: String,
    },
    /// The names or counts are refused.
    Catalog(CatalogError),
    /// No identity can be drawn.
    Randomness(io::Error),
    /// The state cannot be read or kept.
    File(FileFault),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { path, fault } => write!(
                f,
                "{} is damaged: {fault}; restore it from a backup, since the logs belong to the \
                 identities in it",
                path.display()
            ),
            Self::Lost(data) => write!(
                f,
                "the data directory {0} has logs in streams/ and no {FILE}, which says whose they \
                 are; restore it from a backup, or, to begin anew without these logs, move \
                 {0}/streams away",
                data.display()
            ),
            Self::LogsLost(data) => write!(
                f,
                "{0}/{FILE} knows streams that were served, and {0}/streams, where their logs \
                 were, is empty or gone; bring it back (is a disk not mounted?), or, to begin \
                 anew without any of these logs, move {0}/{FILE} away",
                data.display()
            ),
            Self::Fewer {
                topic,
                had,
                asked,
                anew,
            } => write!(
                f,
                "stream {topic} has {had} shards and the catalog says {asked}; shards cannot be \
                 taken away: say {had} or more, or, {anew}"
            ),
            Self::Catalog(error) => write!(f, "the catalog: {error}"),
            Self::Randomness(error) => write!(
                f,
                "no identity of a stream can be drawn: could not read {}: {error}; the broker \
                 needs that device",
                crate::identity::RANDOM
            ),
            Self::File(fault) => write!(f, "the data directory cannot keep streams: {fault}"),
        }
    }
}

impl std::error::Error for StateError {}

impl From<CatalogError> for StateError {
    fn from(error: CatalogError) -> Self {
        Self::Catalog(error)
    }
}

impl From<FileFault> for StateError {
    fn from(fault: FileFault) -> Self {
        Self::File(fault)
    }
}
