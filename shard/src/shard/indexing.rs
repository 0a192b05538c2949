//! What a shard's log is owed once a flush has made a full segment durable.

use super::{Effects, Phase, Shard};
use crate::log::{Indexed, Indexing, LogError};
use felix_core::{Generation, Offset, ShardError};

impl Shard {
    /// Whether full segments lack their index files.
    pub(crate) fn is_unindexed(&self) -> bool {
        self.phase
            .borrow()
            .open()
            .is_ok_and(|open| open.log.is_unindexed())
    }

    /// Index files and a checkpoint to be written; see [`crate::log::Log::indexing`].
    pub(crate) fn begin_indexing(&self) -> Option<Indexing> {
        self.phase.borrow().open().ok()?.log.indexing()
    }

    /// Takes a finished indexing back.
    ///
    /// # Errors
    /// Why the files could not be written: the shard goes on without them.
    pub(crate) fn indexed(&self, result: Result<Indexed, LogError>) -> Result<Effects, LogError> {
        let taken = match &mut *self.phase.borrow_mut() {
            Phase::Open(open) => open.log.indexed(result),
            Phase::Failed(failed) => {
                let taken = failed.log.as_mut().map(|log| log.indexed(result));
                failed.settle();
                taken.unwrap_or(Ok(()))
            }
            Phase::Opening | Phase::Closed => Ok(()),
        };
        match taken {
            Ok(()) => Ok(Effects::default()),
            Err(error) if error.is_failed_sync() => Ok(self.fail(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// The generation of the record at `offset`.
    pub(crate) fn generation_at(&self, offset: Offset) -> Result<Generation, ShardError> {
        Ok(self.phase.borrow().open()?.log.generation_at(offset))
    }
}
